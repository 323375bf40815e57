#[cfg(feature = "prometheus")]
mod leases;
#[cfg(feature = "prometheus")]
mod metrics;
mod warm_up;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use informer_apiserver::ApiServer;
use informer_client::Client;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{AddError, Manager, ManagerStatus};
use crate::{BoxError, Runnable, RunnableGroup, runnable};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    /// Returns a runnable that writes its start and its stop to this log. It takes a second to become ready,
    /// and a second to stop.
    fn runnable(&self, name: &'static str, group: RunnableGroup) -> TestRunnable {
        let second = Duration::from_secs(1);
        TestRunnable { name, group, ready: Some(second), stop: second, log: self.clone(), early: None }
    }
}

struct TestRunnable {
    name: &'static str,
    group: RunnableGroup,
    /// The time after which the runnable becomes ready; `None` if it is ready when it runs.
    ready: Option<Duration>,
    stop: Duration,
    log: Log,
    early: Option<&'static str>,
}

impl Runnable for TestRunnable {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn group(&self) -> RunnableGroup {
        self.group
    }

    fn ready(&self, timeout: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        let (time, name) = (self.ready?, self.name);
        let ready = tokio::time::timeout(timeout, sleep(time));
        Some(ready.map(move |ended| ended.map_err(|_| format!("{name} waits for rain").into())).boxed())
    }

    fn warm_up(&mut self) -> Option<Box<dyn Runnable>> {
        let mut early = self.log.runnable(self.early?, RunnableGroup::LeaderOnly);
        early.ready = None;
        Some(Box::new(early))
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        async move {
            self.log.add(format!("+{}", self.name));
            stop.cancelled().await;
            sleep(self.stop).await;
            self.log.add(format!("-{}", self.name));
            Ok(())
        }
        .boxed()
    }
}

fn client() -> Client {
    Client::from_service(ApiServer::builder().build().service(), "default")
}

