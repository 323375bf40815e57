//! Writes of typed objects, and the way that all operations take.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::difference::{carried, changes_elements, merge_patch};
use super::operation::{Operation, OperationVerb};
use super::{CachedClient, ClientMetrics, Edited, Fetched, Next, Patch, WriteError};
use crate::{KubeKind, KubeObject, ScopedKind};
use informer_client::{CallError, ListKeys, PatchFormat};
use informer_core::Gvk;

impl CachedClient {
    /// Creates an object, in the namespace of its metadata. Answers it as the server stored it.
    ///
    /// # Errors
    ///
    /// When it exists ([`is_already_exists`](WriteError::is_already_exists)), when its metadata names a version, or when the
    /// server refuses it.
    pub async fn create<K: KubeObject>(&self, object: &K) -> Result<Fetched<K>, WriteError> {
        let kind = ScopedKind::of::<K>();
        let meta = object.meta();
        let mut operation =
            Operation::of(OperationVerb::Create, &kind).in_namespace(meta.namespace.as_deref());
        operation.name = meta.name.clone();
        self.write(operation, object).await
    }

    /// Changes an object that was read: sends a JSON merge patch of the difference between what was read and what it became,
    /// bound to the uid and the version that was read. Fields that the type does not know stay as they are, in lists too, and so
    /// does what the cache has cut away. Status is another matter, of [`status`](Self::status), where the kind has it apart.
    ///
    /// Nothing is sent where nothing changed.
    ///
    /// # Errors
    ///
    /// A [conflict](WriteError::is_conflict) when the object was changed since, or is gone and was made again; otherwise what the
    /// server says.
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
        same_object(&operation, edited)?;
        let Some(mut patch) = self.difference(&operation, edited, subresource).await? else {
            return Ok(edited.original().clone());
        };
        let meta = edited.original().meta();
        for (name, value) in [("uid", &meta.uid), ("resourceVersion", &meta.resource_version)] {
            if let Some(value) = value {
                patch["metadata"][name] = json!(value);
            }
        }
        let answer = self.execute(operation.clone().sending(patch)).await?;
        fetched(&operation.to_string(), answer)
    }

    /// The patch, computed on whole objects; `None` where there is no difference. All updates compute it
    /// here.
    pub(super) async fn difference<K: KubeObject>(
        &self,
        operation: &Operation,
        edited: &Edited<K>,
        subresource: Option<&str>,
    ) -> Result<Option<Value>, WriteError> {
        let (mut old, mut new) = edited.values().map_err(|cause| encode(operation, cause))?;
        if subresource == Some("status") {
            // Through this door the server takes the status and nothing else.
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

    /// The list map keys of a kind.
    fn list_keys(&self, kind: &Gvk) -> ListKeys {
        self.shared.list_keys.get(kind).cloned().unwrap_or_else(|| self.shared.api.list_keys(kind))
    }

    /// The object as the server has it, as JSON, for a view that does not know all of it. Another version is
    /// a conflict when the patch arrives.
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
        match same {
            true => Ok(whole),
            false => Err(super::error::conflict(operation)),
        }
    }

    /// States what is wanted, by server-side apply: the fields that the object has are set and owned by the
    /// [field owner](Self::field_owner), those that it owned before and no longer has are given up, all others stay. The object is
    /// made where it does not exist. Give it no more than what is wanted.
    ///
    /// # Errors
    ///
    /// A [conflict](WriteError::is_conflict) if fields belong to another owner and have another value, unless
    /// [`force`](Self::force) is on, as it is by default in controllers. Otherwise the error of the server.
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
            // A server refuses an applied object that tells who owns what.
            metadata.remove("managedFields");
        }
        let answer = self.execute(operation.clone().sending(body)).await?;
        fetched(&operation.to_string(), answer)
    }

    /// Patches an object without having read it.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn patch<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        patch: &Patch,
    ) -> Result<Fetched<K>, WriteError> {
        let verb = OperationVerb::Patch(patch.format);
        let operation = Operation::on(verb, &ScopedKind::of::<K>(), key.as_ref());
        let answer = self.execute(operation.clone().sending(patch.body.clone())).await?;
        fetched(&operation.to_string(), answer)
    }

    /// Replaces an object by one that the program made, whole: what `object` does not have is lost.
    ///
    /// # Errors
    ///
    /// [`WriteError::View`] for an object that was read (it has a uid or a version): see [`update`](Self::update) and
    /// [`apply`](Self::apply). Otherwise what the server says; kinds may refuse a replacement that names no version.
    pub async fn replace<K: KubeObject>(&self, object: &K) -> Result<Fetched<K>, WriteError> {
        let operation = on_object(OperationVerb::Replace, object)?;
        let meta = object.meta();
        match meta.uid.is_some() || meta.resource_version.is_some() {
            true => Err(WriteError::View { attempt: operation.to_string() }),
            false => self.write(operation, object).await,
        }
    }

    pub(super) async fn write<K: KubeObject>(
        &self,
        operation: Operation,
        object: &K,
    ) -> Result<Fetched<K>, WriteError> {
        let body = serde_json::to_value(object).map_err(|cause| encode(&operation, cause))?;
        let answer = self.execute(operation.clone().sending(body)).await?;
        fetched(&operation.to_string(), answer)
    }

    /// The way of every operation to the server: settings, interceptors, the request.
    pub(super) async fn execute(&self, mut operation: Operation) -> Result<Value, WriteError> {
        self.settle(&mut operation)?;
        let client = self.clone();
        let last = move |operation: Operation| -> futures_util::future::BoxFuture<'static, _> {
            let client = client.clone();
            Box::pin(async move { client.send(operation).await })
        };
        Next::new(self, Arc::new(last)).run(operation).await
    }

    /// What the settings of this client make of an operation.
    fn settle(&self, operation: &mut Operation) -> Result<(), WriteError> {
        self.settings.check_field_owner(operation)?;
        operation.namespace = self.settings.namespace_of(operation, operation.namespace.as_deref())?;
        for (name, value) in self.settings.parameters(&operation.verb) {
            operation.query.push((name.to_owned(), value));
        }
        // Of a deletion with a body the server reads no parameter: without this it would delete.
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

    pub(super) async fn send(&self, operation: Operation) -> Result<Value, WriteError> {
        if operation.verb.is_write() {
            let fenced = |cause| WriteError::Fenced { attempt: operation.to_string(), cause };
            self.settings.fences.iter().try_for_each(|fence| fence()).map_err(fenced)?;
        }
        let (call, begin) = (operation.call()?, tokio::time::Instant::now());
        let began = self.shared.cache.write_begins();
        let answer = self.shared.api.call(call).await;
        let refused = |error: &CallError| error.status().map_or(0, |status| status.code);
        let code = answer.as_ref().map_or_else(refused, |_| 200);
        self.shared.metrics.request(operation.verb, operation.kind.gvk(), code, begin.elapsed());
        let text = answer?;
        let answer = serde_json::from_slice(&text).map_err(|cause| WriteError::Answer {
            attempt: operation.to_string(),
            expected: "JSON".to_owned(),
            cause: Some(cause.into()),
        })?;
        // Recorded before the caller sees the answer: reads that begin after that have to show the write.
        if operation.is_own_write()
            && let Some(write) = operation.own_write(&answer, began)
        {
            self.shared.cache.write_answered(&write);
        }
        Ok(answer)
    }
}

