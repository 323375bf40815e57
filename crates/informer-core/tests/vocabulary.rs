//! Tests keys, versions, labels and field paths through the public API.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use informer_core::deadline::{MAX_WAIT, later};
use informer_core::panics::panic_text;
use informer_core::random::{self, SeededThread, seeded};
use informer_core::{
    FieldPath, Gvk, Gvr, Header, KeyError, Labels, Object, ObjectKey, OwnerReference, ResourceVersion,
    Tombstone,
};

#[test]
fn object_key_round_trips_through_its_string() {
    for (text, namespace, name) in [("ns/name", Some("ns"), "name"), ("name", None, "name")] {
        let key: ObjectKey = text.parse().unwrap();
        assert_eq!((key.namespace(), key.name(), key.to_string().as_str()), (namespace, name, text));
    }
    assert_eq!("/name".parse::<ObjectKey>().unwrap(), "name", "a leading slash is dropped, as in client-go");
}

#[test]
fn key_with_two_slashes_or_empty_name_is_invalid() {
    for text in ["a/b/c", "a/", "", "/", "a//"] {
        let error = text.parse::<ObjectKey>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")) && error.contains("NAMESPACE/NAME"), "{error}");
    }
    assert!(ObjectKey::new("a/b", "c").is_err());
    assert_eq!(ObjectKey::explicit("a/b/c").name(), "a/b/c");
}

#[test]
fn error_of_an_invalid_key_names_the_problem() {
    for (text, problem) in [("a/", "the name is empty"), ("a/b/c", "it has more than one slash")] {
        let error = text.parse::<ObjectKey>().unwrap_err().to_string();
        assert!(error.contains(&format!("is not an object key: {problem};")), "{error}");
    }
}

#[test]
fn only_numeric_versions_of_any_length_are_ordered() {
    let compare = |a: &str, b: &str| ResourceVersion::from(a).compare(&ResourceVersion::from(b));
    assert_eq!(compare("9", "10"), Some(Ordering::Less));
    assert_eq!(compare("0", "1"), Some(Ordering::Less));
    assert_eq!(compare("18446744073709551616", "18446744073709551615"), Some(Ordering::Greater));
    assert_eq!(compare("18446744073709551616", "28446744073709551616"), Some(Ordering::Less));
    assert_eq!(compare("7", "7"), Some(Ordering::Equal));
    for (a, b) in [("", "1"), ("01", "1"), ("abc", "1"), ("", ""), ("-1", "1"), ("1.5", "2")] {
        assert_eq!(compare(a, b), None, "{a:?} {b:?}");
    }
}

#[test]
fn resource_version_displays_its_original_string() {
    for text in ["", "0", "1", "007", "18446744073709551616", "abc"] {
        assert_eq!(ResourceVersion::from(text).to_string(), text);
    }
}

#[test]
fn keys_and_versions_equal_exactly_their_own_string() {
    let key = ObjectKey::explicit("ns/name");
    assert!(key == *"ns/name" && key != *"ns/other");
    assert!(key == "ns/name" && key != "ns/other");
    for (text, others) in [("7", ["8", "07", ""]), ("0", ["1", "00", ""]), ("abc", ["abd", "0", ""])] {
        let version = ResourceVersion::from(text);
        assert!(version == *text && version == text, "{text}");
        for other in others {
            assert!(version != *other && version != other, "{text} {other}");
        }
    }
}

#[test]
fn duplicate_label_key_keeps_the_last_value() {
    let labels: Labels = [("b", "1"), ("a", "2"), ("b", "3")].into_iter().collect();
    assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "2"), ("b", "3")]);
    assert_eq!((labels.get("b"), labels.get("c")), (Some("3"), None));
}

#[test]
fn label_iterator_knows_how_many_labels_are_left() {
    let labels: Labels = [("a", "1"), ("b", "2"), ("c", "3")].into_iter().collect();
    let mut iterator = labels.iter();
    assert_eq!((iterator.len(), iterator.size_hint()), (3, (3, Some(3))));
    iterator.next();
    assert_eq!((iterator.len(), iterator.size_hint()), (2, (2, Some(2))));
    iterator.by_ref().for_each(drop);
    assert_eq!((iterator.len(), iterator.next()), (0, None));
}

