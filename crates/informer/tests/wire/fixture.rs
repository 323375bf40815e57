//! A fixture with two informers of one server. The tests add faults for Pods, and check that the informer of
//! ConfigMaps does not notice them.

use std::time::Duration;

use informer::cache::{Event, EventStream};
use informer::client::Lazy;
use informer::testing::{RunningInformer, TestServer, list, pod, watch};
use informer_apiserver::{Fault, FaultAction};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

/// The server and the informers of a test. The informer of Pods receives the faults of the test. The informer
/// of ConfigMaps has no faults, and must not be affected.
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

    /// Forces a relist of Pods, and applies a fault to the next `times` lists of Pods. The watch of Pods ends
    /// with 410, so that the informer lists again.
    pub(crate) fn relist(&self, times: u64, action: FaultAction) -> Fault {
        let fault = self.server.faults().on(list::<Pod>()).times(times).then(action);
        self.server.faults().on(watch::<Pod>()).nth(1).expire();
        fault
    }

    /// Waits until a list of the informer of Pods has failed, and returns the error. Errors with status 410
    /// are skipped, because the test caused this error only to force the relist.
    pub(crate) async fn failure(&self) -> String {
        let failed = || {
            let reflector = self.pods.state().reflector;
            let error = reflector.last_error.as_ref().filter(|_| reflector.is_failing())?;
            (error.kind().as_str() != "expired").then(|| error.to_string())
        };
        eventually(|| failed().is_some()).await;
        failed().unwrap()
    }

    /// Checks the two informers while lists of Pods fail. The cache of Pods must still contain the Pod, and
    /// the informer of ConfigMaps must receive a new object without an error.
    pub(crate) async fn holds(&self) {
        assert!(self.pods.has_synced() && self.pods.indexer().contains("default/kept"));
        self.server.create(&config_map("default/other")).await.unwrap();
        let come = self.maps.wait_until_for(Duration::from_millis(50), |maps| maps.contains("default/other"));
        come.await.unwrap();
        assert!(!self.maps.state().reflector.is_failing());
    }

    /// Checks that the informer of Pods works after the fault was removed. It must deliver an event for a new
    /// Pod, and no other event before it.
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
    panic!("the condition did not become true within 1000 seconds");
}

/// Returns a fault that replaces the response to a request by one with status 200 and this body.
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

/// Returns the JSON of a Pod as a server sends it in a list.
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
