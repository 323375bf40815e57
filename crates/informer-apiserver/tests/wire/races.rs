//! Concurrent changes during a write. They are injected at each point where the write reads the clock, one
//! after another.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::{ApiServer, Clock, Controllers, ManualClock, Sleep};
use informer_core::Gvr;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{call, read, send_with};

/// Upper bound for the number of clock reads in a write of these tests.
const MAX_LOOKS: usize = 24;

type Event = Box<dyn FnOnce() + Send>;

/// A server clock that runs an action when it is read for the n-th time.
struct Eventful {
    clock: ManualClock,
    next: Mutex<Option<(usize, Event)>>,
}

impl fmt::Debug for Eventful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Eventful")
    }
}

impl Eventful {
    fn new() -> Arc<Self> {
        let clock = ManualClock::new(Timestamp::from_second(1_700_000_000).unwrap());
        Arc::new(Self { clock, next: Mutex::default() })
    }

    fn at_look(&self, look: usize, event: impl FnOnce() + Send + 'static) {
        *self.next.lock() = Some((look, Box::new(event)));
    }

    /// Removes the action. Returns false if the action has already run.
    fn disarm(&self) -> bool {
        self.next.lock().take().is_some()
    }

    fn due(&self) -> Option<Event> {
        let mut next = self.next.lock();
        let (left, _) = next.as_mut()?;
        match left.checked_sub(1) {
            Some(fewer) => {
                *left = fewer;
                None
            }
            None => next.take().map(|(_, event)| event),
        }
    }
}

impl Clock for Eventful {
    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn timestamp(&self) -> Timestamp {
        if let Some(event) = self.due() {
            event();
        }
        self.clock.timestamp()
    }

