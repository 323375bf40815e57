//! The cached objects that the console shows: the keys of an informer, and one object as JSON.
//!
//! # Invariants
//!
//! 1. No object is returned unless the program [shows objects](super::Console::show_objects).
//! 2. A server that does not authorize requests returns objects only on a loopback address, and only with a
//!    `Host` that no page of another site can have.
//! 3. Values of Secrets are replaced before an object is rendered.
//! 4. At most [`MAX_READS`] reads run at once. A read ends even if its client disconnects.
//! 5. An object is read and rendered without a lock, and only for a request. The program's own types may be
//!    serialized then.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use informer_cache::metrics::InformerProbe;
use informer_core::{FieldPath, Object, ObjectKey, ResourceVersion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::error::ConsoleError;
use super::redact::{is_secret, redact_secret};
use super::{ConsoleData, ConsoleRoutes, MAX_KEY_BYTES, json_response};

/// The maximum number of keys in a response.
const MAX_KEYS: usize = 500;

/// The maximum number of concurrent reads. Each may pass over a whole cache, or render an object of the
/// maximum size.
pub(super) const MAX_READS: usize = 4;

/// The maximum size of an object as JSON. An API server accepts requests of up to 3 MiB.
pub(super) const MAX_OBJECT_BYTES: usize = 4 << 20;

/// Some keys of the objects that an informer has cached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectList {
    /// The version of the data, which is 1. Fields may be added to a version.
    pub version: u64,
    /// The name of the informer.
    pub informer: String,
    /// The number of cached objects.
    pub total: u64,
    /// The number of cached objects whose key contains the text of the request.
    pub matching: u64,
    /// The number of matching objects up to the key of the request. They are on earlier pages.
    pub before: u64,
    /// The matching objects after the key of the request, sorted by key.
    pub objects: Vec<ObjectEntry>,
    /// The key after which the next page begins; `None` if this is the last one.
    pub next: Option<String>,
}

/// An object in an [`ObjectList`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectEntry {
    /// The key, such as `default/web`.
    pub key: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

/// A cached object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObjectContent {
    /// The version of the data, which is 1. Fields may be added to a version.
    pub version: u64,
    /// The name of the informer.
    pub informer: String,
    /// The key, such as `default/web`.
    pub key: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// True if the cache contains only the metadata, or if the rest cannot be decoded.
    pub metadata_only: bool,
    /// True if the object is a Secret, whose values are replaced by their sizes.
    pub redacted: bool,
    /// The object.
    pub object: Value,
}

/// A read of cached objects that the console offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectRead {
    /// The keys of an informer.
    List,
    /// One object.
    Get,
}

impl ObjectRead {
    pub(super) const ALL: [Self; 2] = [Self::List, Self::Get];

    /// Returns the last segment of the path.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::List => "objects",
            Self::Get => "object",
        }
    }
}

/// The parameters of a request.
#[derive(Debug)]
struct ObjectParameters(Vec<(String, String)>);

impl ObjectParameters {
    fn new(request: &Request<Bytes>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Returns a parameter; empty if it is missing.
    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Returns a parameter that must be set.
    fn required(&self, operation: &str, name: &str) -> Result<&str, ConsoleError> {
        match self.get(name) {
            "" => Err(invalid(operation, &format!("the parameter `{name}` is missing"))),
            value => Ok(value),
        }
    }

    /// Returns the number of keys of a page.
    fn limit(&self) -> Result<usize, ConsoleError> {
        let text = self.get("limit");
        if text.is_empty() {
            return Ok(MAX_KEYS);
        }
        let limit = text.parse::<usize>().ok().filter(|limit| (1..=MAX_KEYS).contains(limit));
        limit.ok_or_else(|| {
            invalid("list objects", &format!("the parameter `limit` is not a number from 1 to {MAX_KEYS}"))
        })
    }
}

fn invalid(operation: &str, problem: &str) -> ConsoleError {
    let remedy = "use objects?informer=NAME&contains=TEXT&after=KEY&limit=N or object?informer=NAME&key=KEY";
    ConsoleError::new(StatusCode::BAD_REQUEST, format!("{operation}: {problem}; {remedy}"))
}

impl ConsoleRoutes {
    /// Returns true if users of the console may read objects.
    pub(super) fn may_show_objects(&self) -> bool {
        self.shows_objects && self.is_protected()
    }

