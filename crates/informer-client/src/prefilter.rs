//! A predicate on the received bytes of an object, which runs before the object is decoded and copied.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use informer_core::{FieldPath, Labels, OwnerReference};
use informer_schema::{ProtobufHeaderError, Scan, TranscodeError};

use crate::header::{HeaderError, RawHeader};
use crate::object::{Origin, has_hidden_field};
use crate::scan::Cursor;
use crate::{ResourceKind, fields};

type Predicate = dyn Fn(&ReceivedObject<'_>) -> bool + Send + Sync;

/// A predicate of the program that decides on the received bytes whether an object is decoded. Objects for
/// which it returns false are not cached, and their bytes are not copied.
///
/// A prefilter runs after the scan of the metadata, which the client needs for each object. The predicate is
/// called once for each received state, in any representation. An unchanged object that is already cached is
/// not examined again.
///
/// An object that is listed or created and does not pass is dropped. If a change makes a cached object fail
/// the predicate, the object is deleted from the cache. As the failing state is not decoded, the deletion has
/// the cached state as the last one, and is [stale](informer_cache::Event::Deleted). A later change after
/// which the object passes arrives as an addition. The reads of single objects with
/// [`KubeListWatch::get`](crate::KubeListWatch::get) are not filtered.
///
/// [`SharedInformerBuilder::filter`](informer_cache::SharedInformerBuilder::filter) runs after a prefilter.
/// Its predicate takes the decoded object, and its deletions contain the state that failed.
///
/// If a program also caches the [`Metadata`](crate::Metadata) of a kind, a predicate on other fields must
/// first accept objects that are [metadata only](ReceivedObject::is_metadata_only), because they lack these
/// fields. An object whose predicate reads such a field is quarantined as undecodable.
///
/// The predicate must depend on nothing but the object. It must be fast, because it runs on the tasks that
/// read the responses. If it panics, or reads a field whose bytes are invalid, the object is quarantined as
/// undecodable. A rejected object is not validated otherwise.
///
/// ```
/// use informer_client::{Prefilter, ReadOptions};
/// use informer_core::FieldPath;
///
/// let node: FieldPath = "spec.nodeName".parse()?;
/// let prefilter = Prefilter::new(move |pod| {
///     pod.label("app").as_deref() == Some("web") && pod.field(&node).is_some()
/// });
/// let options = ReadOptions { prefilter: Some(prefilter), ..ReadOptions::default() };
/// # let _ = options;
/// # Ok::<(), informer_core::ParseFieldPathError>(())
/// ```
#[derive(Clone)]
pub struct Prefilter(Arc<Predicate>);

impl Prefilter {
    /// Creates a prefilter from a predicate, which returns true for the objects to keep.
    pub fn new(predicate: impl Fn(&ReceivedObject<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(predicate))
    }

    /// Returns whether the predicate accepts an object.
    ///
    /// # Errors
    ///
    /// Returns an error if the predicate panics, or if it has read a field that is invalid or was not
    /// requested. The result of the predicate is then ignored.
    pub(crate) fn passes(&self, object: &ReceivedObject<'_>) -> Result<bool, PrefilterError> {
        // A panic of the predicate cannot leave a partly changed value behind, because the predicate only
        // reads the object. The panic message may quote values of the object, so the error lacks it.
        let passes = catch_unwind(AssertUnwindSafe(|| (self.0)(object)));
        let passes = passes.map_err(|_| PrefilterError::Panicked)?;
        object.problem.take().map_or(Ok(passes), Err)
    }
}

impl fmt::Debug for Prefilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefilter").finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PrefilterError {
    #[error("the prefilter panicked; it must not panic for any object")]
    Panicked,
    #[error(transparent)]
    Json(#[from] HeaderError),
    #[error(transparent)]
    Protobuf(#[from] ProtobufHeaderError),
    #[error("the prefilter cannot read {path}: {problem}")]
    Field { path: FieldPath, problem: String },
    #[error(
        "the prefilter reads {path}, but only metadata was requested; make it accept objects that are \
         metadata only (ReceivedObject::is_metadata_only)"
    )]
    NotRequested { path: FieldPath },
}

impl From<TranscodeError> for PrefilterError {
    fn from(error: TranscodeError) -> Self {
        Self::Protobuf(ProtobufHeaderError::Wire(error))
    }
}

/// An object as it was received, which a [`Prefilter`] examines. Each method reads the value from the bytes.
///
/// The object has all fields that the server has sent, also those that [`Pruning`](crate::Pruning) removes
/// later.
pub struct ReceivedObject<'a> {
    bytes: ReceivedBytes<'a>,
    origin: &'a Origin,
    metadata_only: bool,
    /// The first error of the methods, which return nothing in that case.
    problem: RefCell<Option<PrefilterError>>,
}

pub(crate) enum ReceivedBytes<'a> {
    /// The cursor is at the beginning of the object.
    Json {
        raw: &'a RawHeader<'a>,
        text: &'a str,
        cursor: Cursor<'a>,
    },
    Protobuf {
        scan: &'a Scan<'a>,
        message: &'a [u8],
    },
}

