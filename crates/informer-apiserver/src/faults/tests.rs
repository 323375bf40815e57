use std::sync::Arc;
use std::time::Duration;

use super::{FaultMatch, Faults};
use crate::requests::{RequestRecord, Verb};

fn watch() -> Arc<RequestRecord> {
    Arc::new(RequestRecord {
        number: 1,
        at: Duration::ZERO,
        verb: Verb::Watch,
        gvr: None,
        namespace: None,
        name: None,
        subresource: None,
        path: "/api/v1/pods".to_owned(),
        query: "watch=true".to_owned(),
        resource_version: String::new(),
        user_agent: String::new(),
        user: String::new(),
        is_apply: false,
    })
}

#[test]
fn ended_watches_are_dropped_and_open_watches_receive_later_faults() {
    let faults = Faults::default();
    let open: Vec<_> = (0..10).map(|_| faults.plan(&watch()).open).collect();
    (0..10_000).for_each(|_| drop(faults.plan(&watch())));
    let remembered = faults.open.lock().len();
    assert!((10..100).contains(&remembered), "{remembered} of 10,010, where 10 are open");
    let stalled = faults.on(FaultMatch::default()).stall_after(0);
    assert_eq!(stalled.fired(), open.len() as u64, "the fault applies to the open watches");
}
