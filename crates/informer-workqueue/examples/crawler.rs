//! Crawls a directory tree with a work queue and sums up the sizes of its files: a complete program without
//! Kubernetes.
//!
//! ```sh
//! cargo run -p informer-workqueue --example crawler -- /usr/share
//! ```
//!
//! A key is a directory. Processing it adds its subdirectories, deduplicated by the queue. An unreadable
//! directory is retried with backoff, and given up after three retries. The crawl ends when no key is ready,
//! waiting or in process. Ctrl-C ends it early and prints the sums so far.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informer_workqueue::{ExponentialPerItem, WorkOutcome, WorkQueue, Workers};

/// Number of directories that are read concurrently.
const WORKERS: usize = 8;

#[derive(Default)]
struct Totals {
    directories: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
}

#[tokio::main]
async fn main() {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let backoff = ExponentialPerItem::new(Duration::from_millis(10), Duration::from_secs(1));
    let queue = WorkQueue::builder()
        .rate_limiter(backoff)
        // Large top-level directories take turns with small ones, so that the small ones are not delayed.
        .fair_by(|path: &PathBuf| {
            path.components().nth(1).map_or("".into(), |c| c.as_os_str().to_string_lossy())
        })
        .build();
    let totals = Arc::new(Totals::default());
    queue.add(root);

    let work = {
        let (queue, totals) = (queue.clone(), Arc::clone(&totals));
        move |path: PathBuf| {
            let (queue, totals) = (queue.clone(), Arc::clone(&totals));
            async move {
                // Reading a directory blocks, so it runs on a blocking thread.
                let found = tokio::task::spawn_blocking(move || list(&path)).await??;
                totals.directories.fetch_add(1, Ordering::Relaxed);
                totals.files.fetch_add(found.files, Ordering::Relaxed);
                totals.bytes.fetch_add(found.bytes, Ordering::Relaxed);
                queue.add_all(found.directories);
                Ok::<_, io::Error>(WorkOutcome::Done)
            }
        }
    };
    let report = Workers::new(queue.clone())
        .count(WORKERS)
        .max_retries(3)
        .drain_within(Duration::from_secs(5))
        .on_failure(|path: &PathBuf, failure| eprintln!("{}: {failure}", path.display()))
        .run_until(finished_or_interrupted(queue), work)
        .await;

    let Totals { directories, files, bytes } = &*totals;
    println!(
        "{} directories, {} files, {} bytes",
        directories.load(Ordering::Relaxed),
        files.load(Ordering::Relaxed),
        bytes.load(Ordering::Relaxed)
    );
    println!("{} retries, {} given up, {} left", report.retried, report.given_up, report.left);
}

/// Resolves when the queue is empty or Ctrl-C was pressed.
async fn finished_or_interrupted(queue: WorkQueue<PathBuf>) {
    tokio::select! {
        () = queue.idle() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

struct DirectoryContent {
    directories: Vec<PathBuf>,
    files: u64,
    bytes: u64,
}

fn list(path: &Path) -> io::Result<DirectoryContent> {
    let mut found = DirectoryContent { directories: Vec::new(), files: 0, bytes: 0 };
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // Symbolic links are not followed, so the crawl has no cycles.
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            found.directories.push(entry.path());
        } else {
            found.files += 1;
            found.bytes += metadata.len();
        }
    }
    Ok(found)
}
