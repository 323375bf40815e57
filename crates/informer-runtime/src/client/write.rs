//! Writes of typed objects, and the execution of all operations of a client.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::difference::{carried, changes_elements, merge_patch};
use super::operation::{Operation, OperationVerb};
use super::{CachedClient, ClientMetrics, Edited, Fetched, Next, Patch, WriteError};
use crate::{KubeObject, ResourceKind};
use informer_client::{CallError, CallRetries, ListKeys, PatchFormat};
use informer_core::Gvk;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

impl CachedClient {
    /// Creates an object in the namespace of its metadata. Returns the object as the server stored it.
    ///
    /// # Errors
    ///
    /// Returns an error if the object exists ([`is_already_exists`](WriteError::is_already_exists)), if its
    /// metadata has a resourceVersion, or if the server rejects the object.
    pub async fn create<K: KubeObject>(&self, object: &K) -> Result<Fetched<K>, WriteError> {
        let kind = ResourceKind::of::<K>();
        let meta = object.meta();
        let mut operation =
            Operation::of(OperationVerb::Create, &kind).in_namespace(meta.namespace.as_deref());
        operation.name = meta.name.clone();
        self.write(operation, object).await
    }

    /// Updates an object that was read. Sends a JSON merge patch of the difference between the original and
    /// the edited copy, with the uid and the resourceVersion of the original as preconditions. Fields that
    /// the type does not know are kept, in lists too, and so are pruned fields. For kinds with a status
    /// subresource, write the status with [`status`](Self::status).
    ///
    /// If the edited copy does not differ from the original, no request is sent.
    ///
    /// # Errors
    ///
    /// Returns a [conflict](WriteError::is_conflict) if the object has changed since it was read, or was
    /// deleted and re-created; otherwise the error of the API server.
    pub async fn update<K: KubeObject>(&self, edited: &Edited<K>) -> Result<Fetched<K>, WriteError> {
        self.update_under(edited, None).await
    }

    pub(super) async fn update_under<K: KubeObject>(
        &self,
        edited: &Edited<K>,
        subresource: Option<&str>,
    ) -> Result<Fetched<K>, WriteError> {
        let verb = OperationVerb::Patch(PatchFormat::Merge);
        let operation = on_object(verb, &**edited.original())?.under(subresource);
        same_object(&operation, edited.original().meta(), edited.meta())?;
        let Some(mut patch) = self.difference(&operation, edited, subresource).await? else {
            return Ok(edited.original().clone());
        };
        let meta = edited.original().meta();
        for (name, value) in [("uid", &meta.uid), ("resourceVersion", &meta.resource_version)] {
            if let Some(value) = value {
                patch["metadata"][name] = json!(value);
            }
        }
        let response = self.execute(operation.clone().sending(patch)).await?;
        fetched(&operation.to_string(), response)
    }

    /// Returns the JSON merge patch of an update, computed on whole objects. `None` if the edited copy does
    /// not differ from the original.
    pub(super) async fn difference<K: KubeObject>(
        &self,
        operation: &Operation,
        edited: &Edited<K>,
        subresource: Option<&str>,
    ) -> Result<Option<Value>, WriteError> {
        let (mut old, mut new) = edited.values().map_err(|cause| encode(operation, cause))?;
        if subresource == Some("status") {
            // For an update of the status, only the status is compared, since the server writes nothing else
            // through the status subresource.
            for value in [&mut old, &mut new] {
                *value = json!({"status": value["status"].take()});
            }
        }
        let whole = match edited.original().whole() {
            Some(whole) => whole,
            None if changes_elements(&old, &new) => self.whole_of(operation, edited).await?,
            None => old.clone(),
        };
        let whole = match subresource {
            Some("status") => json!({"status": whole["status"].clone()}),
            _ => whole,
        };
        let keys = self.list_keys(operation.kind.gvk());
        let became = carried(&whole, &old, &new, keys.root());
        Ok(merge_patch(&whole, &became).filter(|patch| patch.is_object()))
    }

    fn list_keys(&self, kind: &Gvk) -> ListKeys {
        self.shared.list_keys.get(kind).cloned().unwrap_or_else(|| ListKeys::of_builtin(kind))
    }

    /// Reads the whole object of an update from the API server as JSON, because the edited copy does not have
    /// all fields. Returns a conflict if the server has another version of the object than the one that was
    /// edited.
    async fn whole_of<K: KubeObject>(
        &self,
        operation: &Operation,
        edited: &Edited<K>,
    ) -> Result<Value, WriteError> {
        let mut read = Operation { verb: OperationVerb::Get, ..operation.clone() };
        read.body = Value::Null;
        let whole = self.execute(read).await?;
        let meta = edited.original().meta();
        let same = whole["metadata"]["uid"].as_str() == meta.uid.as_deref()
            && whole["metadata"]["resourceVersion"].as_str() == meta.resource_version.as_deref();
        if same { Ok(whole) } else { Err(super::error::conflict(operation)) }
    }

