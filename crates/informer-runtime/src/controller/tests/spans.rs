//! Tests of the tracing span of a reconcile.

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};

use super::*;

/// A tracing subscriber that records the spans named `reconcile`: the fields of each span, and how often it
/// was entered.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(String, usize)>>>);

struct Fields(Vec<String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push(format!("{}={value:?}", field.name()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push(format!("{}={value}", field.name()));
    }
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name() == "reconcile"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(Vec::new());
        span.record(&mut fields);
        let mut spans = self.0.lock();
        spans.push((fields.0.join(" "), 0));
        Id::from_u64(spans.len() as u64)
    }

    fn enter(&self, span: &Id) {
        let place = usize::try_from(span.into_u64()).unwrap() - 1;
        self.0.lock()[place].1 += 1;
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn exit(&self, _: &Id) {}
}

/// Runs two reconciles. Returns the recorded tracing spans of these reconciles and the ids in their contexts.
async fn of_two_reconciles() -> (Vec<(String, usize)>, Vec<String>) {
    let spans = Spans::default();
    let _here = tracing::subscriber::set_default(spans.clone());
    // If the process has only one tracing subscriber, the thread that first reaches a span decides for all
    // threads whether the span is recorded. A second subscriber prevents that.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let ids: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&ids);
    let controller = Controller::builder().named("test").source(of(&[("shop/a", 0), ("shop/b", 0)]));
    let running = Running::start(controller.reconcile(move |_, ctx| {
        seen.lock().push(ctx.reconcile_id().to_string());
        async { Ok(Outcome::Done) }
    }));
    tokio::time::sleep(SECOND).await;
    running.stop().await.unwrap();
    (spans.0.lock().clone(), ids.lock().clone())
}

#[tokio::test(start_paused = true)]
async fn each_reconcile_has_a_span_with_controller_key_and_id() {
    // The spans can be missing if a test on another thread reaches the span while this test installs its
    // subscriber. The test therefore repeats the reconciles until the spans are recorded.
    for _ in 0..100 {
        let (spans, ids) = of_two_reconciles().await;
        if spans.len() < 2 {
            continue;
        }
        let told = |key: &str, id: &str| format!("controller=test kind= key={key} reconcile_id={id}");
        let texts: Vec<&str> = spans.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, [told("shop/a", &ids[0]), told("shop/b", &ids[1])]);
        assert!(spans.iter().all(|(_, entered)| *entered > 0), "the reconciler runs inside of it: {spans:?}");
        return;
    }
    panic!("no reconcile had a span");
}
