//! Measures many watches that receive the changes of one object, and watches whose client never reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::connect::{Ask, Body, Connection, Target};
use crate::process::Processes;
use crate::{Failure, Figures, Load, create};

const NAMESPACE: &str = "watched";
const STALLED: &str = "stalled";
const STALLED_WATCHES: usize = 100;
/// Maximum number of changes of the pod in each of the two rounds of [`stall`].
const STALLED_WRITES: usize = 5_000;
/// The timeout of [`reached`], which waits until a number of events was delivered.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state that the writer of the changes and the readers of all watches share: the number of deliveries,
/// and the time of each write. The readers share no lock, so that this client does not limit the result.
struct Deliveries {
    began: Instant,
    /// Microseconds from `began` to each write.
    sent: Box<[AtomicU64]>,
    writes: AtomicUsize,
    delivered: AtomicUsize,
    /// The number of deliveries for which the writer waits.
    awaited: AtomicUsize,
    reached: Notify,
}

/// The delays from each write to its delivery to one reader, in microseconds.
type Delays = Arc<Mutex<Vec<u32>>>;

impl Deliveries {
    fn new(writes: usize) -> Self {
        Self {
            began: Instant::now(),
            sent: std::iter::repeat_with(AtomicU64::default).take(writes).collect(),
            writes: AtomicUsize::new(0),
            delivered: AtomicUsize::new(0),
            awaited: AtomicUsize::new(0),
            reached: Notify::new(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Records the current time as the send time of the next write.
    fn send(&self) {
        let write = self.writes.fetch_add(1, Ordering::SeqCst);
        if let Some(sent) = self.sent.get(write) {
            sent.store(self.now(), Ordering::SeqCst);
        }
    }

    /// Returns the microseconds from the write with index `write` in `sent` until `now`.
    fn since(&self, write: usize, now: u64) -> u32 {
        let sent = self.sent.get(write).map_or(now, |sent| sent.load(Ordering::SeqCst));
        u32::try_from(now.saturating_sub(sent)).unwrap_or(u32::MAX)
    }
}

pub(crate) async fn measure(
    target: &Target,
    server: &Processes,
    load: &Load,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let mut writer = target.connect().await?;
    fill(&mut writer, NAMESPACE, 1).await?;
    // `sent` contains the time of the initial state, then the times of the writes that are made one at a
    // time, then the times of the writes that are made without a pause.
    let told = Arc::new(Deliveries::new(1 + 2 * load.writes));
    let mut all = Vec::new();
    let before = server.resident();
    for _ in 0..load.watchers {
        let (connection, body) = open(target, NAMESPACE).await?;
        let delays = Delays::default();
        all.push(Arc::clone(&delays));
        tokio::spawn(read(connection, body, Arc::clone(&told), delays));
    }
    let held = (server.resident() - before) * 1024.0 / load.watchers as f64;
    figures.put("an idle watch, RSS KB", held);
    // Each watch first receives the pod in its initial state, which counts as one delivery.
    told.send();
    reached(&told, load.watchers).await?;
    all.iter().for_each(|delays| delays.lock().clear());
    let deliveries = (load.watchers * load.writes) as f64;
    let (began, cpu) = (Instant::now(), server.cpu());
    for n in 1..=load.writes {
        write(&mut writer, &told, NAMESPACE, n).await?;
        reached(&told, load.watchers * (n + 1)).await?;
    }
    figures.put("one write at a time, deliveries a second", deliveries / began.elapsed().as_secs_f64());
    figures.put("one write at a time, server CPU us a delivery", (server.cpu() - cpu) * 1e6 / deliveries);
    let mut delays: Vec<u32> = all.iter().flat_map(|delays| std::mem::take(&mut *delays.lock())).collect();
    delays.sort_unstable();
    let at = |part: f64| delays.get((delays.len() as f64 * part) as usize).copied().unwrap_or_default();
    figures.put("one write at a time, p50 us", at(0.5).into());
    figures.put("one write at a time, p99 us", at(0.99).into());
    let (began, cpu) = (Instant::now(), server.cpu());
    for n in 1..=load.writes {
        write(&mut writer, &told, NAMESPACE, load.writes + n).await?;
    }
    reached(&told, load.watchers * (2 * load.writes + 1)).await?;
    figures.put("writes in a row, deliveries a second", deliveries / began.elapsed().as_secs_f64());
    figures.put("writes in a row, server CPU us a delivery", (server.cpu() - cpu) * 1e6 / deliveries);
    Ok(())
}

/// Measures the memory that the server needs for watches whose client never reads: opens such watches, and
/// changes their pod repeatedly.
pub(crate) async fn stall(
    target: &Target,
    server: &Processes,
    load: &Load,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let mut writer = target.connect().await?;
    fill(&mut writer, STALLED, 1).await?;
    let writes = STALLED_WRITES.min(load.objects);
    let told = Deliveries::new(2 * writes);
    let mut grown = [0.0; 2];
    let mut held = Vec::new();
    // In the first round no watch is open, so the server's memory grows only by the history of changes.
    for (at, watches) in [0, STALLED_WATCHES].into_iter().enumerate() {
        for _ in 0..watches {
            held.push(open(target, STALLED).await?);
        }
        let before = server.resident();
        for n in 0..writes {
            write(&mut writer, &told, STALLED, at * writes + n).await?;
        }
        grown[at] = server.resident() - before;
    }
    let each = (grown[1] - grown[0]) * 1024.0 / STALLED_WATCHES as f64;
    figures.put("a watch that never reads, RSS KB", each.max(0.0));
    Ok(())
}

async fn fill(writer: &mut Connection, namespace: &str, count: usize) -> Result<(), Failure> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    writer.read(Ask::post("/api/v1/namespaces"), body.to_string().into()).await?;
    for n in 0..count {
        let mut pod: serde_json::Value = serde_json::from_slice(&create::pod(n))?;
        pod["metadata"]["namespace"] = namespace.into();
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        writer.read(Ask::post(&path), pod.to_string().into()).await?;
    }
    Ok(())
}

async fn open(target: &Target, namespace: &str) -> Result<(Connection, Body), Failure> {
    let mut connection = target.connect().await?;
    let path =
        format!("/api/v1/namespaces/{namespace}/pods?watch=true&resourceVersion=0&timeoutSeconds=3000");
    let response = connection.ask(Ask::get(&path), Bytes::new()).await?;
    if response.status().is_success() {
        Ok((connection, response.into_body()))
    } else {
        Err(format!("a watch request was rejected with {}", response.status()).into())
    }
}

async fn write(writer: &mut Connection, told: &Deliveries, namespace: &str, n: usize) -> Result<(), Failure> {
    let body = json!({"metadata": {"labels": {"bench-sent": format!("n{n:07}")}}}).to_string();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{}", crate::objects::name_of(0));
    told.send();
    writer.read(Ask::patch(&path), body.into()).await.map(drop)
}

/// Reads a watch, and records the number of its events and their delays. Each event is one line, and events
/// arrive in the order of the writes, so the position of an event identifies its write.
async fn read(_connection: Connection, mut body: Body, told: Arc<Deliveries>, delays: Delays) {
    let mut seen = 0;
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let lines = memchr::memchr_iter(b'\n', &data).count();
        if lines == 0 {
            continue;
        }
        let now = told.now();
        delays.lock().extend((seen..seen + lines).map(|write| told.since(write, now)));
        seen += lines;
        let delivered = told.delivered.fetch_add(lines, Ordering::SeqCst) + lines;
        if delivered >= told.awaited.load(Ordering::SeqCst) {
            told.reached.notify_one();
        }
    }
}

async fn reached(told: &Deliveries, count: usize) -> Result<(), Failure> {
    told.awaited.store(count, Ordering::SeqCst);
    let all = async {
        // `read` increments `delivered` before it loads `awaited`, and this function stores `awaited` before
        // it loads `delivered`. At least one of them sees the value of the other, so no notification is
        // missed.
        while told.delivered.load(Ordering::SeqCst) < count {
            told.reached.notified().await;
        }
    };
    match tokio::time::timeout(PATIENCE, all).await {
        Ok(()) => Ok(()),
        Err(_) => {
            let seen = told.delivered.load(Ordering::SeqCst);
            Err(format!("{seen} of {count} events arrived within {PATIENCE:?}").into())
        }
    }
}