    /// Reads objects if the request is allowed. A large cache takes some time, so this runs on a thread for
    /// blocking tasks.
    pub(super) async fn read_objects(
        self: Arc<Self>,
        read: ObjectRead,
        request: Request<Bytes>,
    ) -> Response<Bytes> {
        if let Some(refused) = self.check(&request) {
            return refused;
        }
        if let Err(error) = self.check_objects() {
            return error.response();
        }
        let Ok(permit) = Arc::clone(&self.reads).try_acquire_owned() else {
            let problem = format!("{MAX_READS} reads of objects run already; retry in a second");
            return ConsoleError::new(StatusCode::SERVICE_UNAVAILABLE, problem).response();
        };
        let respond = move || {
            let _permit = permit;
            let parameters = ObjectParameters::new(&request);
            let page = match read {
                ObjectRead::List => self.list(&parameters).map(|list| json_response(&list)),
                ObjectRead::Get => self.get(&parameters).map(|object| json_response(&object)),
            };
            page.unwrap_or_else(|error| error.response())
        };
        match tokio::task::spawn_blocking(respond).await {
            Ok(response) => response,
            // The program's own types may panic while they are serialized. The message of the panic may
            // contain values of the object, so it is only logged.
            Err(error) => {
                tracing::error!(%error, "a read of objects of the console panicked");
                let problem = "read objects: the type of the object panicked; see the log of the program";
                ConsoleError::new(StatusCode::INTERNAL_SERVER_ERROR, problem).response()
            }
        }
    }

    fn check_objects(&self) -> Result<(), ConsoleError> {
        let refused = |problem: &str| Err(ConsoleError::new(StatusCode::FORBIDDEN, problem));
        if !self.shows_objects {
            return refused(
                "this console shows no objects; show them in the program with Console::show_objects",
            );
        }
        if !self.is_protected() {
            return refused(
                "this server has no authorization and is not on a loopback address, so it shows no objects; use \
                 HttpServer::authorized_by",
            );
        }
        Ok(())
    }

    fn list(&self, parameters: &ObjectParameters) -> Result<ObjectList, ConsoleError> {
        let operation = "list objects";
        let informer = parameters.required(operation, "informer")?;
        let (contains, after) = (parameters.get("contains"), parameters.get("after"));
        if contains.len().max(after.len()) > MAX_KEY_BYTES {
            let problem = format!("`contains` or `after` has more than {MAX_KEY_BYTES} bytes");
            return Err(invalid(operation, &problem));
        }
        self.data.list_objects(informer, contains, after, parameters.limit()?)
    }

    fn get(&self, parameters: &ObjectParameters) -> Result<ObjectContent, ConsoleError> {
        let operation = "read object";
        let key = parameters.required(operation, "key")?;
        if key.len() > MAX_KEY_BYTES {
            return Err(invalid(operation, &format!("`key` has more than {MAX_KEY_BYTES} bytes")));
        }
        self.data.get_object(parameters.required(operation, "informer")?, key)
    }
}

impl ConsoleData {
    fn list_objects(
        &self,
        informer: &str,
        contains: &str,
        after: &str,
        limit: usize,
    ) -> Result<ObjectList, ConsoleError> {
        let probe = self.running_informer("list objects of", informer)?;
        let mut page = KeyPage { after, limit, ..KeyPage::default() };
        probe.for_each(|object| page.add(object, contains));
        let next = page.first.keys().next_back().filter(|_| page.later > page.first.len());
        Ok(ObjectList {
            version: 1,
            informer: informer.to_owned(),
            total: page.total,
            matching: page.matching,
            before: page.matching - page.later as u64,
            next: next.map(ToString::to_string),
            objects: page.first.iter().map(entry).collect(),
        })
    }

