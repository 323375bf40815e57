use std::ptr;
use std::sync::Arc;

use informer_cache::UndecodableLog;
use informer_core::{Header, Labels, Object, ObjectKey, OwnerReference};

use super::{Interner, MAX_STRIPE_VALUES, MIN_STRIPE_VALUES, RecentValues, STRIPES};
use crate::ResourceKind;
use crate::header::RawHeader;
use crate::object::{Metadata, Origin, RawBytes, RawObject, Representation};
use crate::scan::Cursor;

fn header(name: &str, app: &str) -> Header {
    let owner = OwnerReference::new("apps/v1", "ReplicaSet", app, "u-1", true);
    Header::new(ObjectKey::new("a", name).unwrap()).with_labels([("app", app)]).with_owners([owner])
}

fn app(header: &Header) -> &str {
    header.labels().get("app").unwrap()
}

#[test]
fn equal_labels_and_owners_of_two_objects_are_shared() {
    let interner = Interner::default();
    let (first, second) = (interner.header(header("x", "web")), interner.header(header("y", "web")));
    assert_eq!((first.key().name(), second.key().name()), ("x", "y"));
    assert!(ptr::eq(app(&first), app(&second)));
    assert!(ptr::eq(first.owners(), second.owners()));
}

#[test]
fn different_labels_and_owners_are_not_confused() {
    let interner = Interner::default();
    let headers: Vec<Header> = (0..10 * STRIPES * MAX_STRIPE_VALUES)
        .map(|n| interner.header(header("x", &format!("app-{n}"))))
        .collect();
    for (n, header) in headers.iter().enumerate() {
        assert_eq!(app(header), format!("app-{n}"));
        assert_eq!(header.owners()[0].name(), format!("app-{n}"));
    }
}

#[test]
fn labels_and_annotations_are_separate_and_empty_maps_are_not_stored() {
    let interner = Interner::default();
    let labelled = interner.header(header("x", "web"));
    let annotations: Labels = [("app", "web")].into_iter().collect();
    let own = interner.annotations(annotations.clone());
    assert_eq!(own, annotations);
    assert!(!ptr::eq(own.get("app").unwrap(), app(&labelled)));
    assert!(interner.annotations(Labels::default()).is_empty());
}

/// Returns the metadata of an object written by `kubectl apply`.
fn applied(kind: &str, interner: &Arc<Interner>) -> Metadata {
    let text = r#"{"metadata": {"name": "x", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":1}"}}}"#;
    let origin = Origin::new(ResourceKind::new("", "v1", kind, "things"), UndecodableLog::default());
    let origin = Arc::new(origin.with_interner(Arc::clone(interner)));
    let mut raw = RawHeader::default();
    raw.scan(Cursor::new(text)).unwrap();
    let bytes = RawBytes::Json { raw: &raw, text, cut_managed_fields: true };
    Metadata::decode(RawObject { header: raw.build(text).unwrap(), bytes, origin: &origin }).unwrap()
}

#[test]
fn annotations_of_secrets_are_not_kept_by_the_interner() {
    let interner = Arc::new(Interner::default());
    let secret = applied("Secret", &interner);
    assert_eq!(secret.annotations().len(), 1);
    assert_eq!(interner.annotations.held(), 0);
    drop(applied("ConfigMap", &interner));
    assert_eq!(interner.annotations.held(), 1, "annotations of other kinds are shared");
}

#[test]
fn table_of_recent_values_keeps_all_values_until_it_has_its_full_size() {
    let table = RecentValues::<Labels>::default();
    for n in 0..10_000 {
        table.share([("app", format!("web-{n}"))].into_iter().collect());
        let is_full = table.stripes.iter().any(|stripe| stripe.lock().len() == MAX_STRIPE_VALUES);
        if n < 1_000 && !is_full {
            assert_eq!(table.held(), n + 1);
        }
        assert!(n > 0 || table.slots() == MIN_STRIPE_VALUES);
    }
    assert_eq!(table.slots(), STRIPES * MAX_STRIPE_VALUES);
}
