//! A fake server that sends the same response body to every request, for benchmarks and allocation tests.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use informer_cache::source::{ListPart, ListRequest, ListSource, Listed, SourceContext, VersionMatch};
use informer_client::{Client, Representation};
use informer_core::ResourceVersion;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The number of bytes of each frame of the response body, as in a usual network read.
const FRAME_BYTES: usize = 64 << 10;

pub(crate) fn client(content_type: &'static str, body: &[u8]) -> Client {
    let frames: Vec<Bytes> = body.chunks(FRAME_BYTES).map(Bytes::copy_from_slice).collect();
    let service = tower::service_fn(move |_request| {
        let frames = frames.clone();
        async move {
            let frames = frames.into_iter().map(|frame| Ok::<_, Infallible>(Frame::data(frame)));
            let mut response = Response::new(StreamBody::new(futures_util::stream::iter(frames)));
            response.headers_mut().insert("content-type", HeaderValue::from_static(content_type));
            Ok::<_, Infallible>(response)
        }
    });
    Client::from_service(service, "default")
}

/// Lists the objects of a source.
///
/// # Panics
///
/// Panics if an object is undecodable.
pub(crate) async fn list<O: Representation>(
    source: &impl ListSource<O>,
    context: SourceContext<O>,
) -> Vec<Listed<O>> {
    let request = ListRequest {
        version: ResourceVersion::any(),
        version_match: VersionMatch::Unset,
        limit: None,
        continue_token: None,
        context,
    };
    let (mut parts, mut kept) = (source.list(request).await.expect("a list"), Vec::new());
    while let Some(part) = parts.next().await {
        match part.expect("a good list") {
            ListPart::Items(items) => kept.extend(items),
            ListPart::Undecodable(undecodable) => panic!("{undecodable}"),
            ListPart::Rejected(_) | ListPart::End(_) => {}
        }
    }
    kept
}
