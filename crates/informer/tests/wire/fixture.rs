//! A fixture with two informers of one server. Faults affect only the informer of pods; the informer of
//! ConfigMaps must not notice them.

use std::time::Duration;

use informer::cache::{Event, EventStream};
use informer::client::Lazy;
use informer::testing::{RunningInformer, TestServer, list, pod, watch};
use informer_apiserver::{Fault, FaultAction};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

/// A server with one pod, a running informer of pods, and a running informer of ConfigMaps without faults.
pub(crate) struct Beside {
    pub(crate) server: TestServer,
    pub(crate) pods: RunningInformer<Pod>,
    pub(crate) maps: RunningInformer<ConfigMap>,
    pub(crate) events: EventStream<Lazy<Pod>>,
}

impl Beside {
    pub(crate) async fn start() -> Self {
        let server = TestServer::start().await;
        server.create(&pod("default/kept")).await.unwrap();
        let (pods, maps) = (server.informer::<Pod>().await, server.informer::<ConfigMap>().await);
        let mut events = pods.events();
        assert_eq!(events.next().await.unwrap().key(), "default/kept");
        Self { server, pods, maps, events }
    }

    /// Applies a fault to the next `times` lists of pods, and forces a relist: the next watch of pods ends
    /// with 410.
    pub(crate) fn relist(&self, times: u64, action: FaultAction) -> Fault {
        let fault = self.server.faults().on(list::<Pod>()).times(times).then(action);
        self.server.faults().on(watch::<Pod>()).nth(1).expire();
        fault
    }

    /// Waits for the failure of the relist, and returns its error. The 410 that forced the relist is skipped.
    pub(crate) async fn failure(&self) -> String {
        let failed = || {
            let reflector = self.pods.state().reflector;
            let error = reflector.last_error.as_ref().filter(|_| reflector.is_failing())?;
            (error.kind().as_str() != "expired").then(|| error.to_string())
        };
        eventually(|| failed().is_some()).await;
        failed().unwrap()
    }

    /// Checks the state while lists of pods fail: the cache still contains the pod, and the informer of
    /// ConfigMaps receives changes without an error.
    pub(crate) async fn holds(&self) {
        assert!(self.pods.has_synced() && self.pods.indexer().contains("default/kept"));
        self.server.create(&config_map("default/other")).await.unwrap();
        let come = self.maps.wait_until_for(Duration::from_millis(50), |maps| maps.contains("default/other"));
        come.await.unwrap();
        assert!(!self.maps.state().reflector.is_failing());
    }

    /// Checks that the informer continues after the fault ended: handlers receive an event for a new pod, and
    /// no other event before it.
    pub(crate) async fn recovers(mut self) {
        self.server.create(&pod("default/next")).await.unwrap();
        self.pods.wait_until(|pods| pods.contains("default/next")).await.unwrap();
        assert!(self.pods.indexer().contains("default/kept"));
        let event = self.events.next().await.unwrap();
        assert!(matches!(&event, Event::Added { initial: false, .. }), "{event}");
        assert_eq!(event.key(), "default/next");
    }
}

pub(crate) async fn eventually(mut condition: impl FnMut() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come true within 1000 seconds");
}

/// Returns a fault that responds with status 200 and this body.
pub(crate) fn text(body: impl Into<String>) -> FaultAction {
    respond_with(200, body)
}

pub(crate) fn respond_with(code: u16, body: impl Into<String>) -> FaultAction {
    FaultAction::Status { code, reason: None, message: None, retry_after: None, body: Some(body.into()) }
}

pub(crate) fn pod_list(version: impl ToString, token: &str, items: &[Value]) -> FaultAction {
    let metadata = json!({"resourceVersion": version.to_string(), "continue": token});
    text(json!({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}).to_string())
}

/// Returns the JSON of a pod as a server would send it in a list.
pub(crate) fn item(name: &str, version: u64) -> Value {
    let metadata = json!({
        "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
    });
    json!({"metadata": metadata, "spec": {"containers": [{"name": "main"}]}})
}

pub(crate) fn config_map(key: &str) -> ConfigMap {
    let (namespace, name) = key.split_once('/').unwrap();
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": namespace}})).unwrap()
}