    fn get_object(&self, informer: &str, key: &str) -> Result<ObjectContent, ConsoleError> {
        let operation = format!("read object {key} of");
        let probe = self.running_informer(&operation, informer)?;
        let failed = |status, problem: &str| {
            Err(ConsoleError::new(status, format!("{operation} {informer}: {problem}")))
        };
        let Some(object) = probe.get(key) else {
            let problem = "the cache has no such object; check the key, or whether the object was deleted";
            return failed(StatusCode::NOT_FOUND, problem);
        };
        let text = object.typed_json();
        if text.as_ref().is_some_and(|text| text.len() > MAX_OBJECT_BYTES) {
            let problem = format!("the object has more than {MAX_OBJECT_BYTES} bytes; read it with kubectl");
            return failed(StatusCode::PAYLOAD_TOO_LARGE, &problem);
        }
        let parsed = text.as_deref().map(serde_json::from_str::<Value>);
        let Ok(parsed) = parsed.transpose() else {
            let problem = "the representation is not valid JSON; correct Object::json of its type";
            return failed(StatusCode::INTERNAL_SERVER_ERROR, problem);
        };
        let metadata_only = parsed.is_none();
        let mut value = parsed.unwrap_or_else(|| metadata_of(&*object));
        let redacted = is_secret(informer, &value);
        if redacted {
            redact_secret(&mut value);
        }
        Ok(ObjectContent {
            version: 1,
            informer: informer.to_owned(),
            key: key.to_owned(),
            resource_version: object.resource_version().to_string(),
            metadata_only,
            redacted,
            object: value,
        })
    }

    /// Returns the running informer of this name. The operation begins the error.
    pub(super) fn running_informer(
        &self,
        operation: &str,
        informer: &str,
    ) -> Result<InformerProbe, ConsoleError> {
        let failed = |status, problem: &str| {
            Err(ConsoleError::new(status, format!("{operation} {informer}: {problem}")))
        };
        let named = self.instrumentation().informers_named(informer);
        // An informer that was removed from its cache may still have a handle, and does not run.
        let mut running = named.iter().filter(|probe| probe.state().is_some_and(|state| state.running));
        match (running.next(), running.next()) {
            _ if named.is_empty() => failed(
                StatusCode::NOT_FOUND,
                "there is no informer of this name; use the name of an informer of the snapshot",
            ),
            (Some(_), Some(_)) => failed(
                StatusCode::CONFLICT,
                "several informers have this name; cache the kind in one representation only",
            ),
            (Some(probe), None) => Ok(probe.clone()),
            (None, _) => failed(StatusCode::CONFLICT, "the informer does not run; start it again"),
        }
    }
}

/// The first matching keys after one, and the numbers of the others.
#[derive(Default)]
struct KeyPage<'a> {
    after: &'a str,
    limit: usize,
    first: BTreeMap<ObjectKey, ResourceVersion>,
    /// The number of matching keys after `after`.
    later: usize,
    total: u64,
    matching: u64,
}

impl KeyPage<'_> {
    fn add(&mut self, object: &dyn Object, contains: &str) {
        let key = object.key();
        self.total += 1;
        if !key.as_str().contains(contains) {
            return;
        }
        self.matching += 1;
        if key.as_str() <= self.after {
            return;
        }
        self.later += 1;
        let is_full = self.first.len() >= self.limit;
        if is_full && self.first.keys().next_back().is_some_and(|last| key > last) {
            return;
        }
        self.first.insert(key.clone(), object.resource_version().clone());
        if is_full {
            self.first.pop_last();
        }
    }
}

fn entry((key, version): (&ObjectKey, &ResourceVersion)) -> ObjectEntry {
    ObjectEntry { key: key.to_string(), resource_version: version.to_string() }
}

/// Returns the metadata of an object without a body.
fn metadata_of(object: &dyn Object) -> Value {
    let mut metadata = Map::new();
    let mut set = |name: &str, value: Value| {
        let is_empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(all) => all.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        };
        if !is_empty {
            metadata.insert(name.to_owned(), value);
        }
    };
    let created = "metadata.creationTimestamp".parse::<FieldPath>().ok();
    set("name", json!(object.key().name()));
    set("namespace", json!(object.key().namespace()));
    set("uid", json!(object.uid()));
    set("resourceVersion", json!(object.resource_version().to_string()));
    set("generation", json!(object.generation()));
    set("creationTimestamp", json!(created.and_then(|path| object.field(&path).map(String::from))));
    set("deletionTimestamp", json!(object.deletion_timestamp()));
    set("labels", members(object.labels()));
    set("annotations", members(&object.annotations()));
    set("finalizers", json!(object.metadata_finalizers()));
    set("ownerReferences", object.owners().iter().map(owner).collect());
    json!({"metadata": metadata})
}

fn members(labels: &informer_core::Labels) -> Value {
    labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

fn owner(owner: &informer_core::OwnerReference) -> Value {
    json!({
        "apiVersion": owner.api_version(),
        "kind": owner.kind(),
        "name": owner.name(),
        "uid": owner.uid(),
        "controller": owner.is_controller(),
    })
}
