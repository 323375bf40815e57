use std::collections::BTreeSet;

use http::{Method, Uri};
use informer_apiserver::{FaultAction, FaultScript};
use serde_json::{Value, json};

use super::plan::{self, Observed};
use super::request::ProgramWrite;
use super::stale::{StaleCache, StaleRead};
use super::state::{IgnoredField, State, StoredObject, differences, normalize, not_upgraded, terminating};

fn script(text: &str) -> FaultScript {
    text.parse().expect("a valid script")
}

fn observed() -> Observed {
    Observed { writes: 6, watched: BTreeSet::from(["pods".to_owned(), "websites".to_owned()]), elects: true }
}

#[test]
fn random_script_is_parsed_from_its_own_text() {
    for seed in 0..200 {
        let random = plan::random(&observed(), seed);
        assert_eq!(script(&random.to_string()), random);
    }
}

#[test]
fn systematic_scripts_try_each_fault_at_each_write() {
    let scripts = plan::systematic(&observed());
    // Crashes after each write, with each earlier state of both resources.
    let stale = 2 * (2 + 3 + 4 + 5 + 6 + 7);
    assert_eq!(scripts.len(), 6 * 5 + 2 * 7 + stale);
    let texts: BTreeSet<String> = scripts.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), scripts.len());
    for script in ["crash after write 6", "409 at write 1", "stale pods 5s at write 0; crash after write 6"] {
        assert!(texts.contains(script), "{script}");
    }
}

#[test]
fn number_of_scripts_with_stale_lists_is_limited() {
    let many = Observed { writes: 10_000, ..observed() };
    let scripts = plan::systematic(&many);
    let stale_lists = |resource: &str| {
        let text = format!("stale {resource} ");
        scripts.iter().filter(|script| script.to_string().contains(&text)).count()
    };
    let (pods, websites) = (stale_lists("pods"), stale_lists("websites"));
    assert!(pods == websites && (80..=100).contains(&pods), "{pods}, {websites}");
}

#[test]
fn stale_cache_answers_only_reads_that_accept_any_version() {
    let cache = StaleCache::new("websites", 5, 17);
    let base = "/apis/example.com/v1/namespaces/a/websites";
    let read = |query: &str| {
        let uri: Uri = format!("{base}?{query}").parse().expect("a URI");
        let request = ProgramWrite::parse(&Method::GET, uri.path(), query, b"").expect("a request");
        cache.read(&request, &uri)
    };
    for query in
        ["limit=500&resourceVersion=0&labelSelector=a", "labelSelector=a&resourceVersion=0&limit=500"]
    {
        let Some(StaleRead::List { uri, version: 17 }) = read(query) else { panic!("{query} is not stale") };
        let exact = "labelSelector=a&resourceVersion=17&resourceVersionMatch=Exact";
        assert_eq!(uri.to_string(), format!("{base}?{exact}"));
    }
    let streaming = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    assert!(matches!(read(streaming), Some(StaleRead::NoStreamingList)));
    let watch = read("watch=true&resourceVersion=17");
    assert!(matches!(watch, Some(StaleRead::Watch { version: 17, lag: FaultAction::Lag { millis: 5000 } })));
    for query in [
        "",
        "limit=500",
        "resourceVersion=16",
        "resourceVersion=16&resourceVersionMatch=NotOlderThan",
        "watch=true&resourceVersion=18",
        "watch=true&sendInitialEvents=true&resourceVersion=18&resourceVersionMatch=NotOlderThan",
    ] {
        assert!(read(query).is_none(), "{query} is a consistent read or has a minimum version");
    }
    let of_pods =
        ProgramWrite::parse(&Method::GET, "/api/v1/pods", "resourceVersion=0", b"").expect("a request");
    assert!(cache.read(&of_pods, &Uri::from_static("/api/v1/pods?resourceVersion=0")).is_none());
}

#[test]
fn random_scripts_depend_on_the_seed_only() {
    assert_eq!(plan::random(&observed(), 3), plan::random(&observed(), 3));
    let texts: BTreeSet<String> = (0..100).map(|seed| plan::random(&observed(), seed).to_string()).collect();
    assert_eq!(texts.len(), 100);
    let isolates = |text: &String| text.contains("isolate");
    assert!(texts.iter().any(isolates));
    let without = Observed { elects: false, ..observed() };
    assert!(!(0..100).map(|seed| plan::random(&without, seed).to_string()).any(|text| isolates(&text)));
}

