//! Tests that warnings and errors of an informer contain its name, also for subscribers that record no spans.

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata};

use super::*;
use crate::Undecodable;
use crate::source::SourceErrorKind;

/// A subscriber that records warnings and errors as `name=value ...`, and no spans, like `RUST_LOG=warn`.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0 += &format!("{}={value} ", field.name());
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().push(fields.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Returns the warnings that are logged while `work` runs.
async fn warnings_of(work: impl Future<Output = ()>) -> Vec<String> {
    let warnings = Warnings::default();
    let _here = tracing::subscriber::set_default(warnings.clone());
    // If the process has only one log subscriber, the thread that first reaches a log statement decides for
    // all threads whether it is recorded. A second subscriber prevents that.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    work.await;
    warnings.0.lock().clone()
}

/// Runs an informer that has each of these problems: its first list fails, an object of its second list
/// cannot be decoded, and its handler panics and has too many pending events.
async fn fail_in_many_ways() {
    let (informer, mut server) = informer();
    let options = HandlerOptions::new().name("mine").high_water(1);
    let panics = on_event(|_: Event<TestObject>| panic!("on purpose"));
    informer.add_handler_with(options, panics).unwrap();
    let _run = informer.start();
    server.expect_list().await.fail_with(SourceErrorKind::Unavailable);
    let list = server.expect_list().await.accept();
    list.items([object("ns/a", "1"), object("ns/b", "2")]);
    let error = std::io::Error::other("not readable");
    list.undecodable(Undecodable::new(Some("ns/c".parse().unwrap()), error)).end("5");
    let _watch = server.expect_watch().await.accept();
    quiet().await;
}

#[tokio::test(start_paused = true)]
async fn warnings_contain_the_name_of_the_informer_without_spans() {
    // If a test on another thread reaches the log statement while this test sets its subscriber, the log is
    // not recorded. A later attempt records it.
    let mut seen = Vec::new();
    for _ in 0..100 {
        seen = warnings_of(fail_in_many_ways()).await;
        let of = |text: &str| seen.iter().any(|line| line.contains(text));
        let all = ["failed, waiting", "key=ns/c ", "a handler panicked", "a slow handler"];
        if all.into_iter().all(of) {
            let named =
                |line: &String| line.contains("informer=things ") || line.contains("reflector=things ");
            assert!(seen.iter().all(named), "{seen:#?}");
            let of_handler = seen.iter().filter(|line| line.contains("a handler") || line.contains("a slow"));
            assert!(of_handler.clone().all(|line| line.contains("handler=mine ")), "{seen:#?}");
            return;
        }
    }
    panic!("not everything was logged: {seen:#?}");
}

/// An informer whose source has numbers without an order as versions. It discovers that after three late
/// events, each of which a list confirms.
async fn receive_unordered_versions() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    let mut watch = server.expect_sync([], "1000").await;
    let mut listed = Vec::new();
    for number in 1..=3_u64 {
        watch.send(added(object(&format!("o{number}"), number)));
        listed.push(object(&format!("o{number}"), number));
        server.expect_list().await.reply_page(listed.clone(), 1000 + number);
        watch = server.expect_watch().await.accept();
    }
    for number in 4..=9_u64 {
        watch.send(added(object(&format!("o{number}"), number)));
    }
    quiet().await;
    assert!(informer.state().reflector.unordered);
}

#[tokio::test(start_paused = true)]
async fn unordered_versions_are_logged_once() {
    for _ in 0..100 {
        let seen = warnings_of(receive_unordered_versions()).await;
        match seen.iter().filter(|line| line.contains("numbers without an order")).count() {
            0 => {}
            count => return assert_eq!(count, 1, "{seen:#?}"),
        }
    }
    panic!("it was not logged");
}

/// An informer of a kind that is missing for some time, and again after another failure.
async fn wait_for_a_missing_kind() {
    let (informer, mut server) = informer();
    let _run = informer.start();
    for _ in 0..4 {
        server.expect_list().await.fail_with(SourceErrorKind::NotFound);
    }
    server.expect_list().await.fail_with(SourceErrorKind::Unavailable);
    server.expect_list().await.fail_with(SourceErrorKind::NotFound);
    let _watch = server.expect_sync([], "5").await;
    quiet().await;
}

#[tokio::test(start_paused = true)]
async fn missing_kind_is_logged_once_until_something_else_happens() {
    for _ in 0..100 {
        let seen = warnings_of(wait_for_a_missing_kind()).await;
        let missing = seen.iter().filter(|line| line.contains("missing on the server")).count();
        if missing > 0 && seen.iter().any(|line| line.contains("failed, waiting")) {
            assert_eq!(missing, 2, "{seen:#?}");
            assert!(seen[0].contains("kubectl apply -f CRD.yaml"), "{seen:#?}");
            return;
        }
    }
    panic!("it was not logged");
}
