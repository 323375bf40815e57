//! Tests keys, versions, labels and field paths through the public API.

use std::cmp::Ordering;

use informer_core::{
    FieldPath, Gvk, Gvr, Header, Labels, Object, ObjectKey, OwnerReference, ResourceVersion,
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
    let header = Header::new("ns/web-0".parse().unwrap()).with_version("4").with_owners([owner.clone()]);
    assert_eq!(header.controller(), Some(&owner));
    assert_eq!(Object::field(&header, &"metadata.namespace".parse().unwrap()).as_deref(), Some("ns"));
    assert_eq!(Object::field(&header, &"spec.nodeName".parse().unwrap()), None);
    let bare = Header::new("web".parse().unwrap());
    assert_eq!(Object::generation(&bare), None);
    assert_eq!(Object::generation(&bare.clone().with_generation(Some(3))), Some(3));
    for absent in ["metadata.namespace", "metadata.uid", "metadata.resourceVersion"] {
        assert_eq!(Object::field(&bare, &absent.parse().unwrap()), None, "{absent}");
    }
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
}
