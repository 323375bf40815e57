use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use informer::cache::SharedInformer;
use informer::client::{
    Client, KubeListWatch, Lazy, Representation, ResourceKind, StaticKind, StreamingLists,
};
use informer::{FieldPath, Gvr, Object};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::server::{CustomKind, ServerError};
use crate::watched::PATIENCE;
use crate::{Api, Cable, Server, Watched};

/// The error with which a scenario fails.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The representation of config maps, the kind that most scenarios use. Config maps are cheap, and no
/// controller changes them.
pub(crate) type Map = Lazy<ConfigMap>;

/// A marker type: the informer receives the objects as protobuf, and the tests read only their JSON.
struct AnyFields;

/// The namespaced built-in kinds of the objects that the scenarios create: group, version, kind and plural.
const KINDS: [(&str, &str, &str, &str); 15] = [
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Event", "events"),
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "Service", "services"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "ReplicaSet", "replicasets"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("batch", "v1", "Job", "jobs"),
    ("coordination.k8s.io", "v1", "Lease", "leases"),
    ("events.k8s.io", "v1", "Event", "events"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
];

/// How an informer reads the initial state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialRead {
    /// The informer lists, then watches.
    List,
    /// A watch that starts with the initial state (`sendInitialEvents`).
    Stream,
}

impl InitialRead {
    fn streaming(self) -> StreamingLists {
        match self {
            Self::List => StreamingLists::Off,
            Self::Stream => StreamingLists::On,
        }
    }
}

/// The environment of one scenario: its server and its namespace.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The server on which the scenario runs.
    pub server: Arc<Server>,
    /// A plain JSON client for writes and reads of the scenario, without informers.
    pub api: Api,
    /// The namespace of the scenario.
    pub namespace: String,
    client: Client,
}

impl Bench {
    pub(crate) async fn new(server: Arc<Server>, namespace: String) -> Result<Self, Failure> {
        let client = server.client(server.address()).await?;
        let api = Api::new(client.clone());
        let api = if server.is_newer() { api.with_newer_fields() } else { api };
        let object = json!({"metadata": {"name": namespace}});
        api.create(&Gvr::new("", "v1", "namespaces"), "", &object).await?;
        Ok(Self { server, api, namespace, client })
    }

    /// Returns a client of the administrator with a direct connection to the server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a flaky proxy to the server, and a client that connects through it.
    ///
    /// # Errors
    ///
    /// When no port is available, or the kubeconfig cannot be used.
    pub async fn cable(&self) -> Result<(Cable, Client), Failure> {
        let cable = Cable::to(self.server.address()).await?;
        let client = self.server.client(cable.address()).await?;
        Ok((cable, client))
    }

    /// Returns the source of a kind in the scenario's namespace.
    pub fn source<O: Representation + StaticKind>(
        &self,
        client: &Client,
        way: InitialRead,
    ) -> KubeListWatch<O> {
        KubeListWatch::all(client).namespace(&*self.namespace).streaming_lists(way.streaming())
    }

    pub(crate) fn maps(&self, way: InitialRead) -> SharedInformer<Map> {
        SharedInformer::new(self.source(&self.client, way))
    }

    pub(crate) fn maps_by(&self, client: &Client, way: InitialRead) -> SharedInformer<Map> {
        SharedInformer::new(self.source(client, way))
    }

