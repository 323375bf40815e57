use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use informer_core::{Object, ObjectKey, ResourceVersion};

use super::{ServerStatus, SourceError};
use crate::Undecodable;

/// One part of a list.
pub enum ListPart<O> {
    /// Listed objects, in the order of the source. The part contains the objects that are available; the
    /// source never waits for more objects to fill a part.
    Items(Vec<Listed<O>>),
    /// An object that could not be decoded. The object exists, so it must not be treated as deleted.
    Undecodable(Undecodable),
    /// The number of listed objects that a filter of the source has rejected. They count as absent.
    Rejected(usize),
    /// The end of the list or page. This part occurs once and is the last one. A list that ends without this
    /// part was cut off.
    End(ListEnd),
}

/// An object of a list, either decoded or taken from the cache.
pub enum Listed<O> {
    /// The object was decoded from the response.
    Fresh(Arc<O>),
    /// The object is unchanged: [`SourceContext::unchanged`](super::SourceContext::unchanged) returned it
    /// from the cache.
    Known(Arc<O>),
}

/// The metadata at the end of a list or of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListEnd {
    /// The resourceVersion of the list, from which a watch continues.
    pub version: ResourceVersion,
    /// The continue token of the next page, if there is one.
    pub continue_token: Option<String>,
    /// The number of objects in later pages, if the source reports that number.
    pub remaining: Option<u64>,
}

/// An event that a watch sent.
pub enum WatchEvent<O> {
    /// An object was created, or a change made it match the selector.
    Added(Arc<O>),
    /// Like [`Added`](Self::Added), but the object is the cached one that
    /// [`SourceContext::unchanged`](super::SourceContext::unchanged) returned. A streaming relist mostly
    /// consists of these events. No transform runs on the object, since the cached one is already
    /// transformed.
    Known(Arc<O>),
    /// An object that matches the selector was changed.
    Modified(Arc<O>),
    /// An object was deleted, or a change made it no longer match the selector. The event contains the last
    /// state, with the version of the deletion.
    Deleted(Arc<O>),
    /// A bookmark: the watch has sent all changes up to this resourceVersion.
    Bookmark {
        /// The resourceVersion that the watch has reached.
        version: ResourceVersion,
        /// True for the bookmark that ends the initial events of a streaming list.
        initial_events_end: bool,
    },
    /// The server reports an error. The watch sends no event after it.
    Error(ServerStatus),
    /// An object was created or changed and could not be decoded. The resourceVersion of this event counts as
    /// received.
    Undecodable(Undecodable),
    /// An object was deleted, and its last state could not be decoded.
    DeletedUndecodable(Undecodable),
    /// An object was created, changed or deleted, and a filter of the source rejected its new state. If the
    /// object is cached, this is a deletion, with the cached state as the last one.
    Rejected {
        /// Namespace and name of the object.
        key: ObjectKey,
        /// The resourceVersion of the rejected state.
        version: ResourceVersion,
    },
    /// An event of an unknown type. The event is skipped. If its object has a resourceVersion, that version
    /// counts as received.
    Unknown {
        /// The type of the event as sent by the server.
        event_type: String,
        /// The resourceVersion of the event's object.
        version: ResourceVersion,
    },
}

impl<O> Listed<O> {
    /// Returns the listed object, whether it was decoded from the response or comes from the cache.
    pub fn object(&self) -> &Arc<O> {
        match self {
            Self::Fresh(object) | Self::Known(object) => object,
        }
    }

    /// Returns the listed object by value.
    pub fn into_object(self) -> Arc<O> {
        match self {
            Self::Fresh(object) | Self::Known(object) => object,
        }
    }
}

impl<O> Clone for Listed<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Fresh(object) => Self::Fresh(Arc::clone(object)),
            Self::Known(object) => Self::Known(Arc::clone(object)),
        }
    }
}