impl<'a> ReceivedObject<'a> {
    pub(crate) fn new(bytes: ReceivedBytes<'a>, origin: &'a Origin, metadata_only: bool) -> Self {
        Self { bytes, origin, metadata_only, problem: RefCell::new(None) }
    }

    /// Returns the kind of the object.
    pub fn kind(&self) -> &'a ResourceKind {
        self.origin.kind()
    }

    /// Returns true if only metadata was requested, for [`Metadata`](crate::Metadata). The object then has no
    /// other fields.
    pub fn is_metadata_only(&self) -> bool {
        self.metadata_only
    }

    /// Returns `metadata.name`; empty if it is missing.
    pub fn name(&self) -> &str {
        match &self.bytes {
            ReceivedBytes::Json { raw, .. } => raw.metadata.name.as_deref().unwrap_or_default(),
            ReceivedBytes::Protobuf { scan, .. } => scan.name(),
        }
    }

    /// Returns `metadata.namespace`; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        let namespace = match &self.bytes {
            ReceivedBytes::Json { raw, .. } => raw.metadata.namespace.as_deref().unwrap_or_default(),
            ReceivedBytes::Protobuf { scan, .. } => scan.namespace(),
        };
        Some(namespace).filter(|namespace| !namespace.is_empty())
    }

    /// Returns one label.
    pub fn label(&self, name: &str) -> Option<Cow<'a, str>> {
        self.read(|bytes| match bytes {
            ReceivedBytes::Json { raw, text, .. } => Ok(raw.metadata.label(text, name)?),
            ReceivedBytes::Protobuf { scan, .. } => Ok(scan.label(name)?.map(Cow::Borrowed)),
        })
    }

    /// Returns all labels, for a [`LabelSelector`](informer_core::LabelSelector). This method allocates;
    /// [`label`](Self::label) does not.
    pub fn labels(&self) -> Labels {
        self.read(|bytes| match bytes {
            ReceivedBytes::Json { raw, text, .. } => Ok(raw.metadata.labels(text)?),
            ReceivedBytes::Protobuf { scan, .. } => Ok(scan.labels()?.into_iter().collect()),
        })
    }

    /// Returns one annotation.
    pub fn annotation(&self, name: &str) -> Option<Cow<'a, str>> {
        self.read(|bytes| match bytes {
            ReceivedBytes::Json { raw, text, .. } => Ok(raw.metadata.annotation(text, name)?),
            ReceivedBytes::Protobuf { scan, .. } => Ok(scan.annotation(name)?.map(Cow::Borrowed)),
        })
    }

    /// Returns `metadata.ownerReferences`. This method allocates if there are owners.
    pub fn owners(&self) -> Vec<OwnerReference> {
        self.read(|bytes| match bytes {
            ReceivedBytes::Json { raw, text, .. } => Ok(raw.metadata.owners(text)?),
            ReceivedBytes::Protobuf { scan, .. } => Ok(scan.owners()?),
        })
    }

    /// Returns the scalar at `path` as a string, like [`Object::field`](informer_core::Object::field). If
    /// only metadata was requested and `path` is another field, the object is quarantined as undecodable.
    pub fn field(&self, path: &FieldPath) -> Option<Cow<'a, str>> {
        let mut segments = path.segments();
        match (segments.next(), segments.next()) {
            (Some("kind"), None) => return Some(self.origin.kind().kind().to_owned().into()),
            (Some("apiVersion"), None) => return Some(self.origin.kind().gvk().api_version().into()),
            (Some("metadata"), _) => {}
            _ if self.metadata_only => {
                return self.read(|_| Err(PrefilterError::NotRequested { path: path.clone() }));
            }
            _ => {}
        }
        let unreadable = |problem: String| PrefilterError::Field { path: path.clone(), problem };
        self.read(|bytes| match bytes {
            ReceivedBytes::Json { cursor, .. } => {
                fields::scalar_at(*cursor, path).map_err(|error| unreadable(error.to_string()))
            }
            ReceivedBytes::Protobuf { message, .. } => {
                let Some(wire) = self.origin.wire() else { return Ok(None) };
                let found = wire.kind().scalar(message, path);
                let found = found.map_err(|error| unreadable(error.problem().to_string()))?;
                if found.is_none() && has_hidden_field(message, path, self.origin) {
                    self.origin.require_json();
                }
                Ok(found)
            }
        })
    }

    /// Returns the result of a read, or the default value after an error, which is kept.
    fn read<T: Default>(&self, read: impl FnOnce(&ReceivedBytes<'a>) -> Result<T, PrefilterError>) -> T {
        read(&self.bytes).unwrap_or_else(|error| {
            self.problem.borrow_mut().get_or_insert(error);
            T::default()
        })
    }
}

impl fmt::Debug for ReceivedObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = (self.namespace(), self.name());
        f.debug_struct("ReceivedObject")
            .field("namespace", &namespace)
            .field("name", &name)
            .finish_non_exhaustive()
    }
}
