//! Actors: programs that write objects and immediately read them back.

use std::marker::PhantomData;

use futures_util::future::BoxFuture;
use informer_core::ObjectKey;
use informer_runtime::{CachedClient, DeleteOptions, Fetched, OperationResult, Patch, ReadError, WriteError};
use informer_simulator::Random;

use crate::own_writes::{Observation, OwnWrites};
use crate::program::Shared;
use crate::sample::Sample;
use crate::scenario::{Representation, Write};
use crate::view::Selection;

/// The part of a program that writes and reads the objects of one kind.
pub(crate) trait Actor: Send + Sync {
    /// Writes an object, then reads it back from the cache. If the server rejects the write, this is only
    /// recorded in the trace.
    fn write(&self, write: Write, key: (&'static str, String), draw: u64) -> BoxFuture<'static, ()>;

    /// Reads an object from the cache. Returns the resourceVersion of the object.
    fn read(&self, key: String) -> BoxFuture<'static, Result<Option<u64>, String>>;

    /// Returns the reads that this actor made after its own writes, which the read-your-writes check compares
    /// with the server's history.
    fn own_writes(&self) -> &OwnWrites;
}

pub(crate) struct TypedActor<K> {
    inner: Inner,
    kind: PhantomData<fn() -> K>,
}

#[derive(Clone)]
struct Inner {
    name: String,
    representation: Representation,
    client: CachedClient,
    shared: Shared,
    selection: Selection,
    own_writes: OwnWrites,
}

enum Written {
    Stored(u64),
    Deleted,
    Nothing,
}

impl<K: Sample> TypedActor<K> {
    pub(crate) fn new(
        (agent, representation): (String, Representation),
        client: CachedClient,
        shared: Shared,
        selection: Selection,
    ) -> Self {
        let name = format!("{agent} {}", K::plural(&()));
        let own_writes = OwnWrites::default();
        Self {
            inner: Inner { name, representation, client, shared, selection, own_writes },
            kind: PhantomData,
        }
    }
}

impl<K: Sample> Actor for TypedActor<K> {
    fn write(&self, write: Write, key: (&'static str, String), draw: u64) -> BoxFuture<'static, ()> {
        let inner = self.inner.clone();
        Box::pin(async move {
            let (namespace, name) = (key.0, key.1.as_str());
            let text = format!("{namespace}/{name}");
            let label = format!("{} {write:?} {text}", inner.name);
            inner.shared.trace.line(format_args!("{label}: begins"));
            let (epoch, mut random) = (inner.shared.cluster.epoch(), Random::new(draw));
            let written = inner.perform::<K>(write, (namespace, name), &mut random).await;
            match written {
                Ok(Written::Nothing) => inner.shared.trace.line(format_args!("{label}: no change needed")),
                Ok(Written::Deleted) => inner.shared.trace.line(format_args!("{label}: deleted")),
                Ok(Written::Stored(version)) => {
                    inner.shared.trace.line(format_args!("{label}: @{version}"));
                    inner.read_back::<K>(&text, version, epoch).await;
                }
                Err(error) => inner.shared.trace.line(format_args!("{label}: {error}")),
            }
        })
    }

    fn read(&self, key: String) -> BoxFuture<'static, Result<Option<u64>, String>> {
        let inner = self.inner.clone();
        Box::pin(async move { inner.read::<K>(&key).await.map_err(|error| error.to_string()) })
    }

    fn own_writes(&self) -> &OwnWrites {
        &self.inner.own_writes
    }
}

fn version<K: Sample>(object: &Fetched<K>) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

impl Inner {
    async fn perform<K: Sample>(
        &self,
        write: Write,
        key: (&str, &str),
        random: &mut Random,
    ) -> Result<Written, WriteError> {
        let text = format!("{}/{}", key.0, key.1);
        let new = || serde_json::from_value::<K>(K::draw(key, &mut random.clone()));
        let new =
            new().map_err(|error| WriteError::Stopped { attempt: text.clone(), cause: error.into() })?;
        match write {
            Write::Create => self.stored::<K>(&text, vec![String::new()], self.client.create(&new)).await,
            Write::Update => {
                let read = self.client.get::<K>(&text).await;
                let read = read.map_err(|cause| unread(&text, cause))?;
                let Some(held) = read else { return Ok(Written::Nothing) };
                let mut edited = held.edit();
                let paths = edited.change(random);
                if !edited.is_changed() {
                    return Ok(Written::Nothing);
                }
                self.stored::<K>(&text, paths, self.client.update(&edited)).await
            }
            Write::CreateOrUpdate | Write::CreateOrPatch => {
                let paths = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
                let (mut drawn, into) = (random.clone(), std::sync::Arc::clone(&paths));
                // The changed paths must be known before the request is sent, so that a write with a lost
                // response can be attributed. A created object has no previous state.
                let change = move |object: &mut K| {
                    *into.lock() = object.change(&mut drawn);
                    Ok(())
                };
                let patches = write == Write::CreateOrPatch;
                let written = if patches {
                    self.client.create_or_patch(new, change).await
                } else {
                    self.client.create_or_update(new, change).await
                };
                // The program sent no write, because the object is unchanged. There is nothing to wait for,
                // so a read may be served by an informer that lags behind.
                if matches!(written, Ok((_, OperationResult::Unchanged))) {
                    return Ok(Written::Nothing);
                }
                let stored = written.map(|(object, _)| version(&object));
                let (epoch, paths) = (self.shared.cluster.epoch(), paths.lock().clone());
                let ticket = self.shared.intents.begin(&K::gvr(), &text, epoch, (&self.name, paths));
                let version = stored?;
                self.shared.intents.completed(ticket, version);
                Ok(Written::Stored(version))
            }
            Write::Apply => {
                let (applied, paths) = K::applied(key, random);
                let client = self.client.field_owner("applier").force();
                self.stored::<K>(&text, paths, client.apply(&applied)).await
            }
            Write::Patch => {
                let note = random.below(100).to_string();
                let patch = serde_json::json!({"metadata": {"annotations": {"patched": note}}});
                let paths = vec!["metadata.annotations.patched".to_owned()];
                let patch = Patch::merge(patch);
                self.stored::<K>(&text, paths, self.client.patch::<K>(&text, &patch)).await
            }
            Write::Delete => {
                let options = DeleteOptions::default().grace_period_seconds(0);
                self.client.delete_with::<K>(&text, &options).await?;
                Ok(Written::Deleted)
            }
        }
    }

    /// Runs a write that may change the fields in `paths`, and records the resourceVersion of the stored
    /// object.
    async fn stored<K: Sample>(
        &self,
        key: &str,
        paths: Vec<String>,
        write: impl Future<Output = Result<Fetched<K>, WriteError>>,
    ) -> Result<Written, WriteError> {
        let epoch = self.shared.cluster.epoch();
        let ticket = self.shared.intents.begin(&K::gvr(), key, epoch, (&self.name, paths));
        let version = version(&write.await?);
        self.shared.intents.completed(ticket, version);
        Ok(Written::Stored(version))
    }

    /// Reads the object that the actor has just written, and records the resourceVersion that the cache
    /// returned.
    async fn read_back<K: Sample>(&self, key: &str, written: u64, epoch: u64) {
        let namespace = key.split('/').next().unwrap_or_default();
        let cached = self.selection.namespaces.is_empty()
            || self.selection.namespaces.iter().any(|own| own == namespace);
        if !cached {
            return;
        }
        let begin = self.shared.trace.elapsed();
        let read = self.read::<K>(key).await;
        let shown = match &read {
            Ok(shown) => format!("{shown:?}"),
            Err(error) => error.to_string(),
        };
        self.shared.trace.line(format_args!("{} reads {key}: {shown}", self.name));
        let took = self.shared.trace.elapsed() - begin;
        let same_epoch = epoch == self.shared.cluster.epoch();
        self.own_writes.record(Observation {
            key: key.to_owned(),
            written,
            epoch: same_epoch.then_some(epoch),
            server: self.shared.cluster.server().version(),
            took,
            read: read.map_err(|error| error.to_string()),
        });
    }

    /// Returns the resourceVersion of the object in the cache; `None` if the cache does not contain the
    /// object.
    async fn read<K: Sample>(&self, key: &str) -> Result<Option<u64>, ReadError> {
        let of_text = |version: Option<&str>| version.and_then(|version| version.parse().ok()).unwrap_or(0);
        match self.representation {
            Representation::Metadata => {
                use informer_core::Object;
                let held = self.client.metadata::<K>(key).await?;
                Ok(held.map(|held| of_text(Some(&held.resource_version().to_string()))))
            }
            Representation::Dynamic => {
                let kind = informer_runtime::ResourceKind::of::<K>();
                let held = self.client.dynamic(kind).get(key).await?;
                Ok(held.map(|held| of_text(held.metadata.resource_version.as_deref())))
            }
            _ => Ok(self.client.get::<K>(key).await?.map(|held| version(&held))),
        }
    }
}

fn unread(key: &str, cause: ReadError) -> WriteError {
    let key = ObjectKey::new("", key).map_or_else(|_| key.to_owned(), |key| key.to_string());
    WriteError::Stopped { attempt: format!("read {key}"), cause: cause.into() }
}