#[test]
fn held_bytes_of_a_header_count_each_owner_and_its_strings() {
    let held = |owners: &[&str]| {
        let owners = owners.iter().map(|name| OwnerReference::new("apps/v1", "ReplicaSet", name, "u", true));
        Header::new("ns/web-0".parse().unwrap()).with_owners(owners.collect::<Vec<_>>()).held_bytes()
    };
    let strings = |name: &str| "apps/v1".len() + "ReplicaSet".len() + name.len() + "u".len();
    assert_eq!(held(&["longer-name"]) - held(&["name"]), "longer-".len());
    assert!(held(&["a"]) >= held(&[]) + size_of::<OwnerReference>() + strings("a"));
    assert_eq!(held(&["a", "b"]) - held(&["a"]), held(&["a"]) - held(&[]));
}

#[test]
fn header_implements_object() {
    let owner = OwnerReference::new("apps/v1", "ReplicaSet", "web", "u", true);
    assert_eq!(
        [owner.api_version(), owner.kind(), owner.name(), owner.uid()],
        ["apps/v1", "ReplicaSet", "web", "u"]
    );
    let header = Header::new("ns/web-0".parse().unwrap());
    let header = header.with_uid("u-1").with_version("4").with_owners([owner.clone()]);
    assert_eq!(header.controller(), Some(&owner));
    let other = OwnerReference::new("apps/v1", "ReplicaSet", "web", "u", false);
    assert_eq!(header.clone().with_owners([other]).controller(), None);
    for (path, value) in [("name", "web-0"), ("namespace", "ns"), ("uid", "u-1"), ("resourceVersion", "4")] {
        let path = format!("metadata.{path}").parse().unwrap();
        assert_eq!(Object::field(&header, &path).as_deref(), Some(value), "{path}");
    }
    assert_eq!(Object::field(&header, &"spec.nodeName".parse().unwrap()), None);
    let bare = Header::new("web".parse().unwrap());
    assert_eq!(Object::generation(&bare), None);
    assert_eq!(Object::generation(&bare.clone().with_generation(Some(3))), Some(3));
    for absent in ["metadata.namespace", "metadata.uid", "metadata.resourceVersion"] {
        assert_eq!(Object::field(&bare, &absent.parse().unwrap()), None, "{absent}");
    }
}

#[test]
fn tombstone_has_a_version_only_if_it_was_set() {
    let bare = Tombstone::<Header>::missed("ns/web".parse().unwrap(), None);
    assert_eq!((bare.version(), bare.stale()), (None, true));
    let observed = bare.with_version("7".into());
    assert_eq!(observed.version(), Some(&"7".into()));
    assert_eq!(observed.clone().version(), observed.version());
    let last = Arc::new(Header::new("ns/web".parse().unwrap()));
    let deleted = Tombstone::observed("ns/web".parse().unwrap(), Arc::clone(&last));
    assert_eq!((deleted.last(), deleted.version(), deleted.stale()), (Some(&last), None, false));
}

#[test]
fn field_paths_take_quoted_names() {
    let path: FieldPath = "a['b.c'].d".parse().unwrap();
    assert_eq!(path.segments().collect::<Vec<_>>(), ["a", "b.c", "d"]);
    for text in ["", ".a", "a.", "a..b", "a['b", "a[0]", "a['b']c"] {
        assert!(text.parse::<FieldPath>().is_err(), "{text}");
    }
    for (text, offset) in
        [("", 0), (".a", 0), ("a.", 2), ("a..b", 2), ("a['b", 4), ("a[0]", 1), ("a['b']c", 6)]
    {
        let error = text.parse::<FieldPath>().unwrap_err().to_string();
        assert!(error.ends_with(&format!("at offset {offset}")), "{error}");
    }
}

