//! Tests of controllers with warm-up (`ControllerOptions::warm_up`): a standby starts their sources before it
//! becomes the leader. The tests use slow sources, blocking handlers, and a standby that becomes the leader.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use bytes::Bytes;
use http::{Request as HttpRequest, StatusCode};
use http_body_util::Full;
use informer_core::Gvr;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tower::ServiceExt;

use super::*;
use crate::handler::{Enqueue, Handler, enqueue_object};
use crate::source::{Source, function, kind, watch};
use crate::{
    Controller, ControllerHandle, ControllerOptions, ControllerPhase, LeaderElection, Leadership,
    ManagerError, ManagerHandle, Outcome, Probe, Request, Trigger,
};

struct Replica {
    handle: ManagerHandle,
    controller: ControllerHandle,
    log: Log,
    task: tokio::task::JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    /// Adds a controller with this source to a manager, and runs the manager. The controller writes each
    /// reconciled request to the log.
    fn start(manager: Manager, options: ControllerOptions, source: impl Source<Request>, log: Log) -> Self {
        let reconciled = log.clone();
        let controller = Controller::builder().named("web").with_options(options).source(source);
        let controller = controller.reconcile(move |request: Request, _| {
            reconciled.add(request.to_string());
            async { Ok(Outcome::Done) }
        });
        let (handle, controller_handle) = (manager.handle(), controller.handle());
        let running = manager.controller(controller).run_until(std::future::pending::<()>());
        Self { handle, controller: controller_handle, log, task: tokio::spawn(running) }
    }

    async fn runs(&self) {
        let started =
            |status: &ManagerStatus| !matches!(status, ManagerStatus::Created | ManagerStatus::Starting);
        let status = self.handle.status().wait_for(started).await.expect("the handle is alive").clone();
        assert_eq!(status, ManagerStatus::Running);
    }

    async fn readyz(&self) -> StatusCode {
        self.handle.health().respond(Probe::Ready, &http::Uri::from_static("/readyz")).await.status()
    }

    fn phase(&self) -> ControllerPhase {
        self.controller.state().expect("it was added").phase
    }

    fn queued(&self) -> usize {
        self.controller.state().expect("it was added").queue.ready
    }

    async fn stop(self) {
        self.handle.stop();
        self.task.await.expect("no panic").expect("a clean stop");
    }
}

fn warm() -> ControllerOptions {
    ControllerOptions::new().warm_up(true)
}

fn slow(takes: Duration) -> impl Source<Request> {
    function("slow", move |enqueuer| async move {
        sleep(takes).await;
        enqueuer.enqueue(0).add("default/a".parse().expect("a key"));
        Ok(())
    })
}

#[tokio::test(start_paused = true)]
async fn manager_is_ready_while_a_warm_up_is_slow() {
    let replica = Replica::start(manager(), warm(), slow(seconds(60)), Log::default());
    sleep(seconds(1)).await;
    assert_eq!(*replica.handle.status().borrow(), ManagerStatus::Running);
    assert_eq!(replica.readyz().await, StatusCode::OK);
    sleep(seconds(58)).await;
    assert_eq!((replica.phase(), replica.log.all()), (ControllerPhase::Starting, vec![]));
    sleep(seconds(2)).await;
    assert_eq!(replica.log.all(), ["default/a"]);
    replica.stop().await;
}

#[tokio::test(start_paused = true)]
async fn warm_up_that_hangs_ends_leader_and_standby_at_the_sync_timeout_with_an_error_naming_the_source() {
    let server = ApiServer::builder().build();
    let replica = |identity: &str| {
        let manager = Manager::new(Client::from_service(server.service(), "default"));
        let manager = manager.leader_election(LeaderElection::new("operator").identity(identity));
        let options = warm().sync_timeout(seconds(30));
        Replica::start(manager, options, slow(Duration::MAX), Log::default())
    };
    let leader = replica("first");
    sleep(seconds(1)).await;
    let standby = replica("second");
    sleep(seconds(28)).await;
    assert!(leader.handle.is_leader() && !standby.handle.is_leader());
    for replica in [leader, standby] {
        assert_eq!(replica.readyz().await, StatusCode::OK);
        let error = replica.task.await.expect("no panic").expect_err("a source hangs");
        let text = error.to_string();
        assert!(text.starts_with("the manager ended: warm-up of controller web failed"), "{text}");
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(cause.contains("the source function slow did not deliver"), "{cause}");
        assert_eq!(replica.log.all(), [""; 0]);
    }
}

/// A handler that blocks its thread for each trigger, until the test sends a message or drops the sender.
struct Blocking {
    log: Log,
    release: Mutex<mpsc::Receiver<()>>,
}