    /// Applies an object by server-side apply. The fields of `object` are set and owned by the [field
    /// owner](Self::field_owner); fields that it owned before and that are absent in `object` are removed;
    /// all others are kept. The object is created if it does not exist. `object` should contain only the
    /// desired fields.
    ///
    /// With [`skip_unchanged_applies`](Self::skip_unchanged_applies), an apply that would change nothing is not
    /// sent.
    ///
    /// # Errors
    ///
    /// Returns a [conflict](WriteError::is_conflict) if fields belong to another owner and have another
    /// value, unless [`force`](Self::force) is on, as it is by default in controllers. Otherwise returns the
    /// error of the API server.
    pub async fn apply<K: KubeObject>(&self, object: &K) -> Result<Fetched<K>, WriteError> {
        self.apply_under(object, None).await
    }

    pub(super) async fn apply_under<K: KubeObject>(
        &self,
        object: &K,
        subresource: Option<&str>,
    ) -> Result<Fetched<K>, WriteError> {
        let operation = on_object(OperationVerb::Apply, object)?.under(subresource);
        let mut body = serde_json::to_value(object).map_err(|cause| encode(&operation, cause))?;
        if let Some(metadata) = body["metadata"].as_object_mut() {
            // `managedFields` is removed from the object, because the server rejects applied objects that
            // contain it.
            metadata.remove("managedFields");
        }
        let attempt = operation.to_string();
        let operation = operation.sending(body);
        let Some(skippable) = self.skippable(&operation) else {
            return fetched(&attempt, self.execute(operation).await?);
        };
        if let Some(held) = self.unchanged(&skippable).await {
            return Ok(held);
        }
        let stored: Fetched<K> = fetched(&attempt, self.execute(operation).await?)?;
        self.remember_apply(skippable, stored.meta());
        Ok(stored)
    }

    /// Patches an object without reading it.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn patch<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        patch: &Patch,
    ) -> Result<Fetched<K>, WriteError> {
        let verb = OperationVerb::Patch(patch.format);
        let operation = Operation::on(verb, &ResourceKind::of::<K>(), key.as_ref());
        let response = self.execute(operation.clone().sending(patch.body.clone())).await?;
        fetched(&operation.to_string(), response)
    }

    /// Replaces an object by a complete one that the program has created. Fields that `object` does not have
    /// are removed.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError::View`] for an object that was read (it has a uid or a resourceVersion): see
    /// [`update`](Self::update) and [`apply`](Self::apply). Otherwise returns the error of the API server;
    /// some kinds reject a replacement without a resourceVersion.
    pub async fn replace<K: KubeObject>(&self, object: &K) -> Result<Fetched<K>, WriteError> {
        let operation = on_object(OperationVerb::Replace, object)?;
        let meta = object.meta();
        if meta.uid.is_some() || meta.resource_version.is_some() {
            Err(WriteError::View { attempt: operation.to_string() })
        } else {
            self.write(operation, object).await
        }
    }

    pub(super) async fn write<K: KubeObject>(
        &self,
        operation: Operation,
        object: &K,
    ) -> Result<Fetched<K>, WriteError> {
        let body = serde_json::to_value(object).map_err(|cause| encode(&operation, cause))?;
        let response = self.execute(operation.clone().sending(body)).await?;
        fetched(&operation.to_string(), response)
    }

    /// Executes an operation of the client: applies the settings of the client, calls the interceptors, and
    /// sends the request.
    pub(super) async fn execute(&self, mut operation: Operation) -> Result<Value, WriteError> {
        self.apply_settings(&mut operation)?;
        let client = self.clone();
        let last = move |operation: Operation| -> futures_util::future::BoxFuture<'static, _> {
            let client = client.clone();
            Box::pin(async move { client.send(operation).await })
        };
        Next::new(self, Arc::new(last)).run(operation).await
    }

    fn apply_settings(&self, operation: &mut Operation) -> Result<(), WriteError> {
        self.settings.check_field_owner(operation)?;
        operation.namespace = self.settings.namespace_of(operation, operation.namespace.as_deref())?;
        for (name, value) in self.settings.parameters(&operation.verb) {
            operation.query.push((name.to_owned(), value));
        }
        // For a dry run of a deletion, `dryRun` is set in the body of the request. The server ignores query
        // parameters of a deletion with a body, and would delete the object.
        let deletes = matches!(operation.verb, OperationVerb::Delete | OperationVerb::DeleteCollection);
        if self.settings.dry_run && deletes {
            operation.body["dryRun"] = json!(["All"]);
        }
        if operation.verb != OperationVerb::Create && operation.verb != OperationVerb::Apply {
            return Ok(());
        }
        let namespace = operation.namespace.clone();
        if let (Some(namespace), Some(metadata)) = (namespace, operation.body["metadata"].as_object_mut()) {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        Ok(())
    }

    fn check_fences(&self, operation: &Operation) -> Result<(), WriteError> {
        if !operation.verb.is_write() {
            return Ok(());
        }
        let fenced = |cause| WriteError::Fenced { attempt: operation.to_string(), cause };
        self.settings.fences.iter().try_for_each(|fence| fence()).map_err(fenced)
    }

    /// Counts a write of a controller for the console. Dry runs change nothing and are not counted.
    #[cfg(feature = "console")]
    fn count_write(&self, operation: &Operation, code: u16) {
        let counts = self.settings.writes.as_ref();
        if let Some(counts) = counts.filter(|_| operation.verb.is_write() && !self.settings.dry_run) {
            counts.add(operation, code);
        }
    }

    pub(super) async fn send(&self, operation: Operation) -> Result<Value, WriteError> {
        self.check_fences(&operation)?;
        let call = operation.call()?.without_retries();
        let mut retries = CallRetries::default();
        let (began, text) = loop {
            let begin = tokio::time::Instant::now();
            let began = self.shared.cache.begin_write();
            let response = self.shared.api.call(call.clone()).await;
            let refused = |error: &CallError| error.status().map_or(0, |status| status.code);
            let code = response.as_ref().map_or_else(refused, |_| 200);
            self.shared.metrics.request(operation.verb, operation.kind.gvk(), code, begin.elapsed());
            #[cfg(feature = "console")]
            self.count_write(&operation, code);
            let delay = match &response {
                Err(error) if call.is_idempotent() => retries.delay_after(error),
                _ => None,
            };
            let Some(delay) = delay else { break (began, response?) };
            tokio::time::sleep(delay).await;
            // The retries are those of `Client::call`. They are here because the process may have lost its
            // lease during the delay.
            self.check_fences(&operation)?;
        };
        let response = serde_json::from_slice(&text).map_err(|cause| WriteError::Response {
            attempt: operation.to_string(),
            expected: "JSON".to_owned(),
            cause: Some(cause.into()),
        })?;
        // A write is recorded in the cache before its response is returned. Reads that begin after the caller
        // has the response must wait until the cache contains the write.
        if operation.is_own_write()
            && let Some(write) = operation.own_write(&response, began)
        {
            self.shared.cache.write_completed(&write);
        }
        Ok(response)
    }
}

