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

/// Returns the logged warnings after a failed list, an object that cannot be decoded, and a handler that
/// panics and is slow.
async fn warnings() -> Vec<String> {
    let warnings = Warnings::default();
    let _here = tracing::subscriber::set_default(warnings.clone());
    // If the process has only one log subscriber, the thread that first reaches a log statement decides for
    // all threads whether it is recorded. A second subscriber prevents that.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
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
    warnings.0.lock().clone()
}

#[tokio::test(start_paused = true)]
async fn warnings_contain_the_name_of_the_informer_without_spans() {
    // If a test on another thread reaches the log statement while this test sets its subscriber, the log is
    // not recorded. A later attempt records it.
    let mut seen = Vec::new();
    for _ in 0..100 {
        seen = warnings().await;
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
