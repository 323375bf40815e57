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

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields(Vec::new());
        values.record(&mut fields);
        let place = usize::try_from(span.into_u64()).unwrap() - 1;
        let text = &mut self.0.lock()[place].0;
        *text = format!("{text} {}", fields.0.join(" "));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn exit(&self, _: &Id) {}
}

/// The spans and contexts of two reconciles.
struct TwoReconciles {
    /// The recorded tracing spans: their fields, and how often each was entered.
    spans: Vec<(String, usize)>,
    /// The ids in the contexts of the reconciles.
    ids: Vec<String>,
    /// The causes in the contexts of the reconciles.
    causes: Vec<String>,
}

async fn of_two_reconciles(records_causes: bool) -> TwoReconciles {
    let spans = Spans::default();
    let _here = tracing::subscriber::set_default(spans.clone());
    // If the process has only one tracing subscriber, the thread that first reaches a span decides for all
    // threads whether the span is recorded. A second subscriber prevents that.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let seen: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let log = Arc::clone(&seen);
    let options = ControllerOptions::new().record_causes(records_causes);
    let controller = Controller::builder().named("test").source(of(&[("shop/a", 0), ("shop/b", 0)]));
    let running = Running::start(controller.with_options(options).reconcile(move |_, ctx| {
        log.lock().push((ctx.reconcile_id().to_string(), ctx.causes().to_string()));
        async { Ok(Outcome::Done) }
    }));
    tokio::time::sleep(SECOND).await;
    running.stop().await.unwrap();
    let (ids, causes) = seen.lock().clone().into_iter().unzip();
    TwoReconciles { spans: spans.0.lock().clone(), ids, causes }
}

/// Repeats the reconciles until their spans are recorded. The spans can be missing if a test on another
/// thread reaches the span while this test installs its subscriber.
async fn with_spans(records_causes: bool) -> TwoReconciles {
    for _ in 0..100 {
        let found = of_two_reconciles(records_causes).await;
        if found.spans.len() >= 2 {
            return found;
        }
    }
    panic!("no reconcile had a span");
}

#[tokio::test(start_paused = true)]
async fn each_reconcile_has_a_span_with_controller_key_and_id() {
    let TwoReconciles { spans, ids, .. } = with_spans(false).await;
    let expected = |key: &str, id: &str| format!("controller=test kind= key={key} reconcile_id={id}");
    let texts: Vec<&str> = spans.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(texts, [expected("shop/a", &ids[0]), expected("shop/b", &ids[1])]);
    assert!(spans.iter().all(|(_, entered)| *entered > 0), "the reconciler runs inside of it: {spans:?}");
}

#[tokio::test(start_paused = true)]
async fn span_of_a_controller_that_records_causes_has_them() {
    let TwoReconciles { spans, causes, .. } = with_spans(true).await;
    for ((text, _), causes) in spans.iter().zip(&causes) {
        assert!(!causes.is_empty() && text.ends_with(&format!(" causes={causes}")), "{text}; {causes}");
    }
}
