//! Measures one controller, once with many keys and once with one key at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer::client::Client;
use informer::runtime::handler::enqueue_object;
use informer::runtime::{Controller, Manager, Outcome, Request, source};
use informer::{Header, ObjectKey};
use informer_apiserver::ApiServer;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::{Failure, Figures};

const KEYS: usize = 50_000;
/// The number of rounds of the case with many keys. The best round is reported, because other programs only
/// add time.
const ROUNDS: usize = 3;
/// The number of triggers to an idle controller. Before each there is a pause, in which the controller's
/// worker goes to sleep.
const TRIGGERS: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) async fn measure() -> Result<Figures, Failure> {
    let mut many = f64::INFINITY;
    for _ in 0..ROUNDS {
        many = many.min(many_keys().await?);
    }
    let (p50, p99) = idle().await?;
    let figures = [
        ("50,000 keys through one worker, ms", many),
        ("event to reconcile, idle controller, p50 us", p50),
        ("event to reconcile, idle controller, p99 us", p99),
    ];
    Ok(figures.map(|(case, figure)| (case.to_owned(), figure.into())).into_iter().collect())
}

fn manager() -> Manager {
    let server = ApiServer::builder().build();
    Manager::new(Client::from_service(server.service(), "default"))
}

/// Runs a controller whose source adds all keys at once. Returns the time from the first add to the end of
/// the last reconcile, in milliseconds.
async fn many_keys() -> Result<f64, Failure> {
    let (done, count) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let keys: Vec<Request> =
        (0..KEYS).map(|n| format!("default/key-{n}").parse()).collect::<Result<_, _>>()?;
    let (begun, begin) = oneshot::channel();
    let begun = Mutex::new(Some(begun));
    let keys = source::function("keys", move |enqueuer: source::Enqueuer| {
        if let Some(begun) = begun.lock().take() {
            let _ = begun.send(Instant::now());
        }
        keys.iter().for_each(|key| enqueuer.enqueue(0).add(key.clone()));
        async { Ok(()) }
    });
    let notify = Arc::clone(&done);
    let controller = Controller::builder().named("many").source(keys).reconcile(move |_, _| {
        if count.fetch_add(1, Ordering::Relaxed) + 1 == KEYS {
            notify.notify_one();
        }
        async { Ok(Outcome::Done) }
    });
    let ended = Arc::new(Mutex::new(None));
    let end = Arc::clone(&ended);
    let stop = async move {
        done.notified().await;
        *end.lock() = Some(Instant::now());
    };
    manager().controller(controller).run_until(stop).await?;
    let ended = ended.lock().ok_or("the controller did not reconcile all keys")?;
    Ok((ended - begin.await?).as_secs_f64() * 1e3)
}

/// Returns the time from sending a trigger to a channel until its reconcile starts, in microseconds: p50 and
/// p99.
async fn idle() -> Result<(f64, f64), Failure> {
    let (sender, receiver) = mpsc::channel(1);
    let (told, mut heard) = mpsc::channel(1);
    let channel = source::channel("triggers", receiver, enqueue_object());
    let controller = Controller::builder().named("idle").source(channel).reconcile(move |_, _| {
        let (now, told) = (Instant::now(), told.clone());
        async move {
            told.send(now).await?;
            Ok(Outcome::Done)
        }
    });
    let manager = manager().controller(controller);
    let stop = manager.handle();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    let object = Arc::new(Header::new("default/idle".parse::<ObjectKey>()?));
    let mut times = Vec::with_capacity(TRIGGERS);
    for _ in 0..TRIGGERS {
        tokio::time::sleep(PAUSE).await;
        let sent = Instant::now();
        sender.send(Arc::clone(&object)).await?;
        let reconciled = heard.recv().await.ok_or("the controller ended")?;
        times.push((reconciled - sent).as_secs_f64() * 1e6);
    }
    stop.stop();
    running.await??;
    times.sort_by(f64::total_cmp);
    Ok((times[TRIGGERS / 2], times[TRIGGERS * 99 / 100]))
}
