use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use informer_cache::Undecodable;
use informer_cache::source::SourceContext;
use informer_core::{Header, ObjectKey, ResourceVersion};
use informer_schema::Scan;

use super::Wire;
use crate::header::{HeaderError, Problem, RawHeader};
use crate::object::{Origin, RawBytes, RawObject};
use crate::prefilter::{Prefilter, ReceivedBytes, ReceivedObject};
use crate::scan::Cursor;
use crate::splitter::Slice;
use crate::{Pruning, Representation, ResourceKind};

pub(super) const METADATA_KIND: &str = "PartialObjectMetadata";

pub(super) struct ObjectReader<O: informer_core::Object> {
    origin: Arc<Origin>,
    api_version: Arc<str>,
    context: SourceContext<O>,
    pruning: Pruning,
    prefilter: Option<Prefilter>,
    names_rejected: bool,
    key: String,
    /// How many protobuf objects of the response body have been read. This number decides which objects are
    /// checked for unknown fields. Clones of this reader, which read other parts of the body, share it.
    messages: Arc<AtomicUsize>,
}

/// The first objects of each protobuf response are checked for unknown fields.
const CHECKED_FIRST: usize = 16;

/// Of the later objects of a protobuf response, one in this number is checked for unknown fields. Checking
/// all of them would be too slow: the check visits every field, and takes twice as many instructions as
/// caching a Pod.
const CHECK_INTERVAL: usize = 512;

pub(super) enum Read<O> {
    Fresh(Arc<O>),
    /// The received object has the same uid and resourceVersion as this cached object, so it was not decoded.
    Known(Arc<O>),
    Undecodable(Undecodable),
    /// The prefilter rejected the object, which was not decoded. Contains the key and the version only if
    /// they were requested by [`ObjectReader::naming_rejected`].
    Rejected(Option<RejectedObject>),
    OtherKind(String),
}

/// An object that the prefilter rejected.
pub(super) struct RejectedObject {
    pub(super) key: ObjectKey,
    pub(super) version: ResourceVersion,
}

pub(super) struct ReadObject<O> {
    pub(super) read: Read<O>,
    pub(super) has_kind: bool,
}

impl<O: informer_core::Object> Clone for ObjectReader<O> {
    fn clone(&self) -> Self {
        Self {
            origin: Arc::clone(&self.origin),
            api_version: Arc::clone(&self.api_version),
            context: self.context.clone(),
            pruning: self.pruning.clone(),
            prefilter: self.prefilter.clone(),
            names_rejected: self.names_rejected,
            key: String::new(),
            messages: Arc::clone(&self.messages),
        }
    }
}

impl<O: Representation> ObjectReader<O> {
    pub(super) fn new(origin: Origin, pruning: Pruning, context: SourceContext<O>) -> Self {
        let api_version = origin.kind().gvk().api_version().into();
        Self {
            origin: Arc::new(origin),
            api_version,
            context,
            pruning,
            prefilter: None,
            names_rejected: false,
            key: String::new(),
            messages: Arc::default(),
        }
    }

    pub(super) fn with_prefilter(self, prefilter: Option<Prefilter>) -> Self {
        Self { prefilter, ..self }
    }

    /// Makes the reader return the key and the version of each rejected object. A list only counts these
    /// objects, so it does not allocate their keys.
    pub(super) fn naming_rejected(self) -> Self {
        Self { names_rejected: true, ..self }
    }

    pub(super) fn kind(&self) -> &ResourceKind {
        self.origin.kind()
    }

    /// Returns the protobuf schema of the kind; `None` if the response body is JSON.
    pub(super) fn wire(&self) -> Option<&Wire> {
        self.origin.wire()
    }

    pub(super) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Reads one object from a protobuf message without envelope. If `may_be_known` is true, an object that
    /// is cached with the same uid and resourceVersion is not decoded again.
    pub(super) fn read_message(&mut self, message: &[u8], may_be_known: bool) -> Read<O> {
        let (scan, error) = Scan::partial(message);
        if let Some(error) = error {
            return set_aside(&scan, error.problem());
        }
        if may_be_known && let Some(known) = self.known_message(&scan) {
            return Read::Known(known);
        }
        if let Some(rejected) = self.rejected_message(&scan, message) {
            return rejected;
        }
        self.check_unknown_fields(message);
        contained(|| self.decode_message(&scan, message)).unwrap_or_else(|error| set_aside(&scan, error))
    }