impl<O> Clone for WatchEvent<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(Arc::clone(object)),
            Self::Known(object) => Self::Known(Arc::clone(object)),
            Self::Modified(object) => Self::Modified(Arc::clone(object)),
            Self::Deleted(object) => Self::Deleted(Arc::clone(object)),
            Self::Bookmark { version, initial_events_end } => {
                Self::Bookmark { version: version.clone(), initial_events_end: *initial_events_end }
            }
            Self::Error(status) => Self::Error(status.clone()),
            Self::Undecodable(undecodable) => Self::Undecodable(undecodable.clone()),
            Self::DeletedUndecodable(undecodable) => Self::DeletedUndecodable(undecodable.clone()),
            Self::Rejected { key, version } => Self::Rejected { key: key.clone(), version: version.clone() },
            Self::Unknown { event_type, version } => {
                Self::Unknown { event_type: event_type.clone(), version: version.clone() }
            }
        }
    }
}

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, SourceError>> + Send>>;

/// The parts of a list, in the order in which they arrive. The stream ends with [`ListPart::End`] or with an
/// error.
pub struct ListStream<O>(BoxStream<ListPart<O>>);

/// The events of a watch, in the order in which they arrive.
pub struct WatchStream<O>(BoxStream<WatchEvent<O>>);

impl<O: Object> ListStream<O> {
    /// Creates a list from a stream of its parts.
    pub fn new(parts: impl Stream<Item = Result<ListPart<O>, SourceError>> + Send + 'static) -> Self {
        Self(Box::pin(parts))
    }

    /// Creates a list from objects that are all available already.
    pub fn complete(objects: impl IntoIterator<Item = O>, version: impl Into<ResourceVersion>) -> Self {
        let items = objects.into_iter().map(|object| Listed::Fresh(Arc::new(object))).collect();
        let end = ListEnd { version: version.into(), ..ListEnd::default() };
        Self::new(futures_util::stream::iter([Ok(ListPart::Items(items)), Ok(ListPart::End(end))]))
    }
}

impl<O: Object> WatchStream<O> {
    /// Creates a watch from a stream of its events.
    pub fn new(events: impl Stream<Item = Result<WatchEvent<O>, SourceError>> + Send + 'static) -> Self {
        Self(Box::pin(events))
    }
}

impl<O> Stream for ListStream<O> {
    type Item = Result<ListPart<O>, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<O> Stream for WatchStream<O> {
    type Item = Result<WatchEvent<O>, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<O> fmt::Debug for ListStream<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListStream").finish_non_exhaustive()
    }
}

impl<O> fmt::Debug for WatchStream<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").finish_non_exhaustive()
    }
}

impl<O: Object> fmt::Debug for Listed<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if matches!(self, Self::Fresh(_)) { "Fresh" } else { "Known" };
        write!(f, "{word}({} @{})", self.object().key(), self.object().resource_version())
    }
}

impl<O: Object> fmt::Debug for ListPart<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items(items) => f.debug_tuple("Items").field(items).finish(),
            Self::Undecodable(undecodable) => f.debug_tuple("Undecodable").field(undecodable).finish(),
            Self::Rejected(count) => f.debug_tuple("Rejected").field(count).finish(),
            Self::End(end) => f.debug_tuple("End").field(end).finish(),
        }
    }
}

impl<O: Object> fmt::Debug for WatchEvent<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut object =
            |word: &str, object: &O| write!(f, "{word}({} @{})", object.key(), object.resource_version());
        match self {
            Self::Added(added) => object("Added", added),
            Self::Known(known) => object("Known", known),
            Self::Modified(modified) => object("Modified", modified),
            Self::Deleted(deleted) => object("Deleted", deleted),
            Self::Bookmark { version, initial_events_end: true } => {
                write!(f, "Bookmark(@{version}, initial events end)")
            }
            Self::Bookmark { version, .. } => write!(f, "Bookmark(@{version})"),
            Self::Error(status) => f.debug_tuple("Error").field(status).finish(),
            Self::Undecodable(what) => f.debug_tuple("Undecodable").field(what).finish(),
            Self::DeletedUndecodable(what) => f.debug_tuple("DeletedUndecodable").field(what).finish(),
            Self::Rejected { key, version } => write!(f, "Rejected({key} @{version})"),
            Self::Unknown { event_type, version } => write!(f, "Unknown({event_type:?} @{version})"),
        }
    }
}
