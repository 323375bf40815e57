use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{StreamExt, stream};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};
use http::request;

use crate::http::body::{ApiBody, Chunks};
use crate::http::headers::header;
use crate::http::response::ApiResponse;

/// Maximum size of a response that is not compressed; the same as in kube-apiserver.
const MAX_UNCOMPRESSED_BYTES: usize = 128 << 10;
/// The gzip compression level; the same as in kube-apiserver.
const LEVEL: Compression = Compression::fast();

/// Returns true if the `Accept-Encoding` header contains `gzip`. As in kube-apiserver, an entry with a
/// quality value (`gzip;q=1`) does not count.
pub(crate) fn is_accepted(head: &request::Parts) -> bool {
    header(head, ACCEPT_ENCODING).split(',').any(|token| token.trim() == "gzip")
}

pub(crate) async fn compress_large(response: ApiResponse) -> ApiResponse {
    let (mut head, body) = response.into_parts();
    let (body, large) = body.exceeds(MAX_UNCOMPRESSED_BYTES).await;
    if !large {
        return ApiResponse::from_parts(head, body);
    }
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    ApiResponse::from_parts(head, body.map_chunks(compress))
}

fn compress(chunks: Chunks) -> Chunks {
    let state = (chunks, Some(GzEncoder::new(Vec::new(), LEVEL)));
    let output = stream::unfold(state, |(mut chunks, encoder)| async move {
        let mut encoder = encoder?;
        loop {
            let written = match chunks.next().await {
                None => encoder.finish().map(|last| (last, None)),
                // The body failed, so the gzip trailer is not sent. The client detects the truncation by the
                // missing trailer.
                Some(Err(broken)) => return Some((Err(broken), (chunks, None))),
                Some(Ok(chunk)) => encoder.write_all(&chunk).map(|()| {
                    let piece = std::mem::take(encoder.get_mut());
                    (piece, Some(encoder))
                }),
            };
            let (piece, next) = written.expect("writing to memory does not fail");
            match next {
                Some(same) if piece.is_empty() => encoder = same,
                next => return Some((Ok(Bytes::from(piece)), (chunks, next))),
            }
        }
    });
    output.boxed()
}

impl ApiBody {
    /// Returns the same body, and true if its size exceeds `bytes`.
    async fn exceeds(self, bytes: usize) -> (Self, bool) {
        let mut chunks = match self.into_chunks() {
            Ok(whole) => {
                let long = whole.len() > bytes;
                return (Self::whole(whole), long);
            }
            Err(chunks) => chunks,
        };
        let (mut buffered, mut length) = (Vec::new(), 0);
        while length <= bytes
            && let Some(chunk) = chunks.next().await
        {
            length += chunk.as_ref().map_or(0, Bytes::len);
            buffered.push(chunk);
        }
        (Self::chunks(stream::iter(buffered).chain(chunks).boxed()), length > bytes)
    }

    fn map_chunks(self, with: impl FnOnce(Chunks) -> Chunks) -> Self {
        let chunks =
            self.into_chunks().map_or_else(|chunks| chunks, |whole| stream::iter([Ok(whole)]).boxed());
        Self::chunks(with(chunks))
    }
}
