use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer_core::{Header, LabelSelector, Object};
use informer_store::{Indexer, StoreBuilder, label, namespace};

use crate::{Pod, key, names};

fn everything() -> LabelSelector {
    LabelSelector::everything()
}

fn filled(builder: StoreBuilder<Pod>, count: usize) -> Indexer<Pod> {
    let store = builder.resource("pods").thread_safe();
    let pod = |number: usize| {
        let key = key(&format!("ns-{}/pod-{number}", number % 4));
        let (tenth, half) = ((number % 10).to_string(), (number % 2).to_string());
        (key.clone(), Arc::new(Header::new(key).with_labels([("tenth", tenth), ("half", half)])))
    };
    store.replace((0..count).map(pod).collect(), "1");
    store.indexer().clone()
}

#[test]
fn a_list_finds_a_tenth_by_label_everything_and_nothing() {
    let lister = filled(StoreBuilder::new(), 10_000).lister();
    assert_eq!(lister.list(&"tenth=3".parse().unwrap()).len(), 1_000);
    assert_eq!(lister.list(&everything()).len(), 10_000);
    assert_eq!(lister.list(&"tenth=none".parse().unwrap()).len(), 0);
}

/// An object that panics when its labels are read, to test that a list whose selector matches everything or
/// nothing reads no labels.
struct Unlabelled(Header);

impl Object for Unlabelled {
    fn header(&self) -> &Header {
        &self.0
    }

    fn labels(&self) -> &informer_core::Labels {
        panic!("the lister must not read labels")
    }
}

#[test]
fn neither_everything_nor_nothing_looks_at_labels() {
    let store = StoreBuilder::new().index("namespace", namespace()).thread_safe();
    store.add(key("ns/a"), Unlabelled(Header::new(key("ns/a"))).into());
    let lister = store.lister();
    assert_eq!(lister.list(&everything()).len(), 1);
    assert_eq!(lister.list(&LabelSelector::nothing()).len(), 0);
    assert_eq!(lister.namespace("ns").list(&everything()).len(), 1);
    assert_eq!(lister.namespace("ns").list(&LabelSelector::nothing()).len(), 0);
    assert_eq!(store.snapshot().select(Some("ns"), &LabelSelector::nothing()).len(), 0);
}

#[test]
fn a_list_is_the_same_with_every_choice_of_indexes() {
    let with = |namespaces: bool, labels: bool| {
        let mut builder = StoreBuilder::new();
        if namespaces {
            builder = builder.index("namespace", namespace());
        }
        if labels {
            builder = builder.index("by-tenth", label("tenth")).index("by-half", label("half"));
        }
        filled(builder, 9_000)
    };
    let plain = with(false, false);
    for (namespaces, labels) in [(true, false), (false, true), (true, true)] {
        let indexer = with(namespaces, labels);
        for selector in
            ["", "tenth=3", "tenth in (3,4),half=0", "half=1", "tenth!=3", "!tenth", "tenth in (x)", "half>0"]
        {
            let selector: LabelSelector = selector.parse().unwrap();
            for space in ["", "ns-1", "no-such"] {
                let expected = names(plain.lister().namespace(space).list(&selector));
                assert_eq!(names(indexer.lister().namespace(space).list(&selector)), expected);
                assert_eq!(names(indexer.snapshot().select(Some(space), &selector)), expected);
            }
        }
    }
}

/// An object that counts how often its labels are read, to test that a list with a label index reads only the
/// objects that the index selects.
struct Counted(Header, Arc<AtomicUsize>);

impl Object for Counted {
    fn header(&self) -> &Header {
        &self.0
    }

    fn labels(&self) -> &informer_core::Labels {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.labels()
    }
}

#[test]
fn a_label_index_limits_the_objects_that_a_list_reads() {
    let reads = Arc::new(AtomicUsize::new(0));
    let store = StoreBuilder::new().index("by-tenth", label("tenth")).thread_safe();
    for number in 0..1000 {
        let key = key(&format!("ns/pod-{number}"));
        let header = Header::new(key.clone()).with_labels([("tenth", (number % 10).to_string())]);
        store.add(key, Counted(header, Arc::clone(&reads)).into());
    }
    for (selector, found) in [("tenth=3", 100), ("tenth in (3,4)", 200), ("tenth=none", 0)] {
        reads.store(0, Ordering::Relaxed);
        assert_eq!(store.lister().list(&selector.parse().unwrap()).len(), found, "{selector}");
        assert!(reads.load(Ordering::Relaxed) <= found, "{selector}");
    }
}

#[test]
fn a_missing_object_is_an_error_that_names_resource_and_key() {
    let lister = filled(StoreBuilder::new(), 8).lister();
    assert!(lister.get("ns-1/pod-1").is_ok());
    assert!(lister.namespace("ns-1").get("pod-1").is_ok());
    assert!(lister.namespace("").get("ns-1/pod-1").is_ok());
    let error = lister.namespace("ns-1").get("pod-0").unwrap_err();
    assert_eq!((error.resource(), error.key()), ("pods", "ns-1/pod-0"));
    assert_eq!(error.to_string(), "pods \"ns-1/pod-0\" not found in the cache");
    assert!(lister.get("pod-1").is_err());
}
