use informer_cache::source::ServerStatus;
use informer_core::ResourceVersion;
use informer_schema::{Envelope, Scan, watch_event};

use super::{INITIAL_EVENTS_END, RawEvent};
use crate::Representation;
use crate::list_watch::objects::{METADATA_KIND, ObjectReader, Read};
use crate::list_watch::response;

pub(super) struct ProtobufEvent<'a> {
    event_type: &'a str,
    object: &'a [u8],
}

impl<'a> ProtobufEvent<'a> {
    pub(super) fn parse(event: &'a [u8]) -> Result<Self, &'static str> {
        let (event_type, object) = watch_event(event).map_err(|_| "an event is not protobuf")?;
        Ok(Self { event_type, object })
    }
}

impl RawEvent for ProtobufEvent<'_> {
    fn event_type(&self) -> &str {
        self.event_type
    }

    fn read<O: Representation>(
        &self,
        objects: &mut ObjectReader<O>,
        may_be_known: bool,
    ) -> Result<Read<O>, String> {
        let envelope = Envelope::parse(self.object);
        let envelope = envelope.map_err(|error| format!("the object of an event: {}", error.problem()))?;
        Ok(match other_kind(&envelope, objects) {
            Some(other) => Read::OtherKind(other),
            None => objects.read_message(envelope.raw, may_be_known),
        })
    }

    fn mark(&self) -> Result<(ResourceVersion, bool), String> {
        let envelope = Envelope::parse(self.object);
        let envelope = envelope.map_err(|error| format!("a bookmark: {}", error.problem()))?;
        let (scan, _) = Scan::partial(envelope.raw);
        let annotations = scan.annotations().unwrap_or_default();
        let is_end = annotations.contains(&(INITIAL_EVENTS_END, "true"));
        Ok((ResourceVersion::from(scan.resource_version()), is_end))
    }

    fn status<O: Representation>(&self, objects: &ObjectReader<O>) -> Option<ServerStatus> {
        response::parse(self.object, objects.wire())
    }
}

/// Returns a description of the object in an envelope if it has another kind than the source.
pub(in crate::list_watch) fn other_kind<O: Representation>(
    envelope: &Envelope<'_>,
    objects: &ObjectReader<O>,
) -> Option<String> {
    let metadata = O::METADATA_ONLY && envelope.kind == METADATA_KIND;
    let right = envelope.kind == objects.kind().kind() && envelope.api_version == objects.api_version();
    (!metadata && !right).then(|| format!("{} of {}", envelope.kind, envelope.api_version))
}
