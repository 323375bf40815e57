use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use informer_cache::source::{SourceError, SourceErrorKind};

use super::BoxError;

/// The body of an HTTP response, read while it arrives.
pub struct ResponseBody {
    body: UnsyncBoxBody<Bytes, BoxError>,
    /// While this reference exists, the connection pool counts the request as an open HTTP/2 stream. It is
    /// dropped with the response body.
    _stream: Option<Arc<()>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the response was cut off")]
pub(crate) struct BodyError(#[source] BoxError);

impl ResponseBody {
    /// Wraps the body of any HTTP response, so that all bodies have the same type.
    pub fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self { body: body.map_err(Into::into).boxed_unsync(), _stream: None }
    }

    pub(super) fn holding(mut self, stream: Arc<()>) -> Self {
        self._stream = Some(stream);
        self
    }

    /// Returns the next non-empty data frame of the response body, or `None` at the end of the body.
    pub(crate) async fn next_frame(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.map_err(BodyError)?.into_data()
                        && !data.is_empty()
                    {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Reads at most the first `bytes_max` bytes of the body. If reading fails, returns the bytes received
    /// before the error.
    pub(crate) async fn read_up_to(&mut self, bytes_max: usize) -> Vec<u8> {
        let mut read = Vec::new();
        while read.len() < bytes_max
            && let Ok(Some(frame)) = self.next_frame().await
        {
            read.extend_from_slice(&frame[..frame.len().min(bytes_max - read.len())]);
        }
        read
    }
}

impl BodyError {
    pub(crate) fn new(cause: BoxError) -> Self {
        Self(cause)
    }

    pub(crate) fn into_source_error(self, attempt: &str) -> SourceError {
        let io = self.0.downcast_ref::<std::io::Error>();
        let kind = match io.map(std::io::Error::kind) {
            Some(std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput) => {
                SourceErrorKind::Protocol
            }
            _ => SourceErrorKind::Connection,
        };
        SourceError::new(kind, format!("{attempt}: {self}")).with_cause(self.0)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
