use informer_client::ReadOptions;
use serde_json::Value;

use super::list::check_header;
use super::{Target, WORDS};
use crate::input::Body;
use crate::plain;
use crate::probe::{Probe, ReadWatch, read_watch};

pub(super) const TARGET: Target = Target { name: "watch", run, words: WORDS };

/// Reads a watch body in frames, in one piece, and with `serde_json`.
fn run(input: &[u8]) {
    let body = Body::read(input);
    let read = read_watch(body.one_frame(), ReadOptions::default());
    let in_frames = read_watch(body.frames(), ReadOptions::default());
    check_borders(&read, &in_frames);
    for object in read.events.iter().filter_map(|(_, object)| object.as_ref()?.as_ref().ok()) {
        check_header(&object.json, &object.header);
    }
    check_events(&read, body.whole);
}

/// Checks that the events do not depend on where frames begin and end. One difference is intended: if a frame
/// ends with a newline, a line with open brackets is reported as malformed immediately, instead of consuming
/// the following lines.
fn check_borders(one: &ReadWatch, other: &ReadWatch) {
    match (&one.end, &other.end) {
        (Ok(()), Ok(())) => assert_eq!(one, other, "the result for a watch depends on frame boundaries"),
        _ => {
            let both = one.events.len().min(other.events.len());
            assert_eq!(one.events[..both], other.events[..both], "an event depends on frame boundaries");
            assert!(one.events.len() == both || other.end.is_err(), "a watch without an error misses events");
            assert!(other.events.len() == both || one.end.is_err(), "a watch without an error misses events");
        }
    }
}

/// Checks that the events equal those that `serde_json` reads, up to its first error.
fn check_events(read: &ReadWatch, body: &[u8]) {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    let plain = std::iter::from_fn(|| values.next()?.ok()).filter(Value::is_object);
    for (value, (name, object)) in plain.zip(&read.events) {
        let event_type = value["type"].as_str().expect("the watch ends before an event without a type");
        match event_type {
            "ADDED" | "MODIFIED" if matches!(object, Some(Err(_))) => assert_eq!(*name, "ADDED or MODIFIED"),
            "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR" => assert_eq!(*name, event_type),
            _ => assert_eq!(*name, "another"),
        }
        match object {
            Some(Ok(probe)) => check_object(probe, &value["object"]),
            Some(Err(_)) => {
                assert_eq!(plain::header(&value["object"]), None, "a valid object is reported as undecodable")
            }
            None => {}
        }
    }
}

fn check_object(probe: &Probe, object: &Value) {
    assert_eq!(plain::header(object).as_ref(), Some(&probe.header));
    let kept: Value = serde_json::from_str(&probe.json).expect("pruned JSON is JSON");
    assert_eq!(kept, plain::pruned(object.clone()));
}