    /// Creates a config map.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn create(&self, name: &str) -> Result<Value, Failure> {
        let object = json!({"metadata": {"name": name}, "data": {"value": "0"}});
        let created = self.api.create(&maps(), &self.namespace, &object).await?;
        self.visible(&maps()).await?;
        Ok(created)
    }

    /// Waits until a list at any version contains the effects of every earlier write. A kube-apiserver serves
    /// such lists from a watch cache that can lag.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn visible(&self, gvr: &Gvr) -> Result<(), Failure> {
        let path = gvr.path(Some(&self.namespace));
        let newest = self.api.read(&format!("{path}?limit=1")).await?;
        let version = newest["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let query = format!("resourceVersion={version}&resourceVersionMatch=NotOlderThan&limit=1");
        self.api.read(&format!("{path}?{query}")).await?;
        Ok(())
    }

    /// Creates config maps named `PREFIX-0`, `PREFIX-1` and so on.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn create_many(&self, prefix: &str, count: usize) -> Result<(), Failure> {
        let object = |number| {
            let map = json!({"metadata": {"name": format!("{prefix}-{number}")}, "data": {"value": "0"}});
            (self.namespace.clone(), map)
        };
        crate::load(&self.api, &maps(), count, object).await?;
        self.visible(&maps()).await
    }

    /// Changes the value of a config map.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn change(&self, name: &str, value: &str) -> Result<Value, Failure> {
        let patch = json!({"data": {"value": value}});
        Ok(self.api.merge(&maps(), &self.namespace, name, &patch).await?)
    }

    /// Deletes a config map.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn delete(&self, name: &str) -> Result<(), Failure> {
        self.api.delete(&maps(), &self.namespace, name).await?;
        Ok(())
    }

    /// Returns the key (`NAMESPACE/NAME`) of an object in the scenario's namespace.
    pub fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }

    pub(crate) async fn define(&self, versions: &[&'static str]) -> Result<CustomKind, ServerError> {
        let kind = self.custom(versions);
        Server::define(&self.api, &kind).await?;
        Ok(kind)
    }

    /// Returns a custom kind of this scenario. The server does not serve it until its CRD is created.
    pub(crate) fn custom(&self, versions: &[&'static str]) -> CustomKind {
        CustomKind {
            group: format!("{}.example.com", self.namespace),
            kind: "Widget".to_owned(),
            plural: "widgets".to_owned(),
            versions: versions.to_vec(),
        }
    }

    /// Waits until the informer's cache and the state that results from its handler calls equal the server's
    /// state.
    ///
    /// # Errors
    ///
    /// When the states are not equal in time, with the first difference.
    pub async fn settled<O: Object>(&self, watched: &Watched<O>, gvr: &Gvr) -> Result<(), Failure> {
        let truth = self.truth(gvr, &self.namespace).await?;
        self.equal(watched, &truth).await
    }

    /// Checks for each built-in kind of the scenarios that a new informer holds the scenario's objects as a
    /// JSON client reads them, including fields that the compiled schema table does not know.
    ///
    /// # Errors
    ///
    /// When the caches differ from the server, with the first difference.
    pub(crate) async fn equals_json(&self) -> Result<(), Failure> {
        for (group, version, kind, plural) in KINDS {
            let kind = ResourceKind::new(group, version, kind, plural);
            self.kind_equals_json(&kind).await.map_err(|failure| format!("{kind}: {failure}"))?;
        }
        Ok(())
    }

    async fn kind_equals_json(&self, kind: &ResourceKind) -> Result<(), Failure> {
        let (objects, _) = self.api.list(&kind.gvr(), &self.namespace).await?;
        if objects.is_empty() {
            return Ok(());
        }
        let expected: BTreeMap<_, _> =
            objects.into_iter().map(|object| (identity(&object).0, held_part(object))).collect();
        let region: FieldPath = "metadata.region".parse()?;
        let source = KubeListWatch::<Lazy<AnyFields>>::of(self.client(), kind.clone());
        let watched = Watched::synced(SharedInformer::new(source.namespace(&*self.namespace))).await?;
        let is_equal = |object: &Lazy<AnyFields>| {
            // The first read of a field that the schema table does not know makes the informer list again as
            // JSON.
            let known = object.field(&region);
            let expected = expected.get(&object.key().to_string());
            expected.is_some_and(|expected| {
                known.as_deref() == expected["metadata"]["region"].as_str() && json_of(object) == *expected
            })
        };
        let all_equal = |cache: &informer::cache::Indexer<Lazy<AnyFields>>| {
            cache.len() == expected.len() && cache.list().iter().all(|object| is_equal(object))
        };
        if watched.until(all_equal).await.is_err() {
            let cache = watched.informer.indexer().list();
            let first = cache.iter().find(|object| !is_equal(object)).map(|object| {
                let expected = expected.get(&object.key().to_string());
                format!("{} instead of {}", json_of(object), expected.unwrap_or(&Value::Null))
            });
            let state = watched.informer.state().reflector;
            return Err(format!("the cache has {first:?}; the informer is {state}").into());
        }
        Ok(())
    }

    /// Reads all objects of a kind from the server, and returns the uid and the resourceVersion for each key.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn truth(
        &self,
        gvr: &Gvr,
        namespace: &str,
    ) -> Result<BTreeMap<String, (String, String)>, Failure> {
        let (objects, _) = self.api.list(gvr, namespace).await?;
        Ok(objects.iter().map(identity).collect())
    }

    /// Waits like [`settled`](Self::settled), but compares the informer with a server state that the caller
    /// has read before.
    ///
    /// # Errors
    ///
    /// When the states are not equal in time, with the first difference.
    pub async fn equal<O: Object>(
        &self,
        watched: &Watched<O>,
        truth: &BTreeMap<String, (String, String)>,
    ) -> Result<(), Failure> {
        let held = |cache: &informer::cache::Indexer<O>| -> BTreeMap<String, (String, String)> {
            let version = |object: &O| (object.uid().to_owned(), object.resource_version().to_string());
            cache.list().iter().map(|object| (object.key().to_string(), version(object))).collect()
        };
        if watched.until(|cache| cache.len() == truth.len() && held(cache) == *truth).await.is_err() {
            let difference = difference(&held(watched.informer.indexer()), truth);
            let state = watched.informer.state().reflector;
            return Err(
                format!("the cache differs from the server: {difference}; the informer is {state}").into()
            );
        }
        let replayed = tokio::time::timeout(PATIENCE, async {
            loop {
                let replayed = watched.replayed()?;
                if replayed == *truth {
                    return Ok::<_, Failure>(());
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        });
        match replayed.await {
            Ok(outcome) => outcome,
            Err(_) => {
                let difference = difference(&watched.replayed()?, truth);
                Err(format!("the state of the handler calls differs from the server: {difference}").into())
            }
        }
    }
}

pub(crate) fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

/// Removes the fields of an object that an informer drops, and those that the items of a list do not have.
fn held_part(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

fn json_of(object: &Lazy<AnyFields>) -> Value {
    let json = object.json().ok().and_then(|text| serde_json::from_str(&text).ok());
    held_part(json.unwrap_or_default())
}

fn identity(object: &Value) -> (String, (String, String)) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let key = match text("namespace") {
        namespace if namespace.is_empty() => text("name"),
        namespace => format!("{namespace}/{}", text("name")),
    };
    (key, (text("uid"), text("resourceVersion")))
}

type View = BTreeMap<String, (String, String)>;

fn difference(ours: &View, theirs: &View) -> String {
    let first =
        |wrong: Option<(&String, &(String, String))>| wrong.map(|(key, _)| key.clone()).unwrap_or_default();
    let missing = first(theirs.iter().find(|(key, _)| !ours.contains_key(*key)));
    let surplus = first(ours.iter().find(|(key, _)| !theirs.contains_key(*key)));
    let other = first(theirs.iter().find(|(key, value)| ours.get(*key).is_some_and(|ours| ours != *value)));
    format!(
        "{} objects instead of {}, missing {missing:?}, extra {surplus:?}, with another version {other:?}",
        ours.len(),
        theirs.len()
    )
}
