use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::Stream;
use futures_util::StreamExt;
use http_body::{Body, Frame, SizeHint};
use informer_http::{ResetFlag, Serving};

use crate::clock::Clock;
use crate::faults::{BodyEnd, BodyPosition, Trickle};
use crate::http::list_body::{Batch, Batches};

/// Maximum size of a body with a `Content-Length` header. As in kube-apiserver, longer bodies are chunked.
const MAX_CONTENT_LENGTH: usize = 2048;

pub(crate) type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, BrokenOff>> + Send>>;

/// The body of a response of the API server.
///
/// The body is one frame for an object or an error, and several frames for a long list. A watch yields a
/// frame for each event or group of events, and is pending while no event is available.
pub struct ApiBody {
    inner: Inner,
    /// The flag that is set when the body fails with [`BrokenOff`]. The connection then sends a reset.
    reset: Option<ResetFlag>,
}

enum Inner {
    Whole(Option<Bytes>),
    Chunks(Chunks),
    /// Batches of list items, which are joined only if the consumer needs contiguous bytes.
    Batches(Batches),
}

pub(crate) enum BodyPart {
    Bytes(Bytes),
    Batch(Batch),
}

/// The error of a response body that an injected fault has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was reset by an injected fault")]
pub struct BrokenOff;

impl ApiBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { inner: Inner::Whole(Some(bytes.into())), reset: None }
    }

    pub(crate) fn none() -> Self {
        Self { inner: Inner::Whole(None), reset: None }
    }

    pub(crate) fn chunks(chunks: Chunks) -> Self {
        Self { inner: Inner::Chunks(chunks), reset: None }
    }

    pub(crate) fn batches(batches: Batches) -> Self {
        Self { inner: Inner::Batches(batches), reset: None }
    }

    pub(crate) async fn into_bytes(self) -> Result<Bytes, BrokenOff> {
        match self.inner {
            Inner::Whole(bytes) => Ok(bytes.unwrap_or_default()),
            Inner::Chunks(mut chunks) => {
                let mut all = BytesMut::new();
                while let Some(chunk) = chunks.next().await {
                    all.extend_from_slice(&chunk?);
                }
                Ok(all.freeze())
            }
            Inner::Batches(batches) => {
                let mut all = BytesMut::new();
                batches.for_each(|batch| all.put(batch));
                Ok(all.freeze())
            }
        }
    }

    /// Returns the bytes of the body if all are available, or else `Err` with the stream of its chunks.
    pub(crate) fn into_chunks(self) -> Result<Bytes, Chunks> {
        match self.inner {
            Inner::Whole(bytes) => Ok(bytes.unwrap_or_default()),
            Inner::Chunks(chunks) => Err(chunks),
            Inner::Batches(batches) => Err(join_batches(batches)),
        }
    }

    /// Adds the flag that is set when the body fails, so that the connection is reset.
    pub(crate) fn with_reset_flag(mut self, reset: Option<ResetFlag>) -> Self {
        self.reset = reset;
        self
    }

    pub(crate) fn with_body_end(self, end: Option<(BodyPosition, BodyEnd)>) -> Self {
        let Some((BodyPosition::Bytes(bytes), end)) = end else { return self };
        let state = (self.into_stream(), bytes, end);
        Self::chunks(Box::pin(futures_util::stream::unfold(state, |(mut chunks, left, end)| async move {
            if left == 0 {
                return match end {
                    BodyEnd::Clean => None,
                    BodyEnd::Lost => Some((Err(BrokenOff), (chunks, left, BodyEnd::Clean))),
                    BodyEnd::Reset => {
                        // Yield once, so that hyper flushes the previous bytes. The reset would otherwise
                        // discard them.
                        tokio::task::yield_now().await;
                        Some((Err(BrokenOff), (chunks, left, BodyEnd::Clean)))
                    }
                    BodyEnd::Stall => std::future::pending().await,
                };
            }
            let mut chunk = chunks.next().await?.ok()?;
            chunk.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            let left = left - chunk.len() as u64;
            Some((Ok(chunk), (chunks, left, end)))
        })))
    }

    pub(crate) fn with_trickle(self, trickle: Option<Trickle>, clock: &Arc<dyn Clock>) -> Self {
        let Some(Trickle { bytes, pause }) = trickle else { return self };
        let state = (self.into_stream(), Bytes::new(), Arc::clone(clock));
        Self::chunks(Box::pin(futures_util::stream::unfold(
            state,
            move |(mut chunks, mut rest, clock)| async move {
                while rest.is_empty() {
                    match chunks.next().await? {
                        Ok(chunk) => rest = chunk,
                        Err(broken) => return Some((Err(broken), (chunks, rest, clock))),
                    }
                }
                clock.sleep_until(clock.elapsed() + pause).await;
                let drop = rest.split_to(rest.len().min(bytes));
                Some((Ok(drop), (chunks, rest, clock)))
            },
        )))
    }

    fn into_stream(self) -> Chunks {
        match self.inner {
            Inner::Whole(bytes) => futures_util::stream::iter(bytes.map(Ok)).boxed(),
            Inner::Chunks(chunks) => chunks,
            Inner::Batches(batches) => join_batches(batches),
        }
    }

    /// Polls for the next part of the body. The segments of a batch are not joined.
    pub(crate) fn poll_part(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyPart, BrokenOff>>> {
        let chunk = match &mut self.inner {
            Inner::Whole(bytes) => bytes.take().map(Ok),
            Inner::Chunks(chunks) => ready!(chunks.as_mut().poll_next(context)),
            Inner::Batches(batches) => {
                return Poll::Ready(batches.next().map(|batch| Ok(BodyPart::Batch(batch))));
            }
        };
        if let (Some(Err(_)), Some(reset)) = (&chunk, &self.reset) {
            reset.set();
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(BodyPart::Bytes)))
    }
}

fn join_batches(batches: Batches) -> Chunks {
    futures_util::stream::iter(batches.map(|batch| Ok(batch.into_bytes()))).boxed()
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        self.poll_part(context).map(|part| {
            let bytes = part?.map(|part| match part {
                BodyPart::Bytes(bytes) => bytes,
                BodyPart::Batch(batch) => batch.into_bytes(),
            });
            Some(bytes.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.inner, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Whole(bytes) => match bytes.as_ref().map_or(0, Bytes::len) {
                length if length <= MAX_CONTENT_LENGTH => SizeHint::with_exact(length as u64),
                _ => SizeHint::default(),
            },
            Inner::Chunks(_) | Inner::Batches(_) => SizeHint::default(),
        }
    }
}

/// A response body for hyper, which writes the segments of a batch to the socket without joining them.
pub(crate) struct SocketBody {
    body: ApiBody,
    _serving: Option<Serving>,
}

impl SocketBody {
    /// The connection is not closed in favor of another one while the body exists.
    pub(crate) fn new(body: ApiBody, serving: Serving) -> Self {
        Self { body, _serving: Some(serving) }
    }

    /// Returns a body that does not mark the connection as serving a request.
    pub(crate) fn unguarded(body: ApiBody) -> Self {
        Self { body, _serving: None }
    }
}

impl Body for SocketBody {
    type Data = Batch;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Batch>, BrokenOff>>> {
        let part = self.body.poll_part(context);
        part.map(|part| {
            let part = part?.map(|part| match part {
                BodyPart::Batch(batch) => batch,
                BodyPart::Bytes(bytes) => bytes.into(),
            });
            Some(part.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for ApiBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.inner {
            Inner::Whole(_) => "ApiBody(whole)",
            Inner::Chunks(_) | Inner::Batches(_) => "ApiBody(chunks)",
        })
    }
}
