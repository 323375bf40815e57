//! Tests of handlers of informers without object types.

use std::sync::Arc;

use super::{Log, SOON, informer, quiet};
use informer_core::Object;

use crate::testing::{TestObject, added, object};
use crate::{CacheSynced, GenericEvent, GenericInformer, HandlerOptions, wait_for_cache_sync};

#[tokio::test(start_paused = true)]
async fn a_handler_of_a_generic_informer_reports_its_sync_and_can_be_removed() {
    let (informer, mut server) = informer();
    let generic = GenericInformer::from(informer.clone());
    let log = Log::default();
    let told = log.clone();
    let handle = move |event: GenericEvent| told.0.lock().push(format!("{event:?}"));
    let handler = generic.add_handler(HandlerOptions::new().name("mine"), handle).unwrap();
    let waits = wait_for_cache_sync([&handler as &dyn CacheSynced], SOON).await.unwrap_err();
    assert_eq!(waits.unsynced()[0].name, "handler mine of informer things (objects of a script)");
    assert!(!handler.has_synced());
    let _run = generic.start();
    let watch = server.expect_sync([object("a", "1")], "5").await;
    handler.wait_for_sync(SOON).await.unwrap();
    assert!(handler.has_synced());
    assert_eq!((handler.state().name.as_str(), handler.state().calls), ("mine", 1));
    handler.remove();
    watch.send(added(object("b", "6")));
    quiet().await;
    assert_eq!(log.take(), ["Added(a @1)"]);
    assert!(informer.state().handlers.is_empty());
    handler.remove();
}

#[tokio::test(start_paused = true)]
async fn a_generic_informer_has_indexes_and_its_objects_are_downcast() {
    let (informer, mut server) = informer();
    let generic = GenericInformer::from(informer);
    let by_first = |object: &dyn Object, emit: &mut dyn FnMut(&str)| emit(&object.key().name()[..1]);
    generic.add_index("first letter", by_first).unwrap();
    generic.add_index("first letter", by_first).unwrap_err();
    let _run = generic.start();
    let _watch = server.expect_sync([object("ab", "1"), object("ac", "2"), object("b", "3")], "5").await;
    generic.wait_for_sync(SOON).await.unwrap();
    assert_eq!(generic.by_index("first letter", "a").unwrap().len(), 2);
    assert!(generic.by_index("last letter", "a").is_err());
    let found = generic.by_index("first letter", "b").unwrap().remove(0);
    let found = found.downcast::<informer_core::Header>().expect_err("the object has another type");
    assert!(found.downcast::<TestObject>().is_ok_and(|found| found.key() == "b"));
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_a_generic_handler_can_be_waited_for() {
    let (informer, mut server) = informer();
    let generic = GenericInformer::from(informer.clone());
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    let handler = generic.add_handler(HandlerOptions::new(), move |_| drop(Arc::clone(&holds))).unwrap();
    let _run = generic.start();
    let _watch = server.expect_sync([object("a", "1")], "5").await;
    handler.wait_for_sync(SOON).await.unwrap();
    handler.remove_and_wait().await;
    quiet().await;
    assert_eq!(Arc::strong_count(&held), 1, "the handler is dropped");
}