#[test]
fn kinds_and_resources_print_as_kubectl_writes_them() {
    assert_eq!(Gvk::from_api_version("apps/v1", "Deployment").unwrap().to_string(), "Deployment.v1.apps");
    assert_eq!(Gvk::new("", "v1", "Pod").api_version(), "v1");
    assert!(Gvk::from_api_version("a/b/c", "X").is_err());
    let gvr: Gvr = "deployments.v1.apps".parse().unwrap();
    assert_eq!(gvr.path(Some("ns")), "/apis/apps/v1/namespaces/ns/deployments");
    assert_eq!(Gvr::new("", "v1", "pods").path(None), "/api/v1/pods");
    for text in ["deployments.v1.apps", "pods.v1"] {
        assert_eq!(text.parse::<Gvr>().unwrap().to_string(), text);
    }
}

/// An object with annotations that implements only what it must.
struct Annotated {
    header: Header,
    annotations: Labels,
}

impl Object for Annotated {
    fn header(&self) -> &Header {
        &self.header
    }

    fn annotations(&self) -> Cow<'_, Labels> {
        Cow::Borrowed(&self.annotations)
    }
}

#[test]
fn annotation_is_by_default_one_of_the_annotations() {
    let header = Header::new("web".parse().unwrap());
    assert_eq!(header.annotation("a"), None);
    let annotated = Annotated { header, annotations: [("a", "1"), ("b", "2")].into_iter().collect() };
    assert_eq!(annotated.annotation("b").as_deref(), Some("2"));
    assert_eq!(annotated.annotation("c"), None);
    assert_eq!(annotated.held_bytes(), annotated.header.held_bytes(), "other memory is not known");
}

#[test]
fn keys_compare_hash_and_print_like_their_strings() {
    let texts = ["b", "a/b", "a", "a/a", "ab"];
    let key = |text: &str| ObjectKey::try_from(text).unwrap();
    let mut keys = texts.map(key);
    keys.sort();
    assert_eq!(keys.each_ref().map(ObjectKey::as_str), ["a", "a/a", "a/b", "ab", "b"]);
    assert_eq!(key("a").partial_cmp(&key("b")), Some(Ordering::Less));
    let (one, same) = (ObjectKey::new("a", "b").unwrap(), key("a/b"));
    assert!(one == same && one == one.clone() && one != key("a/c"));
    assert!(one == "a/b" && one != "a/c" && one == *"a/b");
    let values: HashMap<ObjectKey, usize> = keys.iter().cloned().zip(0..).collect();
    assert_eq!((values.get("a/b"), values.get(&same), values.get("c")), (Some(&2), Some(&2), None));
    assert_eq!(
        (AsRef::<str>::as_ref(&one), format!("{one:>5}"), format!("{one:?}")),
        ("a/b", "  a/b".into(), "a/b".into())
    );
    let cluster = ObjectKey::cluster("node").unwrap();
    assert_eq!((cluster.namespace(), cluster.name(), cluster.as_str()), (None, "node", "node"));
    assert!(ObjectKey::cluster("").is_err() && ObjectKey::new("a", "b/c").is_err());
}

#[test]
fn error_of_a_key_function_names_the_object_and_the_cause() {
    let error = KeyError::new("row 7", "it has no id");
    assert_eq!((error.object(), error.to_string().as_str()), ("row 7", "no key for row 7"));
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "it has no id");
}

#[test]
fn labels_know_their_keys_number_and_memory() {
    let labels: Labels = [("b", "1"), ("a", "")].into_iter().collect();
    assert!(labels.contains_key("a") && labels.contains_key("b") && !labels.contains_key("c"));
    assert_eq!((labels.len(), labels.is_empty(), labels.get("a")), (2, false, Some("")));
    assert_eq!(labels, [("a", ""), ("b", "1")].into_iter().collect());
    // Each string has a length of one byte.
    assert_eq!(labels.held_bytes(), "b1a".len() + 4);
    let repeated: Labels = [("a", "1"), ("a", "2")].into_iter().collect();
    assert_eq!((repeated.len(), repeated.get("a")), (1, Some("2")));
    let none = Labels::default();
    assert_eq!((none.len(), none.is_empty(), none.held_bytes()), (0, true, 0));
}