    fn sleep_until(&self, at: Duration) -> Sleep {
        self.clock.sleep_until(at)
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

fn server(clock: &Arc<Eventful>) -> ApiServer {
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    let mut controllers = Controllers::NONE;
    controllers.namespaces = true;
    ApiServer::builder().clock(clock).controllers(controllers).require_namespaces(true).build()
}

fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

fn definition(fields: &[&str]) -> Value {
    let fields: serde_json::Map<_, _> =
        fields.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    json!({
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

const THINGS: &str = "/apis/x.io/v1/namespaces/default/things";
const THING: &str =
    r#"{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"old":"1","kept":"2"}}"#;

#[tokio::test]
async fn no_object_is_created_in_a_namespace_that_is_deleted_meanwhile() {
    let namespaces = Gvr::new("", "v1", "namespaces");
    for look in 0..MAX_LOOKS {
        let clock = Eventful::new();
        let server = server(&clock);
        call(&server, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#).await;
        let (deleter, gvr) = (server.clone(), namespaces.clone());
        clock.at_look(look, move || deleter.delete(&gvr, "", "n").unwrap());
        let body = r#"{"metadata":{"name":"a"}}"#;
        let (code, response) = call(&server, "POST", "/api/v1/namespaces/n/configmaps", body).await;
        if clock.disarm() {
            assert!(look > 0, "the write reads the clock");
            return;
        }
        assert!(server.get(&namespaces, "", "n").is_err(), "the namespace is deleted");
        let left = server.list(&Gvr::new("", "v1", "configmaps"), "n").unwrap();
        assert!(left.is_empty(), "look {look}: {code} {response}");
        assert!(matches!(code, 201 | 404), "{response}");
    }
    panic!("the write reads the clock more often than MAX_LOOKS");
}

#[tokio::test]
async fn no_object_is_created_of_a_crd_that_is_deleted_meanwhile() {
    for look in 0..MAX_LOOKS {
        let clock = Eventful::new();
        let server = server(&clock);
        call(&server, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"default"}}"#).await;
        let before = server.usage().objects;
        server.create(&definitions(), "", definition(&["old", "kept"])).unwrap();
        let deleter = server.clone();
        clock.at_look(look, move || deleter.delete(&definitions(), "", "things.x.io").unwrap());
        let (code, response) = call(&server, "POST", THINGS, THING).await;
        if clock.disarm() {
            assert!(look > 0, "the write reads the clock");
            return;
        }
        assert_eq!(server.usage().objects, before, "look {look}: {code} {response}");
        assert!(matches!(code, 201 | 404), "{response}");
    }
    panic!("the write reads the clock more often than MAX_LOOKS");
}

#[tokio::test]
async fn a_write_during_a_crd_update_matches_the_updated_schema() {
    for (method, path, look) in (0..MAX_LOOKS)
        .flat_map(|look| [("POST", THINGS.to_owned(), look), ("PATCH", format!("{THINGS}/a"), look)])
    {
        let clock = Eventful::new();
        let server = server(&clock);
        call(&server, "POST", "/api/v1/namespaces", r#"{"metadata":{"name":"default"}}"#).await;
        server.create(&definitions(), "", definition(&["old", "kept"])).unwrap();
        if method == "PATCH" {
            let first = THING.replace("\"1\"", "\"0\"");
            assert_eq!(call(&server, "POST", THINGS, &first).await.0, 201);
        }
        let changer = server.clone();
        clock.at_look(look, move || {
            changer.update(&definitions(), "", definition(&["kept"])).unwrap();
        });
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let response = send_with(&server, method, &path, &[("content-type", media)], THING).await;
        let (code, response) = read(response).await;
        assert!(matches!(code, 200 | 201), "{method} at look {look}: {response}");
        if clock.disarm() {
            continue;
        }
        let thing = server.get(&Gvr::new("x.io", "v1", "things"), "default", "a").unwrap();
        assert_eq!(thing["spec"], json!({"kept": "2"}), "{method} at look {look}: {response}");
    }
}

#[tokio::test]
async fn pending_pod_that_becomes_ready_during_its_eviction_is_protected_by_its_pdb() {
    let pods = Gvr::new("", "v1", "pods");
    for look in 0..MAX_LOOKS {
        let clock = Eventful::new();
        let server = server(&clock);
        let status = json!({"observedGeneration": 9, "currentHealthy": 1, "desiredHealthy": 1});
        let metadata = json!({"name": "budget", "namespace": "default"});
        let budget = json!({"metadata": metadata, "spec": {"selector": {}}, "status": status});
        server.raw().load(&"poddisruptionbudgets.v1.policy".parse().unwrap(), [budget]).unwrap();
        let metadata = json!({"name": "web", "namespace": "default"});
        let containers = json!([{"name": "c", "image": "i"}]);
        let pod = json!({"metadata": metadata, "spec": {"containers": containers}});
        server.load(&pods, [pod]).unwrap();
        let (kubelet, gvr, ready) = (server.clone(), pods.clone(), Arc::new(Mutex::new(false)));
        let reported = Arc::clone(&ready);
        clock.at_look(look, move || {
            let Ok(mut pod) = kubelet.get(&gvr, "default", "web") else { return };
            if pod["metadata"]["deletionTimestamp"].is_null() {
                let condition = json!({"type": "Ready", "status": "True"});
                pod["status"] = json!({"phase": "Running", "conditions": [condition]});
                kubelet.update(&gvr, "default", pod).unwrap();
                *reported.lock() = true;
            }
        });
        let path = "/api/v1/namespaces/default/pods/web/eviction";
        let (code, response) = call(&server, "POST", path, r#"{"metadata":{"name":"web"}}"#).await;
        let fired = !clock.disarm();
        let found = server.get(&pods, "default", "web");
        if *ready.lock() {
            assert_eq!(code, 429, "look {look}: {response}");
            assert!(found.unwrap()["metadata"]["deletionTimestamp"].is_null());
        } else {
            assert_eq!(code, 201, "look {look}: {response}");
            assert!(found.is_err());
        }
        if !fired {
            assert!(look > 0, "the write reads the clock");
            return;
        }
    }
    panic!("the write reads the clock more often than MAX_LOOKS");
}
