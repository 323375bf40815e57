use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http_body::{Body, Frame};

use super::{BoxError, ResponseBody};

/// Number of compressed bytes that are inflated in one step. A small number bounds the memory of the output,
/// because gzip compresses up to 1000:1.
const STEP_BYTES: usize = 4 << 10;

/// Inflates a gzip-compressed response body while it arrives. The body can have any number of gzip members; a
/// watch response has one for each event.
pub(super) struct GzipBody {
    body: ResponseBody,
    decoder: MultiGzDecoder<Vec<u8>>,
    waiting: Bytes,
    /// True once a byte of the body has arrived. An empty body is valid, although it contains no gzip member.
    begun: bool,
    ended: bool,
}

impl GzipBody {
    pub(super) fn new(body: ResponseBody) -> Self {
        let decoder = MultiGzDecoder::new(Vec::new());
        Self { body, decoder, waiting: Bytes::new(), begun: false, ended: false }
    }

    fn inflate(&mut self) -> io::Result<Bytes> {
        let step = self.waiting.len().min(STEP_BYTES);
        let used = self.decoder.write(&self.waiting[..step])?;
        if used == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "gzip: the decoder accepts no more data"));
        }
        self.waiting.advance(used);
        self.decoder.flush()?;
        Ok(std::mem::take(self.decoder.get_mut()).into())
    }

    fn finish(&mut self) -> io::Result<Bytes> {
        self.ended = true;
        if self.begun {
            self.decoder.try_finish()?;
        }
        Ok(std::mem::take(self.decoder.get_mut()).into())
    }
}

impl Body for GzipBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let inflated = if !self.waiting.is_empty() {
                self.inflate()
            } else if self.ended {
                return Poll::Ready(None);
            } else {
                match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Some(Ok(frame)) => {
                        self.waiting = frame.into_data().unwrap_or_default();
                        self.begun |= !self.waiting.is_empty();
                        continue;
                    }
                    None => self.finish(),
                }
            };
            match inflated {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Err(error) => {
                    (self.ended, self.waiting) = (true, Bytes::new());
                    return Poll::Ready(Some(Err(error.into())));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
