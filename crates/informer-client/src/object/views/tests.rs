use std::sync::{Arc, Weak};

use proptest::prelude::*;

use super::{MAX_TURNS, TYPED_PER_JSON, TYPED_PER_PROTOBUF, Views};
use crate::object::body::{BodyRef, Encoded};

/// Returns a string to use as the JSON of an object, of such a length that the cache estimates the view of
/// the object at `estimate` bytes. The type of the view must be zero-sized.
fn text(estimate: usize) -> String {
    "x".repeat(estimate / TYPED_PER_JSON)
}

fn body(text: &str) -> BodyRef<'_> {
    BodyRef::of(Encoded::Json { text, has_type: false })
}

/// Caches a new view with an estimated size of `estimate` bytes. Returns a weak reference to the view.
fn keep(views: &Views, estimate: usize) -> Weak<()> {
    let view = Arc::new(());
    views.keep(Arc::<()>::clone(&view), body(&text(estimate)));
    Arc::downgrade(&view)
}

fn lives(view: &Weak<()>) -> bool {
    view.upgrade().is_some()
}

#[test]
fn zero_budget_disables_the_cache() {
    assert!(Views::within(0).is_none());
}

#[test]
fn oldest_views_are_evicted_and_too_large_views_evict_nothing() {
    let views = Views::within(100).unwrap();
    let [first, second] = [keep(&views, 50), keep(&views, 50)];
    assert!(lives(&first) && lives(&second));
    let third = keep(&views, 40);
    assert!(!lives(&first) && lives(&second) && lives(&third));
    assert!(!lives(&keep(&views, 105)));
    assert!(lives(&second) && lives(&third));
    let large = keep(&views, 100);
    assert!(!lives(&second) && !lives(&third) && lives(&large));
}

#[test]
fn estimate_includes_the_size_of_the_type_and_more_for_protobuf() {
    let views = Views::within(80 + TYPED_PER_PROTOBUF * 10).unwrap();
    views.keep(Arc::new([0_u64; 10]), BodyRef::of(Encoded::Protobuf(&[0; 10])));
    assert_eq!(views.kept.lock().bytes, views.budget);
    assert!(format!("{views:?}").starts_with("Views { count: 1, "), "{views:?}");
}

#[test]
fn views_in_use_are_evicted_last_within_a_limit() {
    let views = Views::within(100).unwrap();
    let held = keep(&views, 20);
    let holder = held.upgrade().unwrap();
    for _ in 0..20 {
        keep(&views, 20);
    }
    drop(holder);
    assert!(lives(&held), "it was in use at each eviction");
    let all: Vec<Arc<()>> = (0..2 * MAX_TURNS).map(|_| keep(&views, 20).upgrade().unwrap()).collect();
    assert_eq!(views.kept.lock().views.len(), 5, "of {} views in use", all.len());
}

struct KeepsAnother(Arc<Views>);

impl Drop for KeepsAnother {
    fn drop(&mut self) {
        keep(&self.0, 10);
    }
}

#[test]
fn evicted_view_is_dropped_outside_of_the_lock() {
    let views = Views::within(50).unwrap();
    views.keep(Arc::new(KeepsAnother(Arc::clone(&views))), body(&text(20)));
    keep(&views, 50);
    assert_eq!(views.kept.lock().bytes, 10, "the view cached by the drop of the first one");
}

proptest! {
    #[test]
    fn cached_views_fit_the_budget_and_include_the_last_one(
        budget in 1..500_usize,
        reads in prop::collection::vec((0..60_usize, any::<bool>()), 1..100),
    ) {
        let views = Views::within(budget).unwrap();
        let (mut seen, mut holders) = (Vec::new(), Vec::new());
        for (characters, held) in reads {
            let estimate = characters * TYPED_PER_JSON;
            let view = keep(&views, estimate);
            prop_assert_eq!(lives(&view), estimate <= budget);
            holders.extend(view.upgrade().filter(|_| held));
            seen.push(view);
            let kept = views.kept.lock();
            prop_assert!(kept.bytes <= budget);
            prop_assert_eq!(kept.bytes, kept.views.iter().map(|(_, bytes)| bytes).sum::<usize>());
            let living = seen.iter().filter(|view| lives(view)).count();
            prop_assert!(living <= kept.views.len() + holders.len(), "something else keeps views alive");
        }
    }
}
