//! Tests with types whose `Deserialize` implementation panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer_cache::SharedInformer;
use informer_client::{DecodeError, KubeListWatch, Lazy, RawObject, Representation, ResourceKind, Typed};
use informer_core::{Header, Object};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::script::{Reply, first_list, list, script, watch, watch_from};

/// A type whose `Deserialize` implementation panics for the object named `broken`.
#[derive(Debug, Clone, Serialize)]
struct Fragile(Value);

impl<'de> Deserialize<'de> for Fragile {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(reader)?;
        assert!(value["metadata"]["name"] != "broken", "on purpose");
        Ok(Self(value))
    }
}

/// A custom representation that panics for the object named `broken`.
struct Own(Header);

impl Object for Own {
    fn header(&self) -> &Header {
        &self.0
    }
}

impl Representation for Own {
    fn decode(raw: RawObject<'_>) -> Result<Self, DecodeError> {
        assert!(raw.header().key() != "broken", "on purpose");
        Ok(Self(raw.into_header()))
    }
}

const THINGS: &str = r#"{"kind":"ThingList","metadata":{"resourceVersion":"9"},"items":[
    {"metadata":{"name":"good","uid":"g","resourceVersion":"1"}},
    {"metadata":{"name":"broken","uid":"b","resourceVersion":"2"}},
    {"metadata":{"name":"other","uid":"o","resourceVersion":"3"}}]}"#;

fn kind() -> ResourceKind {
    ResourceKind::new("example.com", "v1", "Thing", "things")
}

async fn undecodable_of<O: Representation>() -> Vec<String> {
    let (client, _) = script([Reply::ok(THINGS)]);
    let read = list(&KubeListWatch::<O>::of(client, kind()), first_list()).await.unwrap();
    assert_eq!(read.keys(), ["good", "other"]);
    assert_eq!(read.undecodable[0].uid(), "b");
    read.undecodable.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn listed_object_whose_decoder_panics_is_quarantined() {
    let text = "broken at version 2: cannot read Thing broken at version 2: the decoder of the type panicked";
    assert_eq!(undecodable_of::<Typed<Fragile>>().await, [text]);
    assert_eq!(undecodable_of::<Own>().await, ["broken at version 2: the decoder of the type panicked"]);
}

#[tokio::test(start_paused = true)]
async fn watched_object_whose_decoder_panics_is_quarantined() {
    let event = |event_type: &str, name: &str, version: u8| {
        let metadata = format!(r#"{{"name":"{name}","resourceVersion":"{version}"}}"#);
        format!(r#"{{"type":"{event_type}","object":{{"metadata":{metadata}}}}}"#)
    };
    let events = [event("MODIFIED", "broken", 10), event("DELETED", "broken", 11), event("ADDED", "new", 12)];
    let (client, _) = script([Reply::ok(events.join("\n"))]);
    let source = KubeListWatch::<Typed<Fragile>>::of(client, kind());
    let (seen, ended) = watch(&source, watch_from("9")).await;
    ended.unwrap();
    assert!(seen[0].starts_with("Undecodable(") && seen[1].starts_with("DeletedUndecodable("), "{seen:?}");
    assert_eq!(seen[2..], ["Added(new @12)"]);
}

#[tokio::test(start_paused = true)]
async fn panic_in_a_lazy_decode_is_returned_as_an_error() {
    let (client, _) = script([Reply::ok(THINGS)]);
    let read = list(&KubeListWatch::<Lazy<Fragile>>::of(client, kind()), first_list()).await.unwrap();
    assert_eq!(read.items[0].object().get().unwrap().0["metadata"]["uid"], "g");
    let error = read.items[1].object().get().unwrap_err().to_string();
    assert_eq!(error, "cannot read Thing broken at version 2: the decoder of the type panicked");
}

#[tokio::test(start_paused = true)]
async fn decoder_panic_does_not_cause_a_relist() {
    let (client, requests) = script([Reply::status(400), Reply::ok(THINGS), Reply::ok("").stall()]);
    let informer = SharedInformer::new(KubeListWatch::<Typed<Fragile>>::of(client, kind()));
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let count = informer_cache::handler::on_event(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    informer.add_handler(count).unwrap();
    let run = informer.start();
    informer.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let uris = requests.uris();
    assert_eq!(uris.iter().filter(|uri| uri.contains("limit=")).count(), 1, "{uris:?}");
    let state = informer.state();
    assert_eq!((state.objects, state.undecodable, state.panics), (2, 1, 0));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    run.stop().await;
}
