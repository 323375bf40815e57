//! Reads of single objects, decoded as the objects of a list are.

use std::sync::Arc;
use std::time::Duration;

use informer_cache::source::{SourceContext, SourceError, SourceErrorKind};
use informer_core::ObjectKey;
use informer_schema::Envelope;

use super::objects::{ObjectReader, Read};
use super::response::{EncodedBody, protocol};
use super::{KubeListWatch, query, watch};
use crate::Representation;
use crate::object::Encoding;
use crate::scan::Cursor;

impl<O: Representation> KubeListWatch<O> {
    /// Reads one object from the API server; `None` if it does not exist. The object is decoded and pruned as
    /// those of a list are, with the same encodings.
    ///
    /// The read is consistent: it returns the newest state, or a later one. Namespace and selectors of this
    /// source and its prefilter do not apply. A kind that the server does not serve has no objects.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails or the object cannot be decoded.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn get(&self, key: &ObjectKey) -> Result<Option<Arc<O>>, SourceError> {
        let attempt = format!("get {} {key}", self.kind.resource());
        let namespace = key.namespace().filter(|_| !self.kind.is_cluster_scoped());
        let path = format!("{}/{}", query::path(&self.kind.gvr(), namespace), query::escaped(key.name()));
        let accept = if O::METADATA_ONLY { query::METADATA } else { query::OBJECTS };
        let (response, wire) = match self.open_at(&attempt, (&path, ""), accept).await {
            Err(error) if error.kind() == SourceErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let context = SourceContext::default();
        let origin = self.origin(&context, wire);
        let mut objects = ObjectReader::new(origin, self.options.pruning.clone(), context);
        let encoding = response.encoding;
        let body = self.whole(&attempt, response).await?;
        match read(&mut objects, encoding, &body).map_err(|problem| protocol(&attempt, problem))? {
            Read::Fresh(object) | Read::Known(object) => Ok(Some(object)),
            // The reader has no prefilter.
            Read::Rejected(_) => Err(protocol(&attempt, "the prefilter rejected the object")),
            Read::OtherKind(other) => Err(protocol(&attempt, format_args!("the response is {other}"))),
            Read::Undecodable(undecodable) => {
                let text = format!("{attempt}: the object cannot be decoded");
                Err(SourceError::new(SourceErrorKind::Protocol, text).with_cause(undecodable.to_string()))
            }
        }
    }

    /// Reads a response body that contains one object.
    async fn whole(&self, attempt: &str, mut response: EncodedBody) -> Result<Vec<u8>, SourceError> {
        let (idle, max) = (self.options.list_idle_timeout, self.options.limits.object_bytes);
        let mut body = Vec::new();
        loop {
            let frame = tokio::time::timeout(idle, response.body.next_frame()).await;
            let Some(frame) = frame
                .map_err(|_| silent(attempt, idle))?
                .map_err(|error| error.into_source_error(attempt))?
            else {
                return Ok(body);
            };
            body.extend_from_slice(&frame);
            if body.len() > max {
                return Err(protocol(attempt, format_args!("the object has more than {max} bytes")));
            }
        }
    }
}

fn silent(attempt: &str, idle: Duration) -> SourceError {
    let text = format!("{attempt}: the response was silent for {idle:?}");
    SourceError::new(SourceErrorKind::Timeout, text)
}

fn read<O: Representation>(
    objects: &mut ObjectReader<O>,
    encoding: Encoding,
    body: &[u8],
) -> Result<Read<O>, String> {
    match encoding {
        Encoding::Json => {
            let text = std::str::from_utf8(body).map_err(|_| "the object is not UTF-8".to_owned())?;
            Ok(objects.read_text(text, Cursor::new(text), false).read)
        }
        Encoding::Protobuf => {
            let envelope = Envelope::parse(body).map_err(|error| error.problem().to_string())?;
            Ok(match watch::other_kind(&envelope, objects) {
                Some(other) => Read::OtherKind(other),
                None => objects.read_message(envelope.raw, false),
            })
        }
    }
}
