//! The typed view of an object while a caller holds it.
//!
//! # Lock order
//!
//! The lock of a view is the only lock. While it is locked, no object is decompressed or decoded, because
//! decoding runs code of the type `K`. No view is added to the view cache either, because that takes another
//! lock.

use std::sync::{Arc, Weak};

use informer_core::Header;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::stored::ReadBody;
use super::{DecodeError, Origin};

/// A weak reference to the typed view of one object. It keeps no view alive: if views are cached, the cache
/// of the source owns them.
pub(super) struct HeldView<K>(Mutex<Weak<K>>);

impl<K: DeserializeOwned + Send + Sync + 'static> HeldView<K> {
    /// Returns the view that a caller still holds; otherwise decodes the body. An error is reported to the
    /// informer of the object.
    pub(super) fn get(
        &self,
        body: &impl ReadBody,
        origin: &Origin,
        header: &Header,
    ) -> Result<Arc<K>, DecodeError> {
        if let Some(view) = self.0.lock().upgrade() {
            return Ok(view);
        }
        self.decode(body, origin, header).inspect_err(|error| origin.report(header, error))
    }

    fn decode(&self, body: &impl ReadBody, origin: &Origin, header: &Header) -> Result<Arc<K>, DecodeError> {
        body.with(origin, header, |body| {
            let decoded = Arc::new(body.decode(origin, header)?);
            let mut view = self.0.lock();
            if let Some(first) = view.upgrade() {
                return Ok(first);
            }
            *view = Arc::downgrade(&decoded);
            drop(view);
            origin.keep(&decoded, body);
            Ok(decoded)
        })?
    }
}

impl<K> Default for HeldView<K> {
    fn default() -> Self {
        Self(Mutex::new(Weak::new()))
    }
}
