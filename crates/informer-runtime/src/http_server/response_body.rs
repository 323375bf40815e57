//! The body of a response: bytes, or a stream of unlimited duration.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use informer_http::LongRunning;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// An extension of a response. The server sends the stream after the body of the response, and ends it when
/// the server stops.
#[derive(Clone)]
pub(crate) struct ResponseStream(Arc<Mutex<Option<BoxStream<'static, Bytes>>>>);

pub(super) enum ResponseBody {
    Full(Full<Bytes>),
    Stream(BoxStream<'static, Bytes>),
}

impl ResponseStream {
    #[cfg(feature = "console")]
    pub(crate) fn new(stream: impl futures_util::Stream<Item = Bytes> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(stream.boxed()))))
    }
}

impl ResponseBody {
    /// Replaces the body of a response by its stream, if it has one. The stream ends at `stop`.
    pub(super) fn of(mut response: Response<Bytes>, stop: &CancellationToken) -> Response<Self> {
        let stream = response.extensions_mut().remove::<ResponseStream>();
        let Some(stream) = stream.and_then(|stream| stream.0.lock().take()) else {
            return response.map(|body| Self::Full(Full::new(body)));
        };
        response.extensions_mut().insert(LongRunning);
        let stopped = stop.clone().cancelled_owned();
        response.map(|first| {
            let first = futures_util::stream::iter(Some(first).filter(|first| !first.is_empty()));
            Self::Stream(first.chain(stream.take_until(stopped)).boxed())
        })
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(body) => Pin::new(body).poll_frame(context),
            Self::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(body) => body.is_end_stream(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => body.size_hint(),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
