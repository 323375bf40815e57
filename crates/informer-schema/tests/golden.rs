//! Compares the conversion between JSON and protobuf byte for byte with that of Go, for random objects of
//! every kind.
//!
//! `tests/corpus` contains a few objects of each kind. `cargo xtask schema --verify N` generates new ones
//! from other seeds and runs these tests with their folder in `INFORMER_SCHEMA_CORPUS`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::Read;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_schema::{Envelope, Schema, StrictProblem, frame, write_frame};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    kind: String,
    wire: String,
    json: String,
    back: Option<String>,
    loose: Option<String>,
    loose_wire: Option<String>,
    frame: Option<String>,
}

fn read(name: &str) -> String {
    let folder = std::env::var_os("INFORMER_SCHEMA_CORPUS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus"), PathBuf::from);
    let packed = std::fs::read(folder.join(name)).unwrap();
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&*packed).read_to_string(&mut text).unwrap();
    text
}

/// Returns lists that a kube-apiserver sent as JSON and as protobuf.
fn served() -> Vec<Sample> {
    read("served.jsonl.gz").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn samples() -> Vec<Sample> {
    let mut samples: Vec<Sample> =
        read("objects.jsonl.gz").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for sample in &mut samples {
        // For a list without items that Go has decoded, the recorded JSON contains null. Servers send `[]`,
        // as this crate writes it, so the null is replaced.
        if sample.kind.ends_with("List") && sample.json.ends_with(r#""items":null}"#) {
            sample.json.truncate(sample.json.len() - "null}".len());
            sample.json.push_str("[]}");
        }
    }
    assert!(samples.len() > 600, "the corpus has {} objects only", samples.len());
    samples
}

fn bytes(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// Returns the first difference between two texts with some context, because whole objects are too long to
/// compare by eye.
fn parting(ours: &[u8], theirs: &[u8]) -> String {
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let part = |bytes: &[u8]| {
        let part = &bytes[at.saturating_sub(60).min(bytes.len())..(at + 40).min(bytes.len())];
        format!("{} {part:02x?}", String::from_utf8_lossy(part))
    };
    format!("at byte {at}:\n  ours   {}\n  theirs {}", part(ours), part(theirs))
}

fn check(
    what: &str,
    failures: &mut Vec<String>,
    sample: &Sample,
    ours: Result<Vec<u8>, String>,
    theirs: &[u8],
) {
    match ours {
        Ok(ours) if ours == theirs => {}
        Ok(ours) => failures.push(format!("{} {what} {}", sample.kind, parting(&ours, theirs))),
        Err(error) => failures.push(format!("{} {what}: {error}", sample.kind)),
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default())
}

fn report(failures: &[String]) {
    let shown: Vec<_> = failures.iter().take(12).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} differences\n{}", failures.len(), shown.join("\n"));
}

#[test]
fn protobuf_to_json_matches_go() {
    let (schema, mut failures) = (Schema::builtin(), Vec::new());
    for sample in samples() {
        let ours = schema.to_json(&bytes(&sample.wire)).map_err(|error| with_sources(&error));
        check("json", &mut failures, &sample, ours, sample.json.as_bytes());
    }
    report(&failures);
}

#[test]
fn recorded_lists_are_equal_in_both_encodings() {
    let (schema, mut failures) = (Schema::builtin(), Vec::new());
    let served = served();
    for sample in &served {
        let wire = bytes(&sample.wire);
        let ours = schema.to_json(&wire).map_err(|error| with_sources(&error));
        check("served json", &mut failures, sample, ours, sample.json.as_bytes());
        let ours = schema.to_protobuf(sample.json.as_bytes()).map_err(|error| with_sources(&error));
        check("served wire", &mut failures, sample, ours, &wire);
    }
    report(&failures);
    assert!(served.len() > 60, "{} lists", served.len());
}

#[test]
fn json_to_protobuf_matches_go() {
    let (schema, mut failures) = (Schema::builtin(), Vec::new());
    for sample in samples() {
        let ours = schema.to_protobuf(sample.json.as_bytes()).map_err(|error| with_sources(&error));
        let theirs = bytes(sample.back.as_ref().unwrap_or(&sample.wire));
        check("wire", &mut failures, &sample, ours, &theirs);
    }
    report(&failures);
}

#[test]
fn unusual_json_is_decoded_as_by_go() {
    let (schema, mut failures) = (Schema::builtin(), Vec::new());
    for sample in samples() {
        let (Some(loose), Some(wire)) = (&sample.loose, &sample.loose_wire) else { continue };
        let ours = schema.to_protobuf(loose.as_bytes()).map_err(|error| with_sources(&error));
        check("loose", &mut failures, &sample, ours, &bytes(wire));
        // The generator of the corpus added one unknown field, `noSuchField`, to this JSON. All other fields
        // are from the Go type, so the schema table must know them.
        let [group, version, name] = sample.kind.split('/').collect::<Vec<_>>().try_into().unwrap();
        let kind = schema.kind(&informer_core::Gvk::new(group, version, name)).unwrap();
        let problems = kind.strict_problems(loose.as_bytes()).unwrap();
        assert_eq!(problems, [StrictProblem::Unknown { path: "noSuchField".to_owned() }], "{loose}");
    }
    report(&failures);
}

#[test]
fn watch_frames_match_go() {
    let (schema, mut count) = (Schema::builtin(), 0);
    for sample in samples() {
        let Some(theirs) = sample.frame.as_deref().map(bytes) else { continue };
        let wire = bytes(&sample.wire);
        assert_eq!(write_frame("MODIFIED", &wire), theirs, "{}", sample.kind);
        let (event, rest) = frame(&theirs).unwrap();
        assert!(rest.is_empty());
        let json = String::from_utf8(schema.watch_event_to_json(event).unwrap()).unwrap();
        assert_eq!(json, format!("{{\"type\":\"MODIFIED\",\"object\":{}}}", sample.json));
        count += 1;
    }
    assert!(count > 10);
}

#[test]
fn every_kind_with_a_protobuf_form_is_in_the_corpus() {
    let schema = Schema::builtin();
    let samples = samples();
    for kind in schema.kinds().filter(|kind| kind.has_protobuf()) {
        let name = format!("{}/{}/{}", kind.group(), kind.version(), kind.name());
        assert!(samples.iter().any(|sample| sample.kind == name), "{name}");
    }
}

#[test]
fn truncated_objects_do_not_panic() {
    let schema = Schema::builtin();
    for sample in samples().iter().step_by(5) {
        let wire = bytes(&sample.wire);
        for end in (0..wire.len()).step_by(7) {
            let _ = schema.to_json(&wire[..end]);
        }
        for at in (0..wire.len()).step_by(3) {
            let mut bent = wire.clone();
            bent[at] ^= 1 << (at % 8);
            let _ = schema.to_json(&bent);
        }
        let raw = Envelope::parse(&wire).unwrap().raw;
        assert!(raw.is_empty() || wire.len() > raw.len());
    }
}
