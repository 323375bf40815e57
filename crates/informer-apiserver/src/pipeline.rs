//! The write pipeline: create, update, patch, delete and bulk load.
//!
//! A write reads the object, modifies a copy, and commits the copy if the stored object is unchanged.
//! Otherwise it repeats these steps. No lock is held between the read and the commit.
//!
//! Writes are asynchronous because admission and conversion may call webhooks. Writes of the embedding
//! program and of the controllers call no webhooks, so their futures are [ready
//! immediately](crate::pipeline::ready).

pub(crate) mod allocations;
mod apply;
mod bulk;
mod commit;
mod controller_writes;
mod delete;
mod eviction;
mod follow_up;
mod managed_fields;
mod merge;
pub(crate) mod namespace;
mod patch;
mod pods;
mod preconditions;
mod quota_usage;
pub(crate) mod ready;
mod retry;
mod scale;
mod scope;
mod update;

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use rand::RngExt;
use serde_json::{Value, json};

use crate::admission::{Admission, Scope};
use crate::model::json::Object;
use crate::model::metadata;
use crate::model::object_meta;
use crate::model::object_meta::{metadata_of, metadata_of_mut};
use crate::model::write_options::{FieldValidation, WriteMode};
use crate::pipeline::allocations::Allocations;

pub(crate) use apply::Application;
pub(crate) use delete::DeleteOptions;
pub(crate) use eviction::check_eviction;
pub(crate) use follow_up::{
    ACCOUNT, AGGREGATION_MANAGER, BackgroundTask, ControllerQueues, NAMESPACE_DEFAULTS_MANAGER, ObjectRef,
    PromptTask, ROOT_CA, StoredObject,
};
pub(crate) use patch::PatchType;
use retry::CreateError;
pub(crate) use retry::{OnConflict, WriteError, retry};
pub(crate) use scale::NewScale;
use scope::Drafted;

use crate::admission::Phase;
use crate::admission::plugins::PendingWrite;
use crate::auth::Requester;
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::core::service::allocation::{UsedAddresses, allocate_service};
use crate::model::kinds::{KindDefinition, Traits};
use crate::pipeline::allocations::Allocation;
use crate::registry::storage::{self, Changed, Stored, TooOld};
use merge::{Origin, check_new, decode_typed};
pub(crate) use quota_usage::{Commit, QuotaUsage, UsageGuard};

/// Maximum number of random names that are tried for one `generateName`, as in kube-apiserver.
const MAX_NAMES: usize = 8;
/// Maximum length of `generateName`. As in kube-apiserver, a longer one is truncated.
const MAX_PREFIX: usize = 58;

const DEFINITIONS: &str = "apiextensions.k8s.io";

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Bytes,
    pub(crate) stored: Option<Arc<Stored>>,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}

impl Written {
    pub(crate) fn value(&self) -> Value {
        parse(&self.object)
    }

    fn stored(stored: Arc<Stored>, created: bool) -> Self {
        Self { object: stored.bytes(), stored: Some(stored), created, warnings: Vec::new() }
    }

    fn warned(mut self, warnings: Vec<String>) -> Self {
        self.warnings.splice(0..0, warnings);
        self
    }
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) admission: Admission,
    pub(crate) quota_usage: QuotaUsage,
    /// Cluster IPs and node ports of Services that are being written. Locked before `quota_usage`, `registry`
    /// and `storage`.
    pub(crate) allocations: Allocations,
    pub(crate) queues: ControllerQueues,
    /// The CA certificates for the default objects of namespaces. `None` if namespaces have no such objects.
    pub(crate) root_ca: Option<Arc<str>>,
}

impl Deref for Pipeline {
    type Target = Admission;

    fn deref(&self) -> &Admission {
        &self.admission
    }
}

impl Pipeline {
    /// Drops all caches whose keys are resourceVersions. After a restore the same resourceVersions belong to
    /// other objects.
    pub(crate) fn clear_version_caches(&self) {
        self.hooks.clear();
        self.policies.clear();
        self.quota_usage.clear();
        let converters: Vec<_> =
            self.registry.read().iter().filter_map(|resource| resource.converter.clone()).collect();
        converters.iter().for_each(|converter| converter.clear());
    }

    /// Restores the objects at an earlier resourceVersion, and this resourceVersion itself. All watches end.
    pub(crate) fn rewind(&self, version: u64) -> Result<(), TooOld> {
        self.storage.write().rewind(version)?;
        self.clear_version_caches();
        self.announce_everything();
        Ok(())
    }
}

