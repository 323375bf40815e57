use bytes::Bytes;
use informer_client::ReadOptions;
use informer_schema::{Envelope, Schema, frame, watch_event};

use super::Target;
use crate::input::Body;
use crate::probe::{Probe, read_list, read_watch, read_wire_list, read_wire_watch};

pub(super) const TARGET: Target = Target {
    name: "protobuf",
    run,
    words: &[
        "k8s\0",
        "\n\x05\n\x01a\x32\x017",
        "\x0a\x0c\x0a\x02v1\x12\x07PodList",
        "\x12\x00",
        "\x1a\x00",
        "\x22\x00",
    ],
};

/// Reads a protobuf body in frames and in one piece, and compares it with the equivalent JSON. The first byte
/// selects a list or a watch.
fn run(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let (schema, body) = (Schema::builtin(), Body::read(rest));
    if choice % 2 == 0 { run_list(&schema, &body) } else { run_watch(&schema, &body) }
}

fn run_list(schema: &Schema, body: &Body<'_>) {
    let read = read_wire_list(body.one_frame());
    let in_frames = read_wire_list(body.frames());
    assert_eq!(read.end.is_ok(), in_frames.end.is_ok(), "the result for a list depends on frame boundaries");
    if read.end.is_ok() {
        assert_eq!(read, in_frames, "the result for a list depends on frame boundaries");
    }
    let pods = Envelope::parse(body.whole).is_ok_and(|it| (it.api_version, it.kind) == ("v1", "PodList"));
    let Ok(json) = schema.to_json(body.whole) else { return };
    // The streaming reader of the client requires that metadata precedes the items and that the list occurs
    // once. `Schema::to_json` does not, so the two are compared only for bodies that a server could send.
    if !pods || read.end.is_err() || !written_as_servers_do(schema, body.whole, &json) {
        return;
    }
    let plain = read_list(vec![Bytes::from(json)], ReadOptions::default());
    assert_eq!(plain.end, read.end);
    assert_eq!(plain.unreadable, read.unreadable);
    assert_eq!(plain.objects.len(), read.objects.len());
    plain.objects.iter().zip(&read.objects).for_each(|(plain, wire)| assert_same(plain, wire));
}

/// Returns true if encoding again gives the same bytes: no unknown field, no duplicate, and all in order.
fn written_as_servers_do(schema: &Schema, wire: &[u8], json: &[u8]) -> bool {
    schema.to_protobuf(json).is_ok_and(|again| again == wire)
}

fn run_watch(schema: &Schema, body: &Body<'_>) {
    let read = read_wire_watch(body.one_frame());
    let in_frames = read_wire_watch(body.frames());
    assert_eq!(read.events, in_frames.events, "the events of a watch depend on frame boundaries");
    assert_eq!(read.end.is_ok(), in_frames.end.is_ok(), "the end of a watch depends on frame boundaries");
    let (mut rest, mut lines) = (body.whole, Vec::new());
    while let Some((event, behind)) = frame(rest) {
        let (Ok(line), Ok((_, object))) = (schema.watch_event_to_json(event), watch_event(event)) else {
            return;
        };
        if !schema.to_json(object).is_ok_and(|json| written_as_servers_do(schema, object, &json)) {
            return;
        }
        lines.extend_from_slice(&line);
        rest = behind;
    }
    let plain = read_watch(vec![Bytes::from(lines)], ReadOptions::default());
    for ((name, object), (other, wire)) in plain.events.iter().zip(&read.events) {
        assert_eq!(name, other);
        if let (Some(Ok(plain)), Some(Ok(wire))) = (object, wire) {
            assert_same(plain, wire);
        }
    }
}

fn assert_same(plain: &Probe, wire: &Probe) {
    assert_eq!(plain.header, wire.header);
    let value = |probe: &Probe| {
        let mut value: serde_json::Value =
            serde_json::from_str(&probe.json).expect("the kept bytes are JSON");
        // Objects of a watch contain their type in JSON; in protobuf, the envelope contains it.
        for name in ["kind", "apiVersion"] {
            value.as_object_mut().map(|members| members.remove(name));
        }
        value
    };
    assert_eq!(value(plain), value(wire));
}