impl<O: informer_core::Object> Handler<O> for Blocking {
    fn handle(&self, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, Request>) {
        // Tells tokio that this thread blocks, so that the other tasks of the thread move to another one.
        let _ = tokio::task::block_in_place(|| self.release.lock().recv());
        self.log.add(format!("handled {}", trigger.key()));
        enqueue_object().handle(trigger, enqueue);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manager_is_ready_while_a_handler_blocks_a_warm_up_and_reconciles_after_it() {
    let server = ApiServer::builder().build();
    create(&server, "a");
    create(&server, "b");
    let manager = Manager::new(Client::from_service(server.service(), "default"));
    let (release, blocked) = mpsc::channel();
    let log = Log::default();
    let handler = Blocking { log: log.clone(), release: Mutex::new(blocked) };
    let replica = Replica::start(manager, warm(), kind(watch::<ConfigMap>(), handler), log);
    replica.runs().await;
    assert_eq!(replica.readyz().await, StatusCode::OK);
    release.send(()).expect("the handler waits");
    // The handler has been called for one of two objects and blocks for the other, so the sources have not
    // delivered their initial objects yet.
    while replica.log.all().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!((replica.phase(), replica.log.all().len()), (ControllerPhase::Starting, 1));
    drop(release);
    while replica.log.all().len() < 4 {
        tokio::task::yield_now().await;
    }
    let log = replica.log.all();
    assert!(log[..2].iter().all(|entry| entry.starts_with("handled ")), "{log:?}");
    let mut reconciled = log[2..].to_vec();
    reconciled.sort();
    assert_eq!(reconciled, ["default/a", "default/b"]);
    replica.stop().await;
}

fn create(server: &ApiServer, name: &str) {
    let map = json!({"metadata": {"name": name, "namespace": "default"}});
    server.create(&Gvr::new("", "v1", "configmaps"), "default", map).expect("a valid object");
}

/// Starts a manager with leader election whose controller watches ConfigMaps. Also returns a counter of its
/// lists and watches of ConfigMaps.
fn candidate(server: &ApiServer, identity: &str, options: ControllerOptions) -> (Replica, Arc<AtomicUsize>) {
    let (service, requests) = (server.service(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&requests);
    let service = tower::service_fn(move |request: HttpRequest<Full<Bytes>>| {
        if request.uri().path().ends_with("/configmaps") {
            count.fetch_add(1, Ordering::SeqCst);
        }
        service.clone().oneshot(request)
    });
    let manager = Manager::new(Client::from_service(service, "default"));
    let manager = manager.leader_election(LeaderElection::new("operator").identity(identity));
    let source = kind(watch::<ConfigMap>(), enqueue_object());
    (Replica::start(manager, options, source, Log::default()), requests)
}

#[tokio::test(start_paused = true)]
async fn standby_with_warm_up_reconciles_at_once_as_leader_without_another_list() {
    for warms in [true, false] {
        let server = ApiServer::builder().build();
        create(&server, "a");
        create(&server, "b");
        let options = || ControllerOptions::new().warm_up(warms);
        let (leader, _) = candidate(&server, "first", options());
        sleep(seconds(1)).await;
        let (standby, requests) = candidate(&server, "second", options());
        sleep(seconds(30)).await;
        create(&server, "c");
        sleep(seconds(1)).await;
        assert_eq!(leader.log.all().len(), 3);
        assert_eq!(*standby.handle.leadership().borrow(), Leadership::Standby);
        assert_eq!(*standby.handle.status().borrow(), ManagerStatus::Running);
        assert_eq!(standby.phase(), ControllerPhase::Created);
        assert_eq!(standby.log.all(), [""; 0]);
        let before = requests.load(Ordering::SeqCst);
        assert_eq!((before > 0, standby.queued()), if warms { (true, 3) } else { (false, 0) });

        leader.stop().await;
        standby.handle.leadership().wait_for(Leadership::is_leading).await.expect("it keeps running");
        // In paused time, a sleep of a millisecond lets all tasks run that can run. A standby with warm-up
        // needs no more time than that.
        sleep(if warms { Duration::from_millis(1) } else { seconds(5) }).await;
        let mut log = standby.log.all();
        log.sort();
        assert_eq!(log, ["default/a", "default/b", "default/c"]);
        assert_eq!(standby.phase(), ControllerPhase::Running);
        let after = requests.load(Ordering::SeqCst);
        assert_eq!(after == before, warms, "{} requests after the election", after - before);
        standby.stop().await;
    }
}
