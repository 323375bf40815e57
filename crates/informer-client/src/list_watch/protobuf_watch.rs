//! A protobuf watch that fails once a read has needed a field that the built-in protobuf schema does not
//! contain, so that the client must read the kind as JSON. The reflector then lists the kind again, as JSON.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use informer_cache::source::{SourceError, SourceErrorKind, WatchEvent, WatchStream};
use informer_core::Object;

use crate::unknown_fields::UnknownFields;

pub(super) fn encoding_changed(attempt: &str) -> SourceError {
    let text =
        format!("{attempt}: the server sends fields that this version of informer cannot read as protobuf");
    SourceError::new(SourceErrorKind::EncodingChanged, text)
}

struct ProtobufWatch<O> {
    events: WatchStream<O>,
    unknown_fields: Arc<UnknownFields>,
    json_required: BoxFuture<'static, ()>,
    attempt: String,
    is_over: bool,
}

pub(super) fn until_json_is_required<O: Object>(
    events: WatchStream<O>,
    unknown_fields: Arc<UnknownFields>,
    attempt: String,
) -> WatchStream<O> {
    let json_required = Box::pin(unknown_fields.json_required());
    WatchStream::new(ProtobufWatch { events, unknown_fields, json_required, attempt, is_over: false })
}

impl<O: Object> Stream for ProtobufWatch<O> {
    type Item = Result<WatchEvent<O>, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let event = Pin::new(&mut self.events).poll_next(context);
        if event.is_ready() && !(self.unknown_fields.is_found() && self.unknown_fields.requires_json()) {
            return event;
        }
        if event.is_pending() && self.json_required.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.is_over = true;
        Poll::Ready(Some(Err(encoding_changed(&self.attempt))))
    }
}
