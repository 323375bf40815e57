mod contract;
mod in_process;
mod model;
mod relist;

use std::sync::Arc;

use super::{DeltaFifo, DeltaFifoConfig};
use crate::queue::fixture::{Foo, Held, delta_text, list};
use crate::{Change, Replacement};

fn unaided() -> DeltaFifo<Foo> {
    DeltaFifo::new(DeltaFifoConfig::default())
}

fn beside(held: &Arc<Held>) -> DeltaFifo<Foo> {
    DeltaFifo::new(DeltaFifoConfig::default().with_known_objects(Arc::clone(held) as _))
}

fn listing(items: &[(&str, u64)]) -> Replacement<Foo> {
    match list(items, 1) {
        Change::Replaced(replacement) => replacement,
        other => unreachable!("a list is a replacement: {other:?}"),
    }
}

fn pop(queue: &DeltaFifo<Foo>) -> String {
    let popped = queue.try_pop().unwrap().expect("something is queued");
    popped.iter().map(delta_text).collect::<Vec<_>>().join(", ")
}

fn drain(queue: &DeltaFifo<Foo>) -> Vec<String> {
    let mut seen = Vec::new();
    while queue.depth() > 0 {
        seen.push(pop(queue));
    }
    seen
}