    /// Returns the result for an object that the prefilter rejects; `None` if the object is to be decoded.
    fn rejected_message(&self, scan: &Scan<'_>, message: &[u8]) -> Option<Read<O>> {
        let prefilter = self.prefilter.as_ref()?;
        let bytes = ReceivedBytes::Protobuf { scan, message };
        match prefilter.passes(&ReceivedObject::new(bytes, &self.origin, O::METADATA_ONLY)) {
            Ok(true) => None,
            Ok(false) if !self.names_rejected => Some(Read::Rejected(None)),
            Ok(false) => Some(match scan.key() {
                Ok(key) => {
                    let version = scan.resource_version().into();
                    Read::Rejected(Some(RejectedObject { key, version }))
                }
                Err(error) => set_aside(scan, error),
            }),
            Err(error) => Some(set_aside(scan, error)),
        }
    }

    /// Like [`rejected_message`](Self::rejected_message), for JSON.
    fn rejected(&self, raw: &RawHeader<'_>, text: &str, cursor: Cursor<'_>) -> Option<Read<O>> {
        let prefilter = self.prefilter.as_ref()?;
        let bytes = ReceivedBytes::Json { raw, text, cursor };
        match prefilter.passes(&ReceivedObject::new(bytes, &self.origin, O::METADATA_ONLY)) {
            Ok(true) => None,
            Ok(false) if !self.names_rejected => Some(Read::Rejected(None)),
            Ok(false) => Some(match raw.key() {
                Ok(key) => Read::Rejected(Some(RejectedObject { key, version: raw.version() })),
                Err(error) => undecodable(raw, error),
            }),
            Err(error) => Some(undecodable(raw, error)),
        }
    }

    fn decode_message(&self, scan: &Scan<'_>, message: &[u8]) -> Read<O> {
        let header = match scan.header() {
            Ok(header) => self.shared(header),
            Err(error) => return set_aside(scan, error),
        };
        let cut_managed_fields = self.pruning.cuts_managed_fields();
        let bytes = RawBytes::Protobuf { scan, message, cut_managed_fields };
        match O::decode(RawObject { header, bytes, origin: &self.origin }) {
            Ok(object) => Read::Fresh(Arc::new(object)),
            Err(error) => set_aside(scan, error),
        }
    }

    /// Checks a protobuf object for fields that the built-in schema does not contain, so that version skew is
    /// reported before a read needs such a field.
    fn check_unknown_fields(&mut self, message: &[u8]) {
        if self.is_check_due()
            && let (Some(unknown_fields), Some(wire)) = (self.origin.unknown_fields(), self.origin.wire())
            && !unknown_fields.is_found()
            && wire.kind().has_unknown_fields(message)
        {
            unknown_fields.note();
        }
    }

    /// Increments the number of protobuf objects. Returns true if the current object must be checked for
    /// unknown fields.
    fn is_check_due(&self) -> bool {
        let read = self.messages.fetch_add(1, Ordering::Relaxed);
        read < CHECKED_FIRST || read.is_multiple_of(CHECK_INTERVAL)
    }

    fn known_message(&mut self, scan: &Scan<'_>) -> Option<Arc<O>> {
        self.key.clear();
        if !scan.namespace().is_empty() {
            self.key.push_str(scan.namespace());
            self.key.push('/');
        }
        self.key.push_str(scan.name());
        let version = ResourceVersion::from(scan.resource_version());
        self.context.unchanged(&self.key, scan.uid(), &version)
    }

    pub(super) fn read(&mut self, item: Slice<'_>, may_be_known: bool) -> ReadObject<O> {
        match std::str::from_utf8(item.bytes) {
            Ok(text) => self.read_text(text, Cursor::with_spans(text, item.spans, 0), may_be_known),
            Err(error) => {
                let error = HeaderError::new("", Problem::NotUtf8(error.valid_up_to()));
                ReadObject { read: Read::Undecodable(Undecodable::new(None, error)), has_kind: false }
            }
        }
    }