/// An operation on the very object.
pub(super) fn on_object<K: KubeKind>(verb: OperationVerb, object: &K) -> Result<Operation, WriteError> {
    let kind = ScopedKind::of::<K>();
    let meta = object.meta();
    let mut operation = Operation::of(verb, &kind).in_namespace(meta.namespace.as_deref());
    operation.name = meta.name.clone();
    match operation.key() {
        Some(_) => Ok(operation),
        None => Err(WriteError::NoName { attempt: operation.to_string() }),
    }
}

/// Name, namespace and uid say which object it is.
fn same_object<K: KubeObject>(operation: &Operation, edited: &Edited<K>) -> Result<(), WriteError> {
    let (read, now) = (edited.original().meta(), edited.meta());
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

/// The answer as an object of the type.
pub(super) fn fetched<K: KubeObject>(attempt: &str, answer: Value) -> Result<Fetched<K>, WriteError> {
    Fetched::of_whole(answer).map_err(|cause| not_a::<K>(attempt, &cause))
}

/// What serde says may show a value: only the category is told.
pub(super) fn not_a<K: KubeKind>(attempt: &str, cause: &serde_json::Error) -> WriteError {
    let expected = K::kind(&()).into_owned();
    WriteError::Answer { attempt: attempt.to_owned(), expected, cause: Some(problem(cause).into()) }
}

fn problem(cause: &serde_json::Error) -> String {
    format!("it does not fit the type ({:?} error)", cause.classify())
}

/// The answer as any type.
pub(super) fn decoded<T: DeserializeOwned>(attempt: &str, answer: Value) -> Result<T, WriteError> {
    serde_json::from_value(answer).map_err(|cause| WriteError::Answer {
        attempt: attempt.to_owned(),
        expected: "object of the type asked for".to_owned(),
        cause: Some(problem(&cause).into()),
    })
}
