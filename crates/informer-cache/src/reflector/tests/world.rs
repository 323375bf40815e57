use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use informer_core::Object;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Change;
use crate::queue::{QueueClosed, ReflectorStore};
use crate::reflector::{Reflector, ReflectorConfig, ReflectorHandle, ReflectorStatus, RelistReason};
use crate::source::DynListWatch;
use crate::testing::{ScriptedServer, ScriptedSource, TestObject};

pub(super) struct Recorder {
    changes: Mutex<Vec<String>>,
    pushes: Mutex<Vec<usize>>,
    closed: Mutex<bool>,
    room: watch::Sender<bool>,
}

impl Recorder {
    pub(super) fn new() -> Arc<Self> {
        let room = watch::Sender::new(true);
        Arc::new(Self { changes: Mutex::default(), pushes: Mutex::default(), closed: Mutex::default(), room })
    }

    /// Returns the changes that the reflector has written to this queue since the last call, as strings.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.changes.lock())
    }

    pub(super) fn pushes(&self) -> Vec<usize> {
        self.pushes.lock().clone()
    }

    pub(super) fn close(&self) {
        *self.closed.lock() = true;
    }

    pub(super) fn set_room(&self, room: bool) {
        self.room.send_replace(room);
    }
}

impl ReflectorStore<TestObject> for Recorder {
    fn push(&self, changes: Vec<Change<TestObject>>) -> Result<(), QueueClosed> {
        if *self.closed.lock() {
            return Err(QueueClosed);
        }
        self.pushes.lock().push(changes.len());
        self.changes.lock().extend(changes.iter().map(describe));
        Ok(())
    }

    fn ready(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut room = self.room.subscribe();
        Box::pin(async move {
            let _ = room.wait_for(|room| *room).await;
        })
    }
}

fn describe(change: &Change<TestObject>) -> String {
    let Change::Replaced(replacement) = change else {
        return match change {
            Change::Deleted(gone) => {
                format!("Deleted({}{})", gone.key(), if gone.stale() { " missed" } else { "" })
            }
            Change::Undecodable(what) => format!("Undecodable({what})"),
            other => format!("{other:?}"),
        };
    };
    let items: Vec<String> = replacement
        .items
        .iter()
        .map(|item| format!("{} @{}", item.object().key(), item.object().resource_version()))
        .collect();
    let mut text = format!("Replaced[{}] @{}", items.join(", "), replacement.version);
    for undecodable in &replacement.undecodable {
        text += &format!(" undecodable {undecodable}");
    }
    if replacement.rewound { text + " rewound" } else { text }
}

pub(super) struct World {
    pub(super) server: ScriptedServer<TestObject>,
    pub(super) handle: ReflectorHandle,
    pub(super) queue: Arc<Recorder>,
    pub(super) cancel: CancellationToken,
    pub(super) task: JoinHandle<Result<(), QueueClosed>>,
    mark: Instant,
    _stop: DropGuard,
}

impl World {
    pub(super) fn start(config: ReflectorConfig) -> Self {
        Self::with(ScriptedSource::new(), config)
    }

    pub(super) fn streaming(config: ReflectorConfig) -> Self {
        Self::with(ScriptedSource::streaming(), config)
    }

    fn with(
        (source, server): (ScriptedSource<TestObject>, ScriptedServer<TestObject>),
        config: ReflectorConfig,
    ) -> Self {
        let queue = Recorder::new();
        let store: Arc<dyn ReflectorStore<TestObject>> = queue.clone();
        let reflector = Reflector::new(DynListWatch::new(source), store, config);
        Self::run(reflector, server, queue)
    }

    pub(super) fn run(
        reflector: Reflector<TestObject>,
        server: ScriptedServer<TestObject>,
        queue: Arc<Recorder>,
    ) -> Self {
        let (handle, cancel) = (reflector.handle(), CancellationToken::new());
        let token = cancel.clone();
        let task = tokio::spawn(async move { reflector.run(token).await });
        let (mark, stop) = (Instant::now(), cancel.clone().drop_guard());
        Self { server, handle, queue, cancel, task, mark, _stop: stop }
    }

    /// Returns the simulated time since the last call of this method, or since the start of the reflector.
    /// Tests use it to measure how long the reflector waited.
    pub(super) fn lap(&mut self) -> Duration {
        let lap = self.mark.elapsed();
        self.mark = Instant::now();
        lap
    }

    /// Runs all tasks that can run now, and returns the changes that the queue has received since the last
    /// call.
    pub(super) async fn told(&self) -> Vec<String> {
        // The clock is paused and advances only when every task waits, so this sleep ends after all tasks
        // have run.
        sleep(Duration::from_millis(1)).await;
        self.queue.take()
    }

    pub(super) fn status(&self) -> ReflectorStatus {
        self.handle.status()
    }

    /// Returns the reasons for which the reflector has listed, each with its number of lists. The first list
    /// is included; reasons without a list are not.
    pub(super) fn relists(&self) -> Vec<(RelistReason, u64)> {
        self.status().relists.iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the resourceVersion in each list request so far, and the number of watch requests.
    pub(super) fn asked(&self) -> (Vec<String>, usize) {
        let requests = self.server.requests();
        let lists = requests.iter().filter(|request| request.is_list());
        let versions: Vec<String> = lists.map(|list| list.version().to_string()).collect();
        let watches = requests.len() - versions.len();
        (versions, watches)
    }
}

/// Returns the range of the wait after the n-th consecutive failure (counted from 0), with the default
/// configuration. The jitter at most doubles a wait.
pub(super) fn wait_bounds(nth: u32) -> std::ops::Range<Duration> {
    let base =
        Duration::from_millis(800).saturating_mul(2_u32.saturating_pow(nth)).min(Duration::from_secs(30));
    // A test that waits measures, in addition to the backoff, up to a millisecond of timer granularity.
    base..base * 2 + Duration::from_millis(2)
}
