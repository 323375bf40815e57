//! Objects of unknown type.

use std::sync::Arc;

use informer_core::Object;

/// An object of unknown type. Its metadata, [scalar fields](Object::field) and [JSON](Object::json) can be read,
/// and `downcast` returns it as its type, such as `Lazy<Pod>`.
pub type AnyObject = Arc<dyn Object>;
