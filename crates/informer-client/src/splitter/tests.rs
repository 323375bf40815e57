use proptest::prelude::*;
use serde_json::{Value, json};

use super::frames::Frames;
use super::list::{ListElement, ListMember, ListSplitter};
use super::{Limits, Slice, SplitError};
use crate::arbitrary;
use crate::scan::Cursor;

/// Asserts that a cursor that skips recorded objects and arrays finds the same members as a cursor that scans
/// everything.
fn check_spans(slice: Slice<'_>) {
    let text = std::str::from_utf8(slice.bytes).unwrap();
    for span in slice.spans {
        let value = &text[span.start..span.end];
        assert!(serde_json::from_str::<Value>(value).is_ok(), "{value} in {text}");
    }
    let (mut jumping, mut scanning) = (Cursor::with_spans(text, slice.spans, 0), Cursor::new(text));
    if jumping.object().is_err() {
        return;
    }
    let (mut first, mut first_again) = (true, true);
    scanning.object().unwrap();
    while let Some(key) = jumping.member(&mut first).unwrap() {
        assert_eq!(scanning.member(&mut first_again).unwrap().unwrap().start(), key.start());
        assert_eq!(jumping.skip(), scanning.skip());
    }
}

/// Splits the body of a list that arrives in these frames. Returns the items, the values of `metadata`, and
/// whether the list is complete.
fn split(frames: &[&[u8]]) -> Result<(Vec<Value>, Vec<Value>, bool), SplitError> {
    let mut splitter = ListSplitter::new(Limits::default());
    let (mut items, mut metadata) = (Vec::new(), Vec::new());
    for frame in frames {
        let mut at = 0;
        while let Some(part) = splitter.next(frame, &mut at)? {
            match part {
                ListElement::Item(item) => {
                    check_spans(item);
                    items.push(serde_json::from_slice(item.bytes).expect("an item is a value"));
                }
                ListElement::Member(ListMember::Metadata, value) => {
                    metadata.push(serde_json::from_slice(value).unwrap())
                }
                ListElement::Member(..) => {}
            }
        }
        assert_eq!(at, frame.len(), "the frame is consumed");
    }
    Ok((items, metadata, splitter.is_complete()))
}

