//! Measures the memory of one cache of pods in one or more representations.

use std::time::Duration;

use clap::{Args, ValueEnum};
use informer::client::Client;
use informer::runtime::Cache;
use k8s_openapi::api::core::v1::Pod;
use tokio::time::sleep;

use crate::{Failure, Figures};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A pause within which the allocator returns the memory of the initial list to the system.
pub(crate) const SETTLE: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct Caches {
    /// The URL of the server.
    #[arg(long)]
    server: String,
    /// Number of pods on the server.
    #[arg(long)]
    objects: usize,
    /// The representations in which the cache holds the pods, all at the same time.
    #[arg(long, value_enum, value_delimiter = ',')]
    forms: Vec<Representations>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Representations {
    Structured,
    Metadata,
    Packed,
}

pub(crate) async fn measure(caches: Caches) -> Result<Figures, Failure> {
    let cache = Cache::new(Client::new(kube_client::Config::new(caches.server.parse()?))?);
    cache.start();
    let before = resident();
    for form in &caches.forms {
        let objects = cached(&cache, *form).await?;
        if objects != caches.objects {
            return Err(format!("{objects} objects of {}", caches.objects).into());
        }
    }
    sleep(SETTLE).await;
    let after = resident();
    let each = (after - before) / caches.objects as f64;
    let case = match caches.forms.as_slice() {
        [Representations::Structured] => "structured cache, KB a pod",
        [Representations::Metadata] => "metadata cache, KB a pod",
        [Representations::Packed] => "packed cache, KB a pod",
        _ => "all three side by side, KB a pod",
    };
    Ok([(case.to_owned(), each.into())].into_iter().collect())
}

async fn cached(cache: &Cache, form: Representations) -> Result<usize, Failure> {
    match form {
        Representations::Structured => {
            let informer = cache.informer::<Pod>();
            informer.wait_for_sync(PATIENCE).await?;
            Ok(informer.len())
        }
        Representations::Metadata => {
            let informer = cache.metadata::<Pod>();
            informer.wait_for_sync(PATIENCE).await?;
            Ok(informer.len())
        }
        Representations::Packed => {
            let informer = cache.packed::<Pod>();
            informer.wait_for_sync(PATIENCE).await?;
            Ok(informer.len())
        }
    }
}

/// Returns the resident memory of this process in kilobytes; zero if the system does not report it.
pub(crate) fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