fn manager() -> Manager {
    Manager::new(client())
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn runnables_start_in_group_order_and_stop_in_reverse() {
    let log = Log::default();
    let manager = manager()
        .add(log.runnable("controller", RunnableGroup::LeaderOnly))
        .add(log.runnable("cache", RunnableGroup::Caches))
        .add(log.runnable("health", RunnableGroup::HttpServers))
        .add(log.runnable("webhook", RunnableGroup::Webhooks))
        .add(log.runnable("other", RunnableGroup::Others));
    manager.run_until(sleep(seconds(10))).await.expect("a clean stop");
    let expected = "+health +webhook +cache +other +controller -controller -other -cache -webhook -health";
    assert_eq!(log.all().join(" "), expected);
}

#[tokio::test(start_paused = true)]
async fn group_starts_when_previous_group_is_ready() {
    let log = Log::default();
    let mut slow = log.runnable("slow", RunnableGroup::Caches);
    slow.ready = Some(seconds(50));
    let manager = manager().add(slow).add(log.runnable("other", RunnableGroup::Others));
    let handle = manager.handle();
    let running = tokio::spawn(manager.run_until(sleep(seconds(100))));
    sleep(seconds(49)).await;
    assert_eq!(log.all(), ["+slow"]);
    assert_eq!(*handle.status().borrow(), ManagerStatus::Starting);
    sleep(seconds(2)).await;
    assert_eq!(log.all(), ["+slow", "+other"]);
    sleep(seconds(1)).await;
    assert_eq!(*handle.status().borrow(), ManagerStatus::Running);
    running.await.expect("no panic").expect("a clean stop");
    assert_eq!(*handle.status().borrow(), ManagerStatus::Stopped);
}

#[tokio::test(start_paused = true)]
async fn first_error_stops_all_runnables_and_names_the_failed_one() {
    let log = Log::default();
    let bad = runnable("bad", |_| async {
        sleep(seconds(3)).await;
        Err("out of paper".into())
    });
    let worse = runnable("worse", |stop: CancellationToken| async move {
        stop.cancelled().await;
        Err("on fire".into())
    });
    let manager = manager().add(log.runnable("cache", RunnableGroup::Caches)).add(bad).add(worse);
    let error = manager.run_until(std::future::pending::<()>()).await.expect_err("a part failed");
    assert_eq!(error.to_string(), "the manager ended: bad failed; while stopping, worse failed");
    let cause = std::error::Error::source(&error).expect("a cause");
    assert_eq!(cause.to_string(), "out of paper");
    assert_eq!(error.later_errors().len(), 1);
    assert_eq!(log.all(), ["+cache", "-cache"], "the others were stopped and awaited");
}

#[tokio::test(start_paused = true)]
async fn panic_of_runnable_is_caught_and_named() {
    let panics = runnable("clumsy", |_| async { panic!("dropped {}", "a plate") });
    let error = manager().add(panics).run_until(std::future::pending::<()>()).await.expect_err("it panicked");
    assert_eq!(error.to_string(), "the manager ended: clumsy panicked: dropped a plate");
    assert!(error.first().is_some_and(super::RunnableError::is_panic));
}

#[tokio::test(start_paused = true)]
async fn runnable_that_completes_does_not_stop_the_manager() {
    let log = Log::default();
    let done = runnable("done", |_| async { Ok(()) }).group(RunnableGroup::Caches);
    let manager = manager().add(done).add(log.runnable("other", RunnableGroup::Others));
    manager.run_until(sleep(seconds(5))).await.expect("a clean stop");
    assert_eq!(log.all(), ["+other", "-other"]);
}

#[tokio::test(start_paused = true)]
async fn runnable_that_does_not_stop_is_named_at_the_deadline() {
    let log = Log::default();
    let mut stuck = log.runnable("stuck", RunnableGroup::LeaderOnly);
    stuck.stop = Duration::MAX;
    let mut cache = log.runnable("cache", RunnableGroup::Caches);
    cache.stop = Duration::ZERO;
    let manager = manager().add(stuck).add(cache);
    let begun = Instant::now();
    let error = manager.run_until(sleep(seconds(5))).await.expect_err("it did not stop");
    assert_eq!(begun.elapsed(), seconds(35));
    assert_eq!(error.unstopped(), ["stuck"]);
    assert_eq!(error.to_string(), "the manager ended; not stopped after 30s: stuck");
    assert_eq!(log.all(), ["+cache", "+stuck", "-cache"]);
}

#[tokio::test(start_paused = true)]
async fn zero_stop_timeout_waits_for_nothing() {
    let log = Log::default();
    let manager = manager().add(log.runnable("slow", RunnableGroup::Others)).stop_timeout(Duration::ZERO);
    let begun = Instant::now();
    let error = manager.run_until(sleep(seconds(5))).await.expect_err("it had no time to stop");
    assert_eq!(begun.elapsed(), seconds(5));
    assert!(error.unstopped().contains(&"slow".to_owned()), "{error}");
}

#[tokio::test(start_paused = true)]
async fn unlimited_stop_timeout_waits_for_the_slowest_runnable() {
    let log = Log::default();
    let mut slow = log.runnable("slow", RunnableGroup::Others);
    slow.stop = seconds(100_000);
    let manager = manager().add(slow).stop_timeout(Duration::MAX);
    manager.run_until(sleep(seconds(5))).await.expect("a clean stop");
    assert_eq!(log.all(), ["+slow", "-slow"]);
}

#[tokio::test(start_paused = true)]
async fn runnable_added_while_running_starts_at_once_and_stops_with_its_group() {
    let log = Log::default();
    let manager = manager().add(log.runnable("controller", RunnableGroup::LeaderOnly));
    let handle = manager.handle();
    let running = tokio::spawn(manager.run_until(sleep(seconds(60))));
    sleep(seconds(10)).await;
    handle.add(log.runnable("late", RunnableGroup::Caches)).expect("it is running");
    sleep(seconds(1)).await;
    assert_eq!(log.all(), ["+controller", "+late"]);
    running.await.expect("no panic").expect("a clean stop");
    assert_eq!(log.all(), ["+controller", "+late", "-controller", "-late"]);
}

#[tokio::test(start_paused = true)]
async fn stopping_manager_rejects_runnables() {
    let log = Log::default();
    let manager = manager().add(log.runnable("slow", RunnableGroup::Others));
    let handle = manager.handle();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    sleep(seconds(5)).await;
    handle.stop();
    tokio::task::yield_now().await;
    let refused = handle.add(log.runnable("late", RunnableGroup::Others)).expect_err("it stops");
    assert_eq!(refused.to_string(), "add late: the manager is stopping; start a new one");
    running.await.expect("no panic").expect("a clean stop");
    assert!(matches!(
        handle.add(log.runnable("late", RunnableGroup::Others)),
        Err(AddError::Stopping { .. })
    ));
    assert_eq!(log.all(), ["+slow", "-slow"]);
}

#[tokio::test(start_paused = true)]
async fn runnable_not_ready_in_time_stops_the_manager_with_its_reason() {
    let log = Log::default();
    let mut dry = log.runnable("garden", RunnableGroup::Caches);
    dry.ready = Some(Duration::MAX);
    let manager = manager().add(dry).add(log.runnable("controller", RunnableGroup::LeaderOnly));
    let begun = Instant::now();
    let error = manager.run_until(std::future::pending::<()>()).await.expect_err("it was not ready");
    assert_eq!(begun.elapsed(), seconds(121), "two minutes, and a second to stop");
    assert_eq!(error.to_string(), "the manager ended: garden was not ready");
    assert_eq!(
        std::error::Error::source(&error).map(ToString::to_string).as_deref(),
        Some("garden waits for rain")
    );
    assert_eq!(log.all(), ["+garden", "-garden"], "the controller never started");
}

/// A runnable that never becomes ready. It ignores the timeout that the manager passes to it, so the manager
/// must stop waiting by itself.
struct Procrastinator;

impl Runnable for Procrastinator {
    fn name(&self) -> String {
        "procrastinator".to_owned()
    }

    fn group(&self) -> RunnableGroup {
        RunnableGroup::Caches
    }

    fn ready(&self, _: Duration) -> Option<BoxFuture<'static, Result<(), BoxError>>> {
        Some(std::future::pending().boxed())
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        async move {
            stop.cancelled().await;
            Ok(())
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn runnable_that_ignores_the_ready_timeout_is_not_awaited() {
    let manager = manager().add(Procrastinator).start_timeout(seconds(10));
    let error = manager.run_until(std::future::pending::<()>()).await.expect_err("it was not ready");
    assert_eq!(error.to_string(), "the manager ended: procrastinator was not ready after 10s");
    assert!(error.first().is_some_and(super::RunnableError::is_not_ready));
}

#[tokio::test(start_paused = true)]
async fn stop_during_start_starts_nothing_more() {
    let log = Log::default();
    let mut slow = log.runnable("cache", RunnableGroup::Caches);
    slow.ready = Some(seconds(100));
    let manager = manager().add(slow).add(log.runnable("controller", RunnableGroup::LeaderOnly));
    let begun = Instant::now();
    manager.run_until(sleep(seconds(5))).await.expect("a clean stop");
    assert_eq!(begun.elapsed(), seconds(6));
    assert_eq!(log.all(), ["+cache", "-cache"]);
}

#[tokio::test(start_paused = true)]
async fn manager_stopped_before_start_ends_at_once() {
    let log = Log::default();
    let manager = manager().add(log.runnable("cache", RunnableGroup::Caches));
    manager.handle().stop();
    let begun = Instant::now();
    manager.run_until(std::future::pending::<()>()).await.expect("a clean stop");
    assert!(begun.elapsed() <= seconds(1));
}

#[tokio::test(start_paused = true)]
async fn warm_up_runs_before_its_runnable() {
    let log = Log::default();
    let mut controller = log.runnable("controller", RunnableGroup::LeaderOnly);
    controller.early = Some("warm-up");
    manager().add(controller).run_until(sleep(seconds(5))).await.expect("a clean stop");
    assert_eq!(log.all(), ["+warm-up", "+controller", "-controller", "-warm-up"]);
}

#[tokio::test(start_paused = true)]
async fn runnable_that_cannot_be_created_is_reported_before_start() {
    struct Broken;
    impl crate::IntoRunnable for Broken {
        fn into_runnable(self, manager: &crate::ManagerHandle) -> Result<Box<dyn Runnable>, BoxError> {
            manager.claim_name("website")?;
            Ok(Box::new(runnable("website", |_| async { Ok(()) })))
        }
    }
    let log = Log::default();
    let manager =
        manager().controller(Broken).controller(Broken).add(log.runnable("cache", RunnableGroup::Caches));
    let error = manager.run_until(std::future::pending::<()>()).await.expect_err("two have one name");
    let cause = std::error::Error::source(&error).expect("a cause");
    assert_eq!(cause.to_string(), "the name website is taken in this manager; use another name");
    assert!(log.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ended_manager_leaves_no_task_behind() {
    let server = ApiServer::builder().build();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for fails in [false, true] {
        let client = Client::from_service(server.service(), "default");
        let last_words = runnable("last words", move |stop: CancellationToken| async move {
            stop.cancelled().await;
            sleep(seconds(3)).await;
            if fails { Err("too late".into()) } else { Ok(()) }
        });
        let controller = crate::Controller::new::<k8s_openapi::api::core::v1::ConfigMap>("maps");
        let controller = controller.reconcile(|_, _| async { Ok(crate::Outcome::Done) });
        let election = crate::LeaderElection::new("operator");
        let manager = Manager::new(client).leader_election(election).controller(controller).add(last_words);
        let recorder = manager.handle().recorder("tests");
        recorder.normal(crate::EventSubject::new("v1", "Pod", "default", "web"), "Told", "Telling", "once");
        assert_eq!(manager.run_until(sleep(seconds(20))).await.is_err(), fails);
        sleep(seconds(1)).await;
        assert_eq!(alive(), before, "with a failure: {fails}");
    }
    let events = informer_core::Gvr::new("events.k8s.io", "v1", "events");
    assert!(server.list(&events, "default").expect("the kind is served").len() >= 2);
}

/// Returns a manager with leader election, a controller that owns objects, and a sharded controller, to test
/// the stop of a whole program.
fn whole_program(server: &ApiServer) -> Manager {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    let client = Client::from_service(server.service(), "default");
    let maps = crate::Controller::new::<ConfigMap>("maps").owns::<Secret>();
    let shared = crate::Controller::new::<Secret>("secrets").sharded(crate::ShardGroup::new("secrets"));
    let enqueuer = crate::source::function("enqueuer", |enqueuer| async move {
        enqueuer.spawn(std::future::pending());
        Ok(())
    });
    Manager::new(client)
        .leader_election(crate::LeaderElection::new("operator"))
        .controller(maps.reconcile(|_, _| async { Ok(crate::Outcome::Done) }))
        .controller(shared.source(enqueuer).reconcile(|_, _| async { Ok(crate::Outcome::Done) }))
}

#[tokio::test(start_paused = true)]
async fn dropped_manager_leaves_no_task_behind() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for millis in [0, 1, 100, 5_000, 60_000] {
        let server = ApiServer::builder().build();
        let running = whole_program(&server).run_until(std::future::pending::<()>());
        let ended = tokio::time::timeout(Duration::from_millis(millis), running).await;
        assert!(ended.is_err(), "it runs until it is dropped");
        sleep(Duration::from_millis(1)).await;
        assert_eq!(alive(), before, "dropped after {millis} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn manager_that_does_not_stop_in_time_leaves_no_task_behind() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let server = ApiServer::builder().build();
    // The stop timeout is zero, so the manager drops runnables that would need more time. One of them is the
    // shard group's member, which waits until other members have observed that it left.
    let manager = whole_program(&server).stop_timeout(Duration::ZERO);
    let ended = manager.run_until(sleep(seconds(60))).await;
    assert!(ended.is_err_and(|error| !error.unstopped().is_empty()));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(alive(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runnables_added_during_start_and_stop_run_or_are_rejected() {
    for _ in 0..20 {
        let log = Log::default();
        let manager = manager();
        let handle = manager.handle();
        let adders: Vec<_> = (0..4)
            .map(|_| {
                let (handle, log) = (handle.clone(), log.clone());
                tokio::spawn(async move {
                    for _ in 0..50 {
                        let log = log.clone();
                        let part = runnable("late", |stop: CancellationToken| async move {
                            log.add("+");
                            stop.cancelled().await;
                            log.add("-");
                            Ok(())
                        });
                        let _ = handle.add(part);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        let stopper = tokio::spawn(async move {
            for _ in 0..25 {
                tokio::task::yield_now().await;
            }
            handle.stop();
        });
        manager.run_until(std::future::pending::<()>()).await.expect("a clean stop");
        for task in adders.into_iter().chain([stopper]) {
            task.await.expect("no panic");
        }
        let count = |sign: &str| log.all().iter().filter(|entry| *entry == sign).count();
        assert_eq!(count("+"), count("-"), "the started runnables were stopped and awaited");
    }
}

#[cfg(feature = "prometheus")]
#[tokio::test]
async fn manager_serves_metrics_probes_and_debug_pages() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = || async { tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port") };
    let (probes, metrics, pages) = (listener().await, listener().await, listener().await);
    let address = |listener: &tokio::net::TcpListener| listener.local_addr().expect("a bound listener");
    let addresses = [address(&probes), address(&metrics), address(&pages)];
    let manager = manager().health(probes).metrics(metrics).debug_pages(pages);
    let handle = manager.handle();
    let queue = informer_workqueue::WorkQueue::builder().metrics(handle.queue_metrics("websites")).build();
    queue.add("web");
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    handle.status().wait_for(|status| *status == ManagerStatus::Running).await.expect("it is running");

    let get = |server: usize, path: &'static str| async move {
        let mut stream = tokio::net::TcpStream::connect(addresses[server]).await.expect("the server listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the server reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("a text response");
        response
    };
    assert!(get(0, "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(get(0, "/livez/manager").await.ends_with("\r\n\r\nok"));
    let metrics = get(1, "/metrics").await;
    assert!(metrics.contains("workqueue_depth{name=\"websites\"} 1"), "{metrics}");
    assert!(get(2, "/debug/queues").await.contains("\"ready\":1"));
    assert!(get(2, "/debug/informers").await.ends_with("{\"informers\":[]}"));
    handle.stop();
    running.await.expect("no panic").expect("a clean stop");
    assert!(tokio::net::TcpStream::connect(addresses[0]).await.is_err());
}