fn stored(resource: &str, object: Value) -> StoredObject {
    StoredObject { group: String::new(), resource: resource.to_owned(), object }
}

fn website(uid: &str) -> Value {
    json!({
        "metadata": {"name": "shop", "namespace": "a", "uid": uid, "resourceVersion": uid, "generation": 3},
        "status": {"at": "2026-01-01T00:00:00Z", "observedGeneration": 3, "uid": uid},
    })
}

fn job(suffix: &str, owner: &str) -> Value {
    json!({"metadata": {
        "name": format!("job-{suffix}"), "generateName": "job-", "namespace": "a",
        "ownerReferences": [{"name": "shop", "uid": owner}],
    }})
}

fn state(objects: Vec<StoredObject>) -> State {
    normalize(objects, &[])
}

#[test]
fn state_is_equal_if_only_versions_uids_times_and_generated_names_differ() {
    let first = state(vec![stored("websites", website("u1")), stored("jobs", job("x1", "u1"))]);
    let second = state(vec![stored("jobs", job("q7", "u2")), stored("websites", website("u2"))]);
    assert_eq!(first, second);
    assert_eq!(first.keys().collect::<Vec<_>>(), ["jobs a/job-*", "websites a/shop"]);
}

#[test]
fn second_generated_object_and_stale_owner_are_differences() {
    let one = state(vec![stored("websites", website("u1")), stored("jobs", job("x1", "u1"))]);
    let jobs = [stored("jobs", job("x1", "u1")), stored("jobs", job("x2", "u1"))];
    let two = state(jobs.into_iter().chain([stored("websites", website("u1"))]).collect());
    assert_eq!(differences(&one, &two), ["jobs a/job-* #2 exists, without faults it does not"]);
    assert_eq!(differences(&two, &one), ["jobs a/job-* #2 is missing"]);
    let stale = state(vec![stored("websites", website("u1")), stored("jobs", job("x1", "u0"))]);
    let found = differences(&one, &stale).join("; ");
    assert!(found.contains("uid of a deleted object"), "{found}");
}

#[test]
fn difference_names_the_field() {
    let of = |replicas: u64| {
        state(vec![stored("d", json!({"metadata": {"name": "x"}, "spec": {"replicas": replicas}}))])
    };
    assert_eq!(differences(&of(2), &of(3)), ["d x: spec.replicas is 3, without faults 2"]);
}

#[test]
fn upgrade_may_leave_objects_but_not_their_former_content() {
    let of = |replicas: u64| json!({"metadata": {"name": "x"}, "spec": {"replicas": replicas}});
    let next_alone = state(vec![stored("d", of(2))]);
    let left = || stored("d", json!({"metadata": {"name": "left"}}));
    assert_eq!(not_upgraded(&next_alone, &state(vec![stored("d", of(2)), left()])), [""; 0]);
    let expected = ["d x: spec.replicas is 1, with the new program alone 2"];
    assert_eq!(not_upgraded(&next_alone, &state(vec![stored("d", of(1)), left()])), expected);
    assert_eq!(not_upgraded(&next_alone, &state(vec![left()])), ["d x is missing"]);
}

#[test]
fn ignored_fields_are_not_compared() {
    let object = |value: &str| {
        let metadata = json!({"name": "x", "annotations": {"example.com/at": value}});
        stored("d", json!({"metadata": metadata, "items": [{"at": value, "kept": 1}]}))
    };
    let ignored = [
        IgnoredField::parse("metadata.annotations[example.com/at]"),
        IgnoredField::parse("d:items.at"),
        IgnoredField::parse("other:items.kept"),
    ];
    let first = normalize(vec![object("1")], &ignored);
    assert_eq!(first, normalize(vec![object("2")], &ignored));
    assert_eq!(first["d x"]["items"][0]["kept"], 1);
}

#[test]
fn terminating_objects_are_found_and_events_are_left_out() {
    let deleted = json!({"metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let found = state(vec![stored("d", deleted), stored("events", json!({"metadata": {"name": "e"}}))]);
    assert_eq!(terminating(&found), ["d x"]);
    assert_eq!(found.len(), 1);
}
