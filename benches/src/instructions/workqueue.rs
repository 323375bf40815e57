//! The case of the work queue.

use std::hint::black_box;
use std::sync::Arc;

use informer_workqueue::WorkQueue;

use crate::Failure;
use crate::count::{Counter, WorkCount};

/// The number of keys. The queue has a tenth of them at the same time.
const KEYS: usize = 50_000;
const KEYS_AT_ONCE: usize = KEYS / 10;

/// Counts the add, get and done of a key. The queue does not grow while it is counted.
pub(crate) fn queue(counter: &Counter) -> Result<WorkCount, Failure> {
    let queue = WorkQueue::new();
    let keys: Vec<Arc<str>> = (0..KEYS).map(|n| format!("namespace-{}/web-{n:08}", n % 100).into()).collect();
    counter.set_up(process(&queue, &keys[..KEYS_AT_ONCE]));
    let ((), count) = counter.count(KEYS, async {
        for keys in keys.chunks(KEYS_AT_ONCE) {
            process(&queue, keys).await;
        }
    });
    if !queue.is_empty() || queue.processing_len() > 0 {
        return Err("the queue still has keys".into());
    }
    Ok(count)
}

async fn process(queue: &WorkQueue<Arc<str>>, keys: &[Arc<str>]) {
    for key in keys {
        black_box(queue.add(Arc::clone(key)));
    }
    for _ in keys {
        let Some(item) = queue.get().await else { return };
        black_box(item.key());
        item.done();
    }
}
