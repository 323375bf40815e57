//! Tests of costs: additional handlers cause no requests and no decodes, and a relist that finds no changes
//! decodes nothing and causes no event.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use informer::cache::{Event, SharedInformerFactory, on_event};
use informer::client::{DecodeError, Lazy, Representation, ResourceKind, StreamingLists};
use informer::testing::{TestServer, list, pod, watch};
use informer::{Header, Object};
use informer_client::RawObject;
use k8s_openapi::api::core::v1::Pod;

use crate::fixture::eventually;

const PODS: usize = 50;

thread_local! {
    /// The number of Pods that were decoded in this thread. Each test and its informer run on one thread of
    /// their own, so the tests do not share the counter.
    static DECODED: Cell<usize> = const { Cell::new(0) };
}

/// A [`Lazy`] Pod that adds to the counter `DECODED` whenever a Pod is decoded from the bytes of a response.
struct Counted(Lazy<Pod>);

impl Object for Counted {
    fn header(&self) -> &Header {
        self.0.header()
    }
}

impl Representation for Counted {
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        DECODED.set(DECODED.get() + 1);
        Lazy::decode(raw).map(Self)
    }
}

async fn server_of_pods() -> (TestServer, SharedInformerFactory) {
    let server = TestServer::start().await;
    for number in 0..PODS {
        server.create(&pod(&format!("default/pod-{number}"))).await.unwrap();
    }
    let factory = SharedInformerFactory::new(server.client()).streaming_lists(StreamingLists::Off);
    (server, factory)
}

#[tokio::test(start_paused = true)]
async fn ten_handlers_cost_no_request_and_no_decode_more_than_one_and_share_the_object_of_the_cache() {
    let (server, factory) = server_of_pods().await;
    let pods = factory.informer_of::<Counted>(ResourceKind::of::<Pod>());
    let _run = pods.start();
    let (sender, told) = std::sync::mpsc::channel();
    for _ in 0..10 {
        let sender = sender.clone();
        pods.add_handler(on_event(move |event: Event<Counted>| {
            sender.send(Arc::clone(event.object())).unwrap()
        }))
        .unwrap();
    }
    pods.wait_for_sync(Duration::from_secs(1)).await.unwrap();
    server.create(&pod("default/live")).await.unwrap();
    let mut objects = Vec::new();
    eventually(|| {
        objects.extend(told.try_iter());
        objects.len() == 10 * (PODS + 1)
    })
    .await;
    assert_eq!(DECODED.get(), PODS + 1);
    assert_eq!((server.requests(list::<Pod>()).count(), server.requests(watch::<Pod>()).count()), (1, 1));
    for object in objects {
        assert!(
            Arc::ptr_eq(&object, &pods.indexer().get(object.key()).unwrap()),
            "{} was copied",
            object.key()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_with_nothing_changed_decodes_and_announces_nothing_and_keeps_each_object() {
    let (server, factory) = server_of_pods().await;
    let pods = factory.informer_of::<Counted>(ResourceKind::of::<Pod>());
    let _run = pods.start();
    pods.wait_for_sync(Duration::from_secs(1)).await.unwrap();
    let mut events = pods.events();
    for _ in 0..PODS {
        assert!(matches!(events.next().await.unwrap(), Event::Added { initial: true, .. }));
    }
    let before = pods.indexer().list();
    for relist in 1..=3 {
        server.faults().on(watch::<Pod>()).nth(1).expire();
        eventually(|| pods.state().counters.lists == relist + 1).await;
    }
    assert_eq!(server.requests(list::<Pod>()).count(), 4);
    assert_eq!(DECODED.get(), PODS);
    for object in before {
        assert!(Arc::ptr_eq(&object, &pods.indexer().get(object.key()).unwrap()));
    }
    server.create(&pod("default/live")).await.unwrap();
    assert_eq!(events.next().await.unwrap().key(), "default/live", "the first event after the first list");
    assert_eq!(DECODED.get(), PODS + 1);
}