#[test]
fn special_resource_versions_are_known_and_numbers_are_read() {
    let (unset, any) = (ResourceVersion::unset(), ResourceVersion::any());
    assert_eq!((unset.is_empty(), unset.is_any(), unset.to_string()), (true, false, String::new()));
    assert_eq!((any.is_empty(), any.is_any(), any.to_string()), (false, true, "0".to_owned()));
    assert_eq!((ResourceVersion::default(), ResourceVersion::from(0)), (unset, any));
    let version = |text: &str| text.parse::<ResourceVersion>().unwrap();
    assert_eq!(version("7"), ResourceVersion::from(7));
    assert_eq!(version("7"), ResourceVersion::from("7".to_owned()));
    let numbers =
        ["7", "18446744073709551615", "18446744073709551616", "07", ""].map(|text| version(text).as_u64());
    assert_eq!(numbers, [Some(7), Some(u64::MAX), None, None, None]);
    assert!(version("7") == "7" && version("7") != "8" && version("7") != "07" && version("07") == "07");
    let equal = [("0", "0"), ("0", ""), ("", "")].map(|(text, other)| version(text) == *other);
    assert_eq!(equal, [true, false, true]);
    assert!(version("7").is_older_than(&version("8")) && !version("8").is_older_than(&version("7")));
    assert!(!version("7").is_older_than(&version("7")) && !version("a").is_older_than(&version("b")));
    let large = version("18446744073709551616");
    assert!(version("7").is_older_than(&large) && !large.is_older_than(&version("7")));
    for (one, other) in [("a", "7"), ("7", "a"), ("a", "18446744073709551616"), ("18446744073709551616", "a")]
    {
        assert_eq!(version(one).compare(&version(other)), None, "{one} {other}");
    }
    assert_eq!(format!("{:>3}|{:>3}", version("7"), version("a")), "  7|  a");
}

#[test]
fn tombstone_returns_its_key_and_last_state() {
    let key: ObjectKey = "ns/web".parse().unwrap();
    let last = Arc::new(Header::new(key.clone()));
    let missed = Tombstone::missed(key.clone(), Some(Arc::clone(&last)));
    assert_eq!((missed.key(), missed.last(), missed.stale()), (&key, Some(&last), true));
    let copy = missed.clone();
    assert_eq!((copy.key(), copy.stale()), (&key, true));
    assert_eq!(copy.into_last(), Some(last));
    assert_eq!(Tombstone::<Header>::missed(key, None).into_last(), None);
}

#[test]
fn field_paths_print_as_they_were_written() {
    for text in ["spec.nodeName", "metadata.annotations['example.com/role']", "a['b']['c'].d"] {
        let path: FieldPath = text.parse().unwrap();
        assert_eq!(
            (path.as_str(), path.to_string().as_str(), format!("{path:?}").as_str()),
            (text, text, text)
        );
    }
    assert_eq!("a['b']['c'].d".parse::<FieldPath>().unwrap().segments().len(), 4);
    let error = "a..b".parse::<FieldPath>().unwrap_err().to_string();
    assert_eq!(error, "field path \"a..b\": expected a field name at offset 2");
    let error = "a[0]".parse::<FieldPath>().unwrap_err().to_string();
    assert_eq!(error, "field path \"a[0]\": expected '.', \"['\" or the end at offset 1");
}

#[test]
fn groups_and_versions_are_joined_and_split() {
    let (kind, resource) = (Gvk::new("apps", "v1", "Deployment"), Gvr::new("apps", "v1", "deployments"));
    assert_eq!((kind.api_version(), resource.api_version()), ("apps/v1".to_owned(), "apps/v1".to_owned()));
    assert_eq!(Gvr::new("", "v1", "pods").api_version(), "v1");
    assert_eq!(Gvk::from_api_version("apps/v1", "Deployment").unwrap(), kind);
    assert_eq!(Gvk::from_api_version("v1", "Pod").unwrap(), Gvk::new("", "v1", "Pod"));
    assert_eq!(
        (resource.path(None), kind.to_string()),
        ("/apis/apps/v1/deployments".to_owned(), "Deployment.v1.apps".to_owned())
    );
    assert_eq!(Gvr::new("", "v1", "pods").path(Some("ns")), "/api/v1/namespaces/ns/pods");
    for text in ["", "/v1", "apps/", "a/b/c", "/"] {
        let error = Gvk::from_api_version(text, "X").unwrap_err().to_string();
        assert!(error.starts_with(&format!("{text:?} is not a group and version")), "{error}");
    }
    for text in ["", "pods", ".v1", "pods.", "pods..apps"] {
        assert!(text.parse::<Gvr>().is_err(), "{text}");
    }
}

