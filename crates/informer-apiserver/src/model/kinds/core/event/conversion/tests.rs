use serde_json::{Value, json};

use super::{from_core, to_core};

fn through(mut event: Value, convert: fn(&mut serde_json::Map<String, Value>)) -> Value {
    convert(event.as_object_mut().unwrap());
    event
}

#[test]
fn event_survives_conversion_in_both_directions() {
    let core = json!({
        "metadata": {"name": "a"}, "involvedObject": {"kind": "Pod"}, "reason": "Started", "message": "it runs",
        "source": {"component": "kubelet"}, "firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": null, "count": 2,
        "type": "Normal", "eventTime": null, "reportingComponent": "kubelet", "reportingInstance": "node-1",
    });
    let new = through(core.clone(), from_core);
    assert_eq!(new["note"], "it runs");
    assert_eq!(new["regarding"]["kind"], "Pod");
    assert_eq!(new["deprecatedCount"], 2);
    assert_eq!(new["reportingController"], "kubelet");
    assert_eq!(through(new, to_core), core);
}
