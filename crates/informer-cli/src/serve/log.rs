//! `--log`: a line on stderr for each request.
//!
//! # Shutdown
//!
//! The thread that writes ends with the server, whose hook holds the sender of the lines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use informer_apiserver::{FaultAction, RequestHook, RequestRecord};

use crate::request_text;

/// The maximum number of lines that wait to be written. Further ones are lost and counted, so that a slow
/// terminal does not delay requests.
const MAX_WAITING_LINES: usize = 10_000;

/// Sends a line for each response to the thread that writes them.
#[derive(Debug)]
pub(super) struct RequestLog {
    lines: SyncSender<String>,
    lost: AtomicU64,
}

impl RequestLog {
    /// Creates the log, and starts the thread that writes its lines to stderr.
    pub(super) fn start() -> Self {
        let (lines, received) = sync_channel(MAX_WAITING_LINES);
        std::thread::spawn(move || write(&received));
        Self { lines, lost: AtomicU64::new(0) }
    }
}

impl RequestHook for RequestLog {
    fn request(&self, _: &RequestRecord) -> Vec<FaultAction> {
        Vec::new()
    }

    fn response(&self, request: &RequestRecord, status: u16) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let before = if lost == 0 { String::new() } else { format!("({lost} requests are not shown)\n") };
        if self.lines.try_send(before + &line(request, status)).is_err() {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }
}

fn write(lines: &Receiver<String>) {
    lines.iter().for_each(|line| eprintln!("{line}"));
}

/// Returns the line of a request: the seconds since the start of the server, the client, the request and the
/// status.
fn line(request: &RequestRecord, status: u16) -> String {
    let (seconds, agent, text) =
        (request.at.as_secs_f64(), request_text::agent(request), request_text::request(request));
    let user = if request.user.is_empty() { String::new() } else { format!(" ({})", request.user) };
    format!("{seconds:9.3}  {agent}{user}: {text} -> {status}")
}