impl Pipeline {
    pub(crate) async fn create(
        &self,
        scope: Scope<'_>,
        object: Value,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        let kind = scope.kind();
        let mut object = metadata::checked(&self.schema, kind, scope.namespace, object)?;
        if kind.namespaced && scope.namespace.is_none() {
            return Err(ApiError::bad_request("an empty namespace may not be set during creation"));
        }
        if !scope.dry_run && !object_meta::text(&object, "resourceVersion").is_empty() {
            return Err(ApiError::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        self.check_prerequisites(scope, mode, object_meta::text(&object, "name"))?;
        let warnings = self.decode(scope, &mut object, mode)?;
        let written = self.create_decoded(scope, object, mode).await;
        match written {
            Ok(written) => Ok(written.warned(warnings)),
            Err(error) => Err(error.warned(warnings)),
        }
    }

    /// Creates an object that was already decoded and defaulted.
    async fn create_decoded(
        &self,
        scope: Scope<'_>,
        mut object: Object,
        mode: WriteMode,
    ) -> Result<Written, ApiError> {
        object_meta::remove_server_fields(&mut object);
        let managers = self.manage_created(scope, &mut object, mode).await;
        Ok(self.store_new(scope, (object, managers), mode).await?)
    }

    /// Stores a new object. Its managed fields are in the object, or are given as JSON text.
    async fn store_new(
        &self,
        scope: Scope<'_>,
        (mut object, managers): (Object, Option<String>),
        mode: WriteMode,
    ) -> Result<Written, CreateError> {
        let kind = scope.kind();
        match mode {
            WriteMode::Raw => {}
            WriteMode::Whole => kind.admit_loaded(&mut object),
            _ if scope.validation == FieldValidation::Unchecked => {}
            _ => self.run_mutating_plugins(kind, scope.namespace, &mut object)?,
        }
        self.admit(scope, Phase::Mutate, Some(&mut object), None).await?;
        scope.check_escalation(self, None, &object)?;
        self.fill_new(kind, &mut object, mode);
        scope.record_requester(&mut object);
        // In a dry run, the object may have a resourceVersion, which the response then contains, too. An
        // invalid one is ignored.
        let given = metadata::version(&object).ok().flatten().filter(|_| scope.dry_run);
        let prefix = object_meta::text(&object, "generateName").to_owned();
        let generates_name = object_meta::text(&object, "name").is_empty() && !prefix.is_empty();
        for _ in 0..MAX_NAMES {
            if generates_name {
                metadata_of_mut(&mut object).insert("name".into(), random_name(&prefix).into());
            }
            let name = object_meta::text(&object, "name").to_owned();
            let allocation = self.prepare_and_validate_new(scope, (&name, &mut object), mode, None)?;
            let api_warnings = scope.api_warnings(&mut object, None, mode);
            if let Some(Requester { user, name: Some(_) }) = scope.requester {
                self.authorize_creation(user, kind, (scope.namespace, &name))?;
            }
            let write = PendingWrite { scope, mode, name: &name, object: &object, old: None };
            let warnings = self.run_validating_plugins(write, api_warnings)?;
            let warned = |error: ApiError| error.warned(warnings.clone());
            self.admit(scope, Phase::Validate, Some(&mut object), None).await.map_err(warned)?;
            // The storage key comes from the object after admission. Validating webhooks cannot change its
            // name any more.
            let name = object_meta::text(&object, "name").to_owned();
            if scope.converts() {
                self.check_quotas(scope.quota_write(mode, None), &mut object).map_err(warned)?;
            }
            let Drafted { draft, back } =
                self.drafted_new(scope, scope.key(&name)?, &mut object, managers.as_deref()).await?;
            let unversioned = scope.dry_run.then(|| {
                let shown = match &back {
                    Some(Ok(back)) => &storage::draft(kind, draft.key.clone(), back),
                    _ => &draft,
                };
                match given {
                    Some(version) => shown.preview(version),
                    None => shown.unversioned(),
                }
            });
            let charged = self.charge(scope.quota_write(mode, None), &mut object).map_err(warned)?;
            let committed = self.commit_new(scope, draft, mode, charged);
            drop(allocation);
            match committed {
                Ok(stored) => {
                    let stored = scope.in_request_version(stored, back);
                    self.after_write(scope, &name);
                    let stored = stored?;
                    let written = match unversioned {
                        // In a dry run the object was not stored, so the response has no new resourceVersion.
                        Some(object) => Written { object, stored: None, created: true, warnings: Vec::new() },
                        None => Written::stored(stored, true),
                    };
                    return Ok(written.warned(warnings));
                }
                Err(WriteError::Conflict) if generates_name => {}
                Err(WriteError::NestedConflict(error) | WriteError::Api(error)) => {
                    return Err(error.into());
                }
                Err(WriteError::Conflict) => return Err(self.already_exists(scope, &name)),
            }
        }
        Err(ApiError::no_unique_name(kind, object_meta::text(&object, "name")).into())
    }

    /// Returns the error for a new object whose name another object has.
    fn already_exists(&self, scope: Scope<'_>, name: &str) -> CreateError {
        let found = self.find(scope.resource, scope.namespace, name);
        let terminating = found.is_ok_and(|found| found.terminating);
        CreateError::AlreadyExists(ApiError::already_exists(scope.kind(), name, terminating))
    }

    /// Prepares and validates a new object.
    ///
    /// A Service gets a cluster IP and node ports that are not in `taken`. If `taken` is `None`, it gets free
    /// ones, which are reserved until the returned allocation is dropped.
    fn prepare_and_validate_new(
        &self,
        scope: Scope<'_>,
        (name, object): (&str, &mut Object),
        mode: WriteMode,
        taken: Option<&UsedAddresses>,
    ) -> Result<Option<Allocation<'_>>, ApiError> {
        let kind = scope.kind();
        let mut allocation = None;
        if mode == WriteMode::Raw || scope.validation == FieldValidation::Unchecked {
            metadata::check_name(kind, name, object)?;
        } else {
            kind.prepare_for_create(object, &self.now(), mode);
            check_new(kind, name, object, mode)?;
            scope.check_params(self, name, None, object)?;
            match taken {
                Some(taken) => {
                    allocate_service(taken, object, None, mode, scope.dry_run).map_err(|causes| {
                        ApiError::invalid_fields(kind, object_meta::text(object, "name"), causes)
                    })?
                }
                None => allocation = self.allocate(scope, object, None, mode)?,
            }
        }
        Ok(allocation)
    }

    /// Decodes an object with the type or schema of its kind and applies the defaults. Returns the warnings.
    /// In raw mode the object stays unchanged.
    fn decode(
        &self,
        scope: Scope<'_>,
        object: &mut Object,
        mode: WriteMode,
    ) -> Result<Vec<String>, ApiError> {
        if mode != WriteMode::Raw {
            return self.decode_typed(scope, object, Origin::Body);
        }
        if scope.kind().is(DEFINITIONS, "CustomResourceDefinition") {
            // A raw write stores an invalid CRD, too, and needs only the defaults for its names.
            crate::model::crd::fill_crd(object);
        }
        Ok(Vec::new())
    }

    /// Sets the fields of a new object that clients cannot set, such as the UID and the creation time.
    fn fill_new(&self, kind: &KindDefinition, object: &mut Object, mode: WriteMode) {
        let now = self.now();
        object_meta::remove_server_fields(object);
        let metadata = metadata_of_mut(object);
        let uid = new_uid();
        metadata.insert("uid".into(), uid.to_string().into());
        metadata.insert("creationTimestamp".into(), now.into());
        if kind.traits.has(Traits::GENERATION) {
            metadata.insert("generation".into(), 1.into());
        }
        // A new object has no status, because controllers write it. Nodes are an exception: they send their
        // status when they register.
        if kind.traits.has(Traits::STATUS)
            && mode == WriteMode::Main
            && !kind.traits.has(Traits::STATUS_ON_CREATE)
        {
            object.remove("status");
        }
        if let Some(initialize) = kind.descriptor.hooks.initialize {
            initialize(object);
        } else if kind.is(DEFINITIONS, "CustomResourceDefinition") {
            crate::model::crd::init_crd_status(object);
        } else if matches!(mode, WriteMode::Main | WriteMode::Whole) {
            kind.fill_status(object);
        } else if kind.is("", "Pod") {
            object.entry("status").or_insert_with(|| json!({"phase": "Pending"}));
        }
    }

    fn decode_typed(
        &self,
        scope: Scope<'_>,
        object: &mut Object,
        origin: Origin<'_>,
    ) -> Result<Vec<String>, ApiError> {
        decode_typed(&self.schema, scope, object, origin)
    }

    fn remove(&self, scope: Scope<'_>, current: &Stored) -> Result<u64, Changed> {
        self.remove_charged(scope, current, None)
    }

    /// Removes an object whose last update was [charged](Self::charge) to quotas, unless another write has
    /// changed it.
    fn remove_charged(
        &self,
        scope: Scope<'_>,
        current: &Stored,
        charged: Option<UsageGuard<'_>>,
    ) -> Result<u64, Changed> {
        let Scope { resource, dry_run, .. } = scope;
        if dry_run {
            return Ok(current.version);
        }
        let version = self.storage.write().remove(resource.table, current.key.as_str(), current.version)?;
        let commit = Commit { kind: &resource.kind, before: Some(current), after: None, version };
        self.update_quota_usage(&commit, charged);
        self.announce(resource);
        self.after_removal(scope, current);
        Ok(version)
    }
}

pub(super) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn is_terminating_object(object: &Object) -> bool {
    metadata_of(object).is_some_and(|metadata| metadata.contains_key("deletionTimestamp"))
}

fn grace_of(object: &Object) -> i64 {
    let grace = metadata_of(object).and_then(|metadata| metadata.get("deletionGracePeriodSeconds")?.as_i64());
    grace.unwrap_or_default()
}

fn new_uid() -> uuid::Uuid {
    match informer_core::random::seeded().zip(informer_core::random::seeded()) {
        Some((high, low)) => {
            uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
                .into_uuid()
        }
        None => uuid::Builder::from_random_bytes(rand::random()).into_uuid(),
    }
}

fn random_name(prefix: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let end =
        (0..=MAX_PREFIX.min(prefix.len())).rev().find(|&at| prefix.is_char_boundary(at)).unwrap_or_default();
    let mut rng = rand::rng();
    let mut letter = || match informer_core::random::seeded() {
        Some(number) => (number % LETTERS.len() as u64) as usize,
        None => rng.random_range(0..LETTERS.len()),
    };
    let suffix: String = (0..5).map(|_| char::from(LETTERS[letter()])).collect();
    format!("{}{suffix}", &prefix[..end])
}