    /// Reads the object in the JSON `text`. `cursor` must be at the beginning of the object.
    pub(super) fn read_text<'a>(
        &mut self,
        text: &'a str,
        cursor: Cursor<'a>,
        may_be_known: bool,
    ) -> ReadObject<O> {
        let mut raw = RawHeader::default();
        let scanned = raw.scan(cursor);
        let has_kind = raw.kind.is_some();
        let read = if let Some(other) = self.other_kind(&raw) {
            Read::OtherKind(other)
        } else if let Err(error) = scanned {
            undecodable(&raw, error)
        } else if may_be_known && let Some(known) = self.known(&raw) {
            Read::Known(known)
        } else if let Some(rejected) = self.rejected(&raw, text, cursor) {
            rejected
        } else {
            contained(|| self.decode(text, &raw)).unwrap_or_else(|error| undecodable(&raw, error))
        };
        ReadObject { read, has_kind }
    }

    fn known(&mut self, raw: &RawHeader<'_>) -> Option<Arc<O>> {
        let key = raw.key_text(&mut self.key)?;
        // A cached partial object (decoded from protobuf with unknown fields) is not reused, because the
        // received JSON is complete.
        self.context.unchanged(key, raw.uid(), &raw.version()).filter(|held| !held.is_partial())
    }

    fn decode(&self, text: &str, raw: &RawHeader<'_>) -> Read<O> {
        let header = match raw.build(text) {
            Ok(header) => self.shared(header),
            Err(error) => return undecodable(raw, error),
        };
        let cut = self.pruning.cuts_managed_fields();
        if self.pruning.is_simple() && (!cut || raw.layout.is_regular()) {
            return self.make(header, text, raw, cut);
        }
        let pruned = match self.pruning.cuts(text) {
            Ok(cuts) => cuts.apply(text),
            Err(error) => return undecodable(raw, HeaderError::from(error)),
        };
        // The pruned JSON is scanned again for its offsets. The header comes from the scan of the unpruned
        // object, because pruning may have removed the metadata.
        let mut rest = RawHeader::default();
        let is_regular = rest.scan(Cursor::new(&pruned)).is_ok() && rest.layout.is_regular();
        self.make(header, &pruned, &rest, cut && is_regular)
    }

    fn make(&self, header: Header, text: &str, raw: &RawHeader<'_>, cut_managed_fields: bool) -> Read<O> {
        let bytes = RawBytes::Json { raw, text, cut_managed_fields };
        match O::decode(RawObject { header, bytes, origin: &self.origin }) {
            Ok(object) => Read::Fresh(Arc::new(object)),
            Err(error) => undecodable(raw, error),
        }
    }

    fn shared(&self, header: Header) -> Header {
        match self.origin.interner() {
            Some(interner) => interner.header(header),
            None => header,
        }
    }

    fn other_kind(&self, raw: &RawHeader<'_>) -> Option<String> {
        let expected = self.origin.kind();
        let kind = raw.kind.as_deref()?;
        if O::METADATA_ONLY && kind == METADATA_KIND {
            return None;
        }
        let other_version = raw.api_version.as_deref().filter(|version| *version != &*self.api_version);
        if kind == expected.kind() && other_version.is_none() {
            return None;
        }
        Some(format!("{kind} of {}", raw.api_version.as_deref().unwrap_or("no apiVersion")))
    }
}

/// Runs the decoder of one object. If it panics, for example in a `Deserialize` implementation, only this
/// object becomes undecodable; the list or watch continues with the next object.
fn contained<T>(decode: impl FnOnce() -> T) -> Result<T, HeaderError> {
    // The panic message is not part of the error because it may quote values of the object. The panic hook
    // has already printed it.
    catch_unwind(AssertUnwindSafe(decode)).map_err(|_| HeaderError::new("", Problem::DecoderPanicked))
}

/// Returns an undecodable object that was received as protobuf, with its header as far as it could be
/// scanned.
fn set_aside<O, E: std::error::Error + Send + Sync + 'static>(scan: &Scan<'_>, error: E) -> Read<O> {
    let undecodable = Undecodable::new(scan.key().ok(), error);
    Read::Undecodable(undecodable.with_version(scan.uid(), ResourceVersion::from(scan.resource_version())))
}

/// Returns an undecodable object that was received as JSON, with its header as far as it could be scanned.
fn undecodable<O, E: std::error::Error + Send + Sync + 'static>(raw: &RawHeader<'_>, error: E) -> Read<O> {
    let undecodable = Undecodable::new(raw.key().ok(), error).with_version(raw.uid(), raw.version());
    Read::Undecodable(undecodable)
}

#[cfg(test)]
mod tests;