#[test]
fn header_has_what_was_set_and_counts_its_memory() {
    let owner = OwnerReference::new("v1", "Node", "n", "u", false);
    let header = Header::new("ns/web".parse().unwrap())
        .with_uid("u-1")
        .with_version("4")
        .with_labels([("app", "web")])
        .with_deletion_timestamp(Some("2026-01-01T00:00:00Z".into()));
    assert_eq!(
        (Object::key(&header).as_str(), header.uid(), header.resource_version().to_string()),
        ("ns/web", "u-1", "4".to_owned())
    );
    assert_eq!((header.labels().get("app"), header.owners().len()), (Some("web"), 0));
    assert_eq!(header.deletion_timestamp(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(header.annotations().len(), 0);
    assert_eq!((header.json(), header.is_partial(), header.metadata_finalizers().len()), (None, false, 0));
    assert_eq!(header.typed_json(), None);
    let labels = "appweb".len() + 2;
    assert_eq!(Object::held_bytes(&header), "ns/web".len() + "u-1".len() + labels);
    let owned = header.clone().with_owners([owner.clone()]);
    let of_owner = size_of::<OwnerReference>() + "v1Nodenu".len() + 4;
    assert_eq!(owned.held_bytes(), header.held_bytes() + of_owner);
    let shared: Labels = [("shared", "")].into_iter().collect();
    let owners: Arc<[OwnerReference]> = [owner].into();
    let sharing = header.sharing(|_| shared.clone(), |_| Arc::clone(&owners));
    assert_eq!((sharing.labels(), sharing.owners()), (&shared, &*owners));
}

#[test]
fn object_of_another_type_is_returned_unchanged() {
    let object: Arc<dyn Object> = Arc::new(Header::new("web".parse().unwrap()));
    let object = object.downcast::<Annotated>().err().expect("it is a header");
    assert_eq!(
        object.downcast::<Header>().ok().map(|header| header.key().to_string()),
        Some("web".to_owned())
    );
}

#[test]
fn random_numbers_are_those_of_splitmix64() {
    let mut state = 0;
    let numbers = [(); 3].map(|()| random::next(&mut state));
    assert_eq!(numbers, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    assert_eq!([0, 1 << 63, 1 << 62].map(random::fraction), [0.0, 0.5, 0.25]);
    assert!(random::fraction(u64::MAX) < 1.0);
    let outer = SeededThread::new(0);
    assert_eq!(seeded(), Some(numbers[0]));
    let inner = SeededThread::new(0);
    assert_eq!(seeded(), Some(numbers[0]));
    drop(inner);
    assert_eq!(seeded(), Some(numbers[1]), "the outer sequence continues");
    drop(outer);
    assert_eq!(seeded(), None);
}

#[test]
fn message_of_a_panic_is_its_string() {
    let text = |payload: Box<dyn std::any::Any + Send>| panic_text(&*payload).to_owned();
    assert_eq!(text(Box::new("static")), "static");
    assert_eq!(text(Box::new("formatted".to_owned())), "formatted");
    assert_eq!(text(Box::new(7)), "(no text)");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs any instant, and an instant has no constant")]
fn longest_wait_is_a_century() {
    assert_eq!(MAX_WAIT, Duration::from_secs(100 * 365 * 24 * 60 * 60));
    let now = Instant::now();
    assert_eq!(later(now, Duration::from_secs(5)), now + Duration::from_secs(5));
    assert_eq!(later(now, Duration::MAX), now + MAX_WAIT);
}
