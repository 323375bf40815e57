use informer_client::ReadOptions;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Target, WORDS};
use crate::input::Body;
use crate::plain;
use crate::probe::{ReadList, read_list};

pub(super) const TARGET: Target = Target { name: "list", run, words: WORDS };

/// Reads a list body in frames, in one piece, and with `serde_json`.
fn run(input: &[u8]) {
    let body = Body::read(input);
    let read = read_list(body.one_frame(), ReadOptions::default());
    let in_frames = read_list(body.frames(), ReadOptions::default());
    let good = serde_json::from_slice::<Value>(body.whole).is_ok();
    // If a frame ends with a newline within a value, the reader reports a malformed value there. At other
    // boundaries it only counts brackets. Objects of a list that breaks off are discarded.
    if good || (read.end.is_ok() && in_frames.end.is_ok()) {
        let both = (read.end.is_err(), in_frames.end.is_err());
        assert!(
            both == (true, true) || read == in_frames,
            "the result for a list depends on frame boundaries: {read:?}, {in_frames:?}"
        );
    }
    for object in &read.objects {
        check_header(&object.json, &object.header);
    }
    if let Some(items) = plain_list(body.whole) {
        check_whole(&read, &items);
        check_cut_short(&body);
    }
}

pub(super) fn check_header(json: &str, header: &informer_core::Header) {
    // The fast path does not parse values that it does not need. If serde rejects one, a typed read reports
    // that.
    if let Ok(object) = serde_json::from_str::<Value>(json) {
        assert_eq!(plain::header(&object).as_ref(), Some(header), "{json}");
        assert_eq!(plain::pruned(object.clone()), object, "not pruned: {json}");
    }
}

/// Checks that a list that `serde_json` can parse is read with the same objects.
fn check_whole(read: &ReadList, items: &[Value]) {
    let expected: Vec<_> =
        items.iter().filter_map(|item| Some((plain::header(item)?, plain::pruned(item.clone())))).collect();
    assert!(read.end.is_ok(), "a valid list is rejected: {:?}", read.end);
    assert_eq!(read.unreadable, items.len() - expected.len());
    assert_eq!(read.objects.len(), expected.len());
    for (object, (header, value)) in read.objects.iter().zip(expected) {
        assert_eq!(object.header, header);
        assert_eq!(serde_json::from_str::<Value>(&object.json).expect("pruned JSON is JSON"), value);
    }
}

/// Checks that a list that breaks off is never complete.
fn check_cut_short(body: &Body<'_>) {
    let text = body.whole.trim_ascii_end();
    let cut = body.frames().first().map_or(0, |frame| frame.len()).min(text.len() - 1);
    let frames = vec![bytes::Bytes::copy_from_slice(&text[..cut])];
    assert!(
        read_list(frames, ReadOptions::default()).end.is_err(),
        "a list that is truncated to {cut} bytes is accepted as complete"
    );
}

#[derive(Deserialize)]
struct List<'a> {
    kind: String,
    metadata: ListMetadata,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(default, rename = "continue")]
    _continue_token: Option<String>,
    #[serde(default, rename = "remainingItemCount")]
    _remaining: Option<i64>,
}

/// Returns the items of a body if it is a fully valid list of pods.
fn plain_list(body: &[u8]) -> Option<Vec<Value>> {
    serde_json::from_slice::<Value>(body).ok()?;
    let list: List<'_> = serde_json::from_slice(body).ok()?;
    if list.kind != "PodList" || list.metadata.resource_version.is_empty() {
        return None;
    }
    let items: Vec<Value> =
        list.items.iter().map(|item| serde_json::from_str(item.get())).collect::<Result<_, _>>().ok()?;
    let is_pod = |item: &Value| {
        item.get("kind").is_none_or(|kind| kind == "Pod")
            && item.get("apiVersion").is_none_or(|version| version == "v1")
    };
    items.iter().all(is_pod).then_some(items)
}