fn list_body() -> impl Strategy<Value = (String, Vec<Value>)> {
    let items = prop::collection::vec(prop_oneof![arbitrary::object(), arbitrary::value()], 0..4);
    (items, arbitrary::value(), arbitrary::choices()).prop_map(|(items, other, choices)| {
        let list =
            json!({"kind": "PodList", "items": items, "metadata": {"resourceVersion": "7"}, "other": other});
        (
            arbitrary::write(
                &list,
                &mut choices
                    .into_iter()
                    .filter(|choice| *choice <= 230)
                    .chain([99])
                    .collect::<Vec<_>>()
                    .into_iter()
                    .cycle(),
            ),
            items,
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn list_is_split_the_same_at_every_boundary((body, items) in list_body()) {
        for border in 0..=body.len() {
            let (left, right) = body.as_bytes().split_at(border);
            let (found, metadata, complete) = split(&[left, right]).unwrap();
            prop_assert_eq!(&found, &items);
            prop_assert_eq!(metadata, vec![json!({"resourceVersion": "7"})]);
            prop_assert!(complete);
        }
        let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        prop_assert_eq!(split(&bytes).unwrap().0, items);
    }

    #[test]
    fn truncated_list_is_never_complete(
        (body, items) in list_body(),
        at: prop::sample::Index,
    ) {
        let at = at.index(body.trim_end().len());
        let (found, _, complete) = split(&[&body.as_bytes()[..at]]).unwrap();
        prop_assert!(!complete);
        prop_assert!(items.starts_with(&found));
    }

    #[test]
    fn any_bytes_are_split_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), at: prop::sample::Index) {
        let (left, right) = bytes.split_at(at.index(bytes.len() + 1));
        let mut splitter = ListSplitter::new(Limits::default());
        let mut frames = Frames::new(Limits::default());
        for frame in [left, right] {
            let (mut at, mut at_frame) = (0, 0);
            while let Ok(Some(_)) = splitter.next(frame, &mut at) {}
            while let Ok(Some(_)) = frames.next(frame, &mut at_frame) {}
        }
    }

    #[test]
    fn events_are_split_the_same_at_every_boundary(
        objects in prop::collection::vec(arbitrary::object(), 1..4),
        choices in arbitrary::choices(),
        between in prop_oneof![Just("\n"), Just(""), Just(" \r\n\n")],
    ) {
        let mut choices = choices.into_iter().cycle();
        let events: Vec<Value> = objects.iter().map(|object| json!({"type": "ADDED", "object": object})).collect();
        let texts: Vec<String> = events.iter().map(|event| arbitrary::write(event, &mut choices)).collect();
        let body = texts.join(between);
        for border in 0..=body.len() {
            let (mut frames, mut found) = (Frames::new(Limits::default()), Vec::new());
            for frame in [&body.as_bytes()[..border], &body.as_bytes()[border..]] {
                let mut at = 0;
                while let Some(event) = frames.next(frame, &mut at).unwrap() {
                    if border % 32 == 0 {
                        check_spans(event);
                    }
                    found.push(String::from_utf8(event.bytes.to_vec()).unwrap());
                }
            }
            prop_assert_eq!(&found, &texts);
            prop_assert!(frames.may_end());
        }
    }
}

#[test]
fn line_with_open_brackets_does_not_swallow_later_events() {
    let error_of = |lines: &[&str]| {
        let mut frames = Frames::new(Limits::default());
        lines.iter().find_map(|line| {
            let mut at = 0;
            loop {
                match frames.next(line.as_bytes(), &mut at) {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(error) => return Some(error.to_string()),
                }
            }
        })
    };
    let event = "{\"type\":\"ADDED\",\"object\":{}}\n";
    let error = error_of(&[event, "{\"type\":\"ADDED\",\"object\":{{{\n"]);
    assert_eq!(error.unwrap(), format!("not JSON: expected a value at byte {}", event.len()));
    // An event that spans several lines is valid, even if a network frame ends after each of these lines.
    assert_eq!(error_of(&["{\n", "\"type\":\n", "\"ADDED\",\n", "\"object\":{\n", "}}\n", event]), None);
}

#[test]
fn invalid_lists_are_rejected_with_the_offset() {
    let cases: [(&str, &str); 12] = [
        ("hello", "not JSON: expected an object at byte 0, found 'h'"),
        ("[]", "not JSON: expected an object at byte 0, found '['"),
        ("{]", "not JSON: expected a key at byte 1, found ']'"),
        ("{\"items\" 1", "not JSON: expected ':' at byte 9, found '1'"),
        ("{\"items\":{}}", "not JSON: expected an array of items at byte 9, found '{'"),
        ("{\"items\":[1 2]}", "not JSON: expected ',' or ']' at byte 12, found '2'"),
        ("{\"items\":[,]}", "not JSON: expected a value at byte 10, found ','"),
        ("{\"items\":[],}", "not JSON: expected a key at byte 12, found '}'"),
        ("{\"items\":[{\"a\":]}", "the closing bracket at byte 15 does not match the opening bracket"),
        ("{\"items\":[nope]}", "not JSON: expected a value at byte 10, found 'n'"),
        ("{\"items\":[],\"items\":[]}", "items is a duplicate key"),
        ("{} {}", "not JSON: expected the end of the response at byte 3, found '{'"),
    ];
    for (body, error) in cases {
        assert_eq!(split(&[body.as_bytes()]).unwrap_err().to_string(), error, "{body}");
    }
}

#[test]
fn error_for_an_invalid_word_names_its_start_at_every_boundary() {
    let body = br#"{"a":nul,"items":[]}"#;
    for border in 0..=body.len() {
        let (left, right) = body.split_at(border);
        let error = split(&[left, right]).unwrap_err();
        assert_eq!(error.to_string(), "not JSON: expected a value at byte 5, found 'n'", "boundary {border}");
    }
}

#[test]
fn errors_name_the_exceeded_limit() {
    let limits = Limits { object_bytes: 100, page_bytes: 300, depth: 5 };
    let feed = |body: &[u8]| {
        let mut splitter = ListSplitter::new(limits);
        for frame in body.chunks(64) {
            let mut at = 0;
            while splitter.next(frame, &mut at)?.is_some() {}
        }
        Ok::<usize, SplitError>(splitter.max_buffered())
    };
    let large = format!("{{\"items\":[\"{}", "x".repeat(1000));
    let error = feed(large.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "an object is over the limit of 100 bytes (Limits::object_bytes)");
    let endless = format!("{{\"items\":[{}", "{},".repeat(1000));
    let error = feed(endless.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "the list is over the limit of 300 bytes (Limits::page_bytes)");
    let deep = format!("{{\"items\":[{}", "[".repeat(6));
    let error = feed(deep.as_bytes()).unwrap_err().to_string();
    assert_eq!(error, "a value is nested over the limit of 5 brackets (Limits::depth)");
}

#[test]
fn a_list_of_a_hundred_thousand_objects_buffers_one_object() {
    let object =
        json!({"metadata": {"name": "web", "uid": "u"}, "spec": {"text": "x".repeat(500)}}).to_string();
    let mut splitter = ListSplitter::new(Limits::default());
    let (mut items, mut frame, mut sent) = (0, Vec::from(&b"{\"items\":["[..]), 0);
    const OBJECTS: usize = 100_000;
    // Frames of 4 KiB are generated one after the other, as a socket would return them, so that the test
    // needs little memory.
    while sent < OBJECTS || !frame.is_empty() {
        while frame.len() < 4096 && sent < OBJECTS {
            frame.extend_from_slice(object.as_bytes());
            sent += 1;
            frame.extend_from_slice(if sent < OBJECTS { b"," } else { b"]}" });
        }
        let rest = frame.split_off(frame.len().min(4096));
        let mut at = 0;
        while let Some(ListElement::Item(_)) = splitter.next(&frame, &mut at).unwrap() {
            items += 1;
        }
        frame = rest;
    }
    assert_eq!((items, splitter.is_complete()), (OBJECTS, true));
    assert!(splitter.max_buffered() <= object.len(), "{} bytes", splitter.max_buffered());
}

#[test]
fn splitting_a_million_tiny_objects_buffers_at_most_one_of_them() {
    const OBJECTS: usize = 1_000_000;
    let mut splitter = ListSplitter::new(Limits::default());
    let (begin, part) = (b"{\"items\":[{}".to_vec(), b",{}".repeat(1000));
    let frames =
        std::iter::once(begin).chain(std::iter::repeat_n(part, OBJECTS / 1000)).chain([b"]}".to_vec()]);
    let mut items = 0;
    for frame in frames {
        let mut at = 0;
        while let Some(ListElement::Item(item)) = splitter.next(&frame, &mut at).unwrap() {
            assert_eq!(item.bytes, b"{}");
            items += 1;
        }
    }
    assert_eq!((items, splitter.is_complete()), (OBJECTS + 1, true));
    assert!(splitter.max_buffered() <= 2, "{} bytes", splitter.max_buffered());
}

/// A caller may continue with the next frame after the last value of a frame, without another call of `next`
/// that returns `None`. The byte offsets in errors must be the same in both cases.
#[test]
fn offsets_are_correct_without_a_call_after_the_last_value_of_a_frame() {
    let event = br#"{"type":"ADDED","object":{}}"#;
    for asks_again in [false, true] {
        let (mut frames, mut at) = (Frames::new(Limits::default()), 0);
        assert!(frames.next(event, &mut at).unwrap().is_some());
        assert_eq!(at, event.len());
        if asks_again {
            assert!(frames.next(event, &mut at).unwrap().is_none());
        }
        let error = frames.next(b" x", &mut 0).unwrap_err().to_string();
        assert_eq!(error, format!("not JSON: expected an event at byte {}, found 'x'", event.len() + 1));

        let body = br#"{"items":[{"a":1}"#;
        let limits = Limits { page_bytes: body.len() as u64 + 2, ..Limits::default() };
        let [mut wrong, mut long] = [(); 2].map(|()| ListSplitter::new(limits));
        for list in [&mut wrong, &mut long] {
            let mut at = 0;
            assert!(matches!(list.next(body, &mut at), Ok(Some(ListElement::Item(_)))));
            assert_eq!(at, body.len());
            if asks_again {
                assert!(list.next(body, &mut at).unwrap().is_none());
            }
        }
        let error = wrong.next(b" x", &mut 0).unwrap_err().to_string();
        assert_eq!(error, format!("not JSON: expected ',' or ']' at byte {}, found 'x'", body.len() + 1));
        assert!(matches!(long.next(b"]}", &mut 0), Ok(None)));
        assert!(matches!(long.next(b" ", &mut 0), Err(SplitError::Large { limit: 19, .. })));
    }
}

#[test]
fn protobuf_watch_reports_the_most_bytes_that_it_buffered() {
    let mut lengths = super::lengths::Lengths::new(Limits::default());
    let event = [&[0, 0, 0, 8][..], &[7; 8]].concat();
    let mut at = 0;
    assert!(lengths.next(&event[..6], &mut at).unwrap().is_none());
    assert!(lengths.max_buffered() >= 6, "{} bytes", lengths.max_buffered());
}
