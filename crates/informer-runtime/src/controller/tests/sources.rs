//! Tests of sources of all types, and of sources added to a running controller.

use futures_util::future::BoxFuture;
use informer_cache::SharedInformer;
use informer_cache::metrics::{InformerMetrics, InformerProbe};
use informer_cache::testing::{StaticSource, object};
use informer_client::Lazy;
use informer_core::{Header, Object};
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::handler::{Enqueue, enqueue_object, map};
use crate::{Trigger, predicate};

fn header(text: &str) -> Arc<Header> {
    Arc::new(Header::new(text.parse().unwrap()))
}

fn noting(calls: &Calls) -> impl super::super::Reconciler {
    let calls = calls.clone();
    move |request: Request, _: Context| {
        calls.note(&request);
        async { Ok(Outcome::Done) }
    }
}

#[tokio::test(start_paused = true)]
async fn channel_keeps_objects_sent_before_start_and_may_close() {
    let calls = Calls::new();
    let (sender, receiver) = tokio::sync::mpsc::channel(10);
    sender.send(header("a/early")).await.unwrap();
    let channel = source::channel("c", receiver, enqueue_object());
    let controller = Controller::builder().named("test").source(channel);
    let running = Running::start(controller.reconciler(noting(&calls)));
    tokio::time::sleep(SECOND).await;
    sender.send(header("a/late")).await.unwrap();
    drop(sender);
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["a/early", "a/late"]);
    assert_eq!(running.state().phase, ControllerPhase::Running);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stream_source_is_filtered_and_mapped() {
    let calls = Calls::new();
    let objects = futures_util::stream::iter(["a/x", "b/x", "c/x"].map(header));
    let stream = source::stream(
        "s",
        objects,
        map(|object: &Header| [key(&format!("{}/mapped", object.key().namespace().unwrap()))]),
    );
    let stream = stream.filter(predicate::namespaces(["a", "c"]));
    let controller = Controller::builder().named("test").source(stream);
    let running = Running::start(controller.reconciler(noting(&calls)));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["a/mapped", "c/mapped"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn informer_source_runs_with_the_controller() {
    let calls = Calls::new();
    let objects = SharedInformer::new(StaticSource::new([object("a/x", "1"), object("a/y", "2")], "2"));
    let controller =
        Controller::builder().named("test").source(source::informer(objects.clone(), enqueue_object()));
    let running = Running::start(controller.reconciler(noting(&calls)));
    tokio::time::sleep(SECOND).await;
    let mut keys = calls.keys();
    keys.sort();
    assert_eq!(keys, ["a/x", "a/y"]);
    assert_eq!(objects.state().handlers.len(), 1);
    running.stop().await.unwrap();
    assert_eq!(objects.state().handlers.len(), 0, "its handler is removed");
    tokio::time::sleep(SECOND).await;
    assert!(objects.is_stopped(), "there is no other run");
}

#[tokio::test(start_paused = true)]
async fn panic_in_handler_or_predicate_does_not_stop_the_source() {
    let calls = Calls::new();
    let objects = futures_util::stream::iter(["a/handler", "a/predicate", "a/fine"].map(header));
    let handler = |trigger: &Trigger<Header>, enqueue: &mut Enqueue<'_, Request>| {
        assert_ne!(trigger.key().name(), "handler");
        enqueue.add(trigger.key().into());
    };
    let stream = source::stream("s", objects, handler).filter(|trigger: &Trigger<Header>| {
        assert_ne!(trigger.key().name(), "predicate");
        true
    });
    let controller = Controller::builder().named("test").source(stream);
    let running = Running::start(controller.reconciler(noting(&calls)));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["a/fine"]);
    assert_eq!(running.state().trigger_panics, 2);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn source_added_to_running_controller_starts_at_once() {
    let calls = Calls::new();
    let controller = Controller::builder().named("test").source(of(&[("a", 0)])).reconciler(noting(&calls));
    let handle = controller.handle();
    handle.watch(of(&[("before", 0)])).await.unwrap();
    let running = Running::start(controller);
    tokio::time::sleep(SECOND).await;
    handle.watch(of(&[("later", 0)])).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["a", "before", "later"]);
    assert_eq!(running.state().sources.len(), 3);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failure_of_added_source_is_returned_to_the_caller() {
    let calls = Calls::new();
    let controller = Controller::builder().named("test").source(of(&[("a", 0)])).reconciler(noting(&calls));
    let running = Running::start(controller);
    tokio::time::sleep(SECOND).await;
    let broken = source::function("broken", |_| async { Err("no".into()) });
    let error = running.handle.watch(broken).await.unwrap_err();
    assert_eq!(error.to_string(), "controller test: the source function broken failed to start");
    running.handle.enqueue(key("still"));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["a", "still"]);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_may_have_a_custom_type() {
    let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
    let numbers = source::function("numbers", |enqueuer: source::Enqueuer<u32>| async move {
        (1..=3).for_each(|number| enqueuer.enqueue(0).add(number));
        Ok(())
    });
    let noted = Arc::clone(&seen);
    let controller = Controller::of_requests::<u32>("numbers").source(numbers).reconcile(move |number, _| {
        noted.lock().push(number);
        async { Ok(Outcome::Done) }
    });
    let runnable = controller.assemble(environment()).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(Box::new(runnable).run(stop.clone()));
    tokio::time::sleep(SECOND).await;
    assert_eq!(*seen.lock(), [1, 2, 3]);
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn fair_groups_are_served_round_robin() {
    let calls = Calls::new();
    let keys = of(&[("big/1", 0), ("big/2", 0), ("big/3", 0), ("small/1", 0)]);
    let options =
        ControllerOptions::new().fair_by(|request: &Request| request.namespace().unwrap_or_default().into());
    let controller = Controller::builder().named("test").with_options(options).source(keys);
    let running = Running::start(controller.reconciler(noting(&calls)));
    tokio::time::sleep(SECOND).await;
    assert_eq!(calls.keys(), ["big/1", "small/1", "big/2", "big/3"]);
    running.stop().await.unwrap();
}

/// A controller source that the test keeps a reference to, so that the test can stop it while it starts.
struct SharedSource(Arc<source::Kind<Lazy<ConfigMap>, Request>>);

impl source::Source<Request> for SharedSource {
    fn name(&self) -> String {
        self.0.name()
    }

    fn start(&self, enqueuer: source::Enqueuer<Request>) -> BoxFuture<'_, Result<(), BoxError>> {
        self.0.start(enqueuer)
    }
}

/// A metrics receiver that stops a controller source when the source's informer is created, which happens
/// while the source starts.
struct StopsEarly(Arc<source::Kind<Lazy<ConfigMap>, Request>>);

impl InformerMetrics for StopsEarly {
    fn observe(&self, _: InformerProbe) {
        source::Source::stop(&*self.0);
    }
}

#[tokio::test(start_paused = true)]
async fn source_stopped_while_starting_leaves_no_handler() {
    let kind = Arc::new(source::kind(source::watch::<ConfigMap>(), enqueue_object()));
    let server = ApiServer::builder().build();
    let client = Client::from_service(server.service(), "default");
    let metrics = Arc::new(StopsEarly(Arc::clone(&kind)));
    let cache = crate::Cache::builder(client.clone()).metrics(metrics).build();
    cache.start();
    let (_, recorder) = crate::events::EventSender::new(client);
    let services = Services::new(crate::CachedClient::new(&cache), recorder);
    let environment = Environment { services, defaults: ControllerDefaults::default(), metrics: None };
    let controller = Controller::builder().named("test").source(SharedSource(kind));
    let running = Running::start_in(environment, controller.reconciler(noting(&Calls::new())));
    let error = tokio::time::timeout(60 * SECOND, running.ended()).await.unwrap().unwrap_err();
    assert!(error.starts_with("controller test: the source kind ConfigMap.v1 failed to start"), "{error}");
    let handlers = cache.states().iter().map(|state| state.handlers.len()).sum::<usize>();
    assert_eq!(handlers, 0);
}