pub(super) fn on_object<K: KubeObject>(verb: OperationVerb, object: &K) -> Result<Operation, WriteError> {
    let kind = ResourceKind::of::<K>();
    let meta = object.meta();
    let mut operation = Operation::of(verb, &kind).in_namespace(meta.namespace.as_deref());
    operation.name = meta.name.clone();
    match operation.key() {
        Some(_) => Ok(operation),
        None => Err(WriteError::NoName { attempt: operation.to_string() }),
    }
}

/// Returns an error if the edited copy of an object (`now`) differs from the original (`read`) in its name,
/// namespace or uid. An update cannot change them.
pub(super) fn same_object(
    operation: &Operation,
    read: &ObjectMeta,
    now: &ObjectMeta,
) -> Result<(), WriteError> {
    let fields = [
        ("metadata.name", &read.name, &now.name),
        ("metadata.namespace", &read.namespace, &now.namespace),
        ("metadata.uid", &read.uid, &now.uid),
    ];
    match fields.into_iter().find(|(_, read, now)| read != now) {
        Some((field, ..)) => Err(WriteError::OtherObject { attempt: operation.to_string(), field }),
        None => Ok(()),
    }
}

pub(super) fn encode(operation: &Operation, cause: serde_json::Error) -> WriteError {
    WriteError::Encode { attempt: operation.to_string(), cause }
}

pub(super) fn fetched<K: KubeObject>(attempt: &str, response: Value) -> Result<Fetched<K>, WriteError> {
    Fetched::of_whole(response).map_err(|cause| wrong_type::<K>(attempt, &cause))
}

/// Returns the error for a response of an unexpected type. It contains only the category of the serde error,
/// because its message may contain a value.
pub(super) fn wrong_type<K: KubeObject>(attempt: &str, cause: &serde_json::Error) -> WriteError {
    let expected = K::kind(&()).into_owned();
    WriteError::Response { attempt: attempt.to_owned(), expected, cause: Some(problem(cause).into()) }
}

fn problem(cause: &serde_json::Error) -> String {
    format!("it does not match the type ({:?} error)", cause.classify())
}

pub(super) fn decoded<T: DeserializeOwned>(attempt: &str, response: Value) -> Result<T, WriteError> {
    serde_json::from_value(response).map_err(|cause| WriteError::Response {
        attempt: attempt.to_owned(),
        expected: "object of the requested type".to_owned(),
        cause: Some(problem(&cause).into()),
    })
}
