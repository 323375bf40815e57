//! Reads the metadata that a cache needs from the protobuf bytes of an object, without decoding the object.

mod cut;

use std::borrow::Cow;

use informer_core::{FieldPath, Header, ObjectKey, OwnerReference, ParseKeyError};
use thiserror::Error;

use crate::error::{Problem, TranscodeError};
use crate::schema::MessageId;
use crate::schema::field::{Base, FieldData, Shape};
use crate::schema::kind::KindSchema;
use crate::text::{self, Tape};
use crate::time;
use crate::transcode::view::{MessageView, Pieces, View, occurrences};
use crate::wire::{Raw, each_field};

// Protobuf field numbers of `metadata` in an object and of the fields of `metadata`. The numbers are the same
// in every kind; a test compares them with the schema table.
const METADATA: u32 = 1;
const NAME: u32 = 1;
const NAMESPACE: u32 = 3;
const UID: u32 = 5;
const RESOURCE_VERSION: u32 = 6;
const GENERATION: u32 = 7;
const CREATION_TIMESTAMP: u32 = 8;
const DELETION_TIMESTAMP: u32 = 9;
const LABELS: u32 = 11;
const ANNOTATIONS: u32 = 12;
const OWNERS: u32 = 13;
const FINALIZERS: u32 = 14;
const MANAGED_FIELDS: u32 = 17;
/// The fields of `metadata` that are usually equal in all objects created from one template, such as the pods
/// of a Deployment. A cache can store their bytes once for all these objects.
const TEMPLATED: [u32; 3] = [LABELS, ANNOTATIONS, OWNERS];

/// The decoded metadata of a header that [`Scan`] holds only as bytes.
struct HeaderParts<'a> {
    labels: Vec<(&'a str, &'a str)>,
    owners: Vec<OwnerReference>,
    deletion: Option<Box<str>>,
}

/// The bytes of a protobuf object without its envelope, and the result of scanning its `metadata`.
///
/// ```
/// use informer_core::Object;
/// use informer_schema::{Envelope, Scan, Schema};
///
/// let json = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"d","name":"a","labels":{"app":"web"}}}"#;
/// let wire = Schema::builtin().to_protobuf(json)?;
/// let scan = Scan::of(Envelope::parse(&wire)?.raw)?;
/// let header = scan.header()?;
/// assert_eq!(header.key().as_str(), "d/a");
/// assert_eq!(header.labels().get("app"), Some("web"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    object: &'a [u8],
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    version: &'a str,
    generation: i64,
    deletion: Option<&'a [u8]>,
    managed: bool,
}

/// The error of reading the header of a protobuf object.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProtobufHeaderError {
    /// The bytes are not a protobuf object, or labels or owners cannot be read.
    #[error("cannot read the labels or owners of an object")]
    Wire(#[source] TranscodeError),
    /// The object has no name, or its name or namespace is invalid.
    #[error("the object has no valid key")]
    Key(#[source] ParseKeyError),
}

fn failed(problem: Problem) -> TranscodeError {
    TranscodeError {
        operation: "read",
        kind: "the metadata of an object".to_owned(),
        path: String::new(),
        problem,
    }
}

impl<'a> Scan<'a> {
    /// Scans the metadata of an object and skips its other fields.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a protobuf message, or a field of the metadata has an unexpected
    /// type.
    pub fn of(object: &'a [u8]) -> Result<Self, TranscodeError> {
        let (scan, error) = Self::partial(object);
        error.map_or(Ok(scan), Err)
    }

    /// Like [`of`](Self::of), but also returns the metadata that was read before an error. Namespace and
    /// name, which usually precede the invalid bytes, identify the object that cannot be decoded.
    pub fn partial(object: &'a [u8]) -> (Self, Option<TranscodeError>) {
        let mut scan = Self {
            object,
            name: "",
            namespace: "",
            uid: "",
            version: "",
            generation: 0,
            deletion: None,
            managed: false,
        };
        let read = each_field(object, |number, raw| match number {
            METADATA => each_field(raw.bytes()?, |number, raw| scan.field(number, raw)),
            _ => Ok(()),
        });
        (scan, read.err().map(failed))
    }

    fn field(&mut self, number: u32, raw: Raw<'a>) -> Result<(), Problem> {
        match number {
            NAME => self.name = raw.text()?,
            NAMESPACE => self.namespace = raw.text()?,
            UID => self.uid = raw.text()?,
            RESOURCE_VERSION => self.version = raw.text()?,
            GENERATION => self.generation = raw.varint()?.cast_signed(),
            DELETION_TIMESTAMP => self.deletion = Some(raw.bytes()?),
            MANAGED_FIELDS => self.managed = true,
            _ => {}
        }
        Ok(())
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns `metadata.namespace`; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &'a str {
        self.namespace
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &'a str {
        self.uid
    }

    /// Returns `metadata.resourceVersion`.
    pub fn resource_version(&self) -> &'a str {
        self.version
    }

    /// Returns true if the object has managed fields.
    pub fn has_managed_fields(&self) -> bool {
        self.managed
    }

    /// Returns namespace and name of the object as a key.
    ///
    /// # Errors
    ///
    /// Returns an error if the object has no name, or if its name or namespace is invalid.
    pub fn key(&self) -> Result<ObjectKey, ProtobufHeaderError> {
        let key = match self.namespace {
            "" => ObjectKey::cluster(self.name),
            namespace => ObjectKey::new(namespace, self.name),
        };
        key.map_err(ProtobufHeaderError::Key)
    }

    /// Returns `metadata.creationTimestamp` as in JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes of the timestamp are invalid.
    pub fn creation_timestamp(&self) -> Result<Option<Box<str>>, TranscodeError> {
        let mut found = None;
        self.metadata(|number, raw| {
            if number == CREATION_TIMESTAMP {
                found = instant(raw.bytes()?)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns `metadata.annotations`, in the order of the protobuf message.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes of an annotation are invalid.
    pub fn annotations(&self) -> Result<Vec<(&'a str, &'a str)>, TranscodeError> {
        self.entries(ANNOTATIONS)
    }

    /// Returns one label, read from the bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes of a label are invalid.
    pub fn label(&self, name: &str) -> Result<Option<&'a str>, TranscodeError> {
        self.entry(LABELS, name)
    }

    /// Returns `metadata.labels`, in the order of the protobuf message.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes of a label are invalid.
    pub fn labels(&self) -> Result<Vec<(&'a str, &'a str)>, TranscodeError> {
        self.entries(LABELS)
    }

    /// Returns one annotation, read from the bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes of an annotation are invalid.
    pub fn annotation(&self, name: &str) -> Result<Option<&'a str>, TranscodeError> {
        self.entry(ANNOTATIONS, name)
    }

    /// Returns `metadata.ownerReferences`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes of an owner are invalid.
    pub fn owners(&self) -> Result<Vec<OwnerReference>, TranscodeError> {
        let mut found = Vec::new();
        self.metadata(|number, raw| {
            if number == OWNERS {
                found.push(owner(raw.bytes()?)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns `metadata.finalizers`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes of a finalizer are invalid.
    pub fn finalizers(&self) -> Result<Vec<&'a str>, TranscodeError> {
        let mut found = Vec::new();
        self.metadata(|number, raw| {
            if number == FINALIZERS {
                found.push(raw.text()?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the entries of a map in `metadata`.
    fn entries(&self, map: u32) -> Result<Vec<(&'a str, &'a str)>, TranscodeError> {
        let mut found = Vec::new();
        self.metadata(|number, raw| {
            if number == map {
                found.push(label(raw.bytes()?)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns the value of one entry of a map in `metadata`. Of duplicate keys the last one wins.
    fn entry(&self, map: u32, name: &str) -> Result<Option<&'a str>, TranscodeError> {
        let mut found = None;
        self.metadata(|number, raw| {
            if number == map {
                let (key, value) = label(raw.bytes()?)?;
                if key == name {
                    found = Some(value);
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn metadata(
        &self,
        mut field: impl FnMut(u32, Raw<'a>) -> Result<(), Problem>,
    ) -> Result<(), TranscodeError> {
        let read = each_field(self.object, |number, raw| match number {
            METADATA => each_field(raw.bytes()?, &mut field),
            _ => Ok(()),
        });
        read.map_err(failed)
    }

    /// Returns the metadata that a cache stores next to the bytes of the object.
    ///
    /// # Errors
    ///
    /// Returns an error if labels or owners are invalid, or if name and namespace are not a valid key.
    pub fn header(&self) -> Result<Header, ProtobufHeaderError> {
        let key = self.key()?;
        let parts = self.header_parts().map_err(|problem| ProtobufHeaderError::Wire(failed(problem)))?;
        let HeaderParts { labels, owners, deletion } = parts;
        Ok(Header::new(key)
            .with_uid(self.uid)
            .with_version(self.version)
            .with_generation((self.generation != 0).then_some(self.generation))
            .with_deletion_timestamp(deletion)
            .with_labels(labels)
            .with_owners(owners))
    }

    fn header_parts(&self) -> Result<HeaderParts<'a>, Problem> {
        let (mut labels, mut owners) = (Vec::new(), Vec::new());
        each_field(self.object, |number, raw| match number {
            METADATA => each_field(raw.bytes()?, |number, raw| {
                match number {
                    LABELS => labels.push(label(raw.bytes()?)?),
                    OWNERS => owners.push(owner(raw.bytes()?)?),
                    _ => {}
                }
                Ok(())
            }),
            _ => Ok(()),
        })?;
        let deletion = self.deletion.map(instant).transpose()?.flatten();
        Ok(HeaderParts { labels, owners, deletion })
    }

    /// Returns the object without `metadata.managedFields`. All other bytes are unchanged.
    ///
    /// # Errors
    ///
    /// Never returns an error for bytes that [`Scan::of`] accepted. The result type exists because the bytes
    /// are parsed again.
    pub fn without_managed_fields(&self) -> Result<Cow<'a, [u8]>, TranscodeError> {
        if self.managed {
            cut::without(self.object, &[MANAGED_FIELDS]).map(Cow::Owned).map_err(failed)
        } else {
            Ok(Cow::Borrowed(self.object))
        }
    }

    /// Returns the bytes of labels, annotations and owners, in this order. These fields are usually equal in
    /// all objects of one workload, so a cache can store their bytes once. An element is `None` if the field
    /// is absent or its entries are not contiguous.
    ///
    /// ```
    /// use informer_core::Object;
    /// use informer_schema::{Envelope, Scan, Schema};
    ///
    /// let json = br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"app":"web"}}}"#;
    /// let wire = Schema::builtin().to_protobuf(json)?;
    /// let object = Envelope::parse(&wire)?.raw;
    /// let scan = Scan::of(object)?;
    /// let [labels, annotations, _] = scan.templated()?;
    /// assert_eq!(annotations, None);
    ///
    /// let own = scan.without_templated([true, false, false])?;
    /// assert!(Scan::of(&own)?.header()?.labels().is_empty());
    /// let labels = Scan::object_of_metadata(labels.ok_or("it has labels")?);
    /// assert_eq!(Scan::with_metadata_of(&own, [labels.as_slice()])?, object);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Never returns an error for bytes that [`Scan::of`] accepted.
    pub fn templated(&self) -> Result<[Option<&'a [u8]>; 3], TranscodeError> {
        cut::runs(self.object, TEMPLATED).map_err(failed)
    }

    /// Returns the object without `metadata.managedFields`, and without those of its labels, annotations and
    /// owners (in this order) for which `chosen` is true.
    ///
    /// # Errors
    ///
    /// Never returns an error for bytes that [`Scan::of`] accepted.
    pub fn without_templated(&self, chosen: [bool; 3]) -> Result<Vec<u8>, TranscodeError> {
        let mut unwanted = [MANAGED_FIELDS; 4];
        for ((place, number), chosen) in unwanted.iter_mut().zip(TEMPLATED).zip(chosen) {
            *place = if chosen { number } else { MANAGED_FIELDS };
        }
        cut::without(self.object, &unwanted).map_err(failed)
    }

    /// Returns the bytes of an object whose `metadata` consists of `fields`, which must be one element of the
    /// result of [`templated`](Self::templated).
    pub fn object_of_metadata(fields: &[u8]) -> Vec<u8> {
        cut::object(fields)
    }

    /// Returns the object with the `metadata` fields of other objects appended to its own `metadata`. This
    /// restores the fields that [`without_templated`](Self::without_templated) removed.
    ///
    /// # Errors
    ///
    /// Returns an error if one of the objects is not a protobuf message.
    pub fn with_metadata_of<'b>(
        object: &[u8],
        others: impl IntoIterator<Item = &'b [u8], IntoIter: Clone>,
    ) -> Result<Vec<u8>, TranscodeError> {
        cut::join(object, others.into_iter()).map_err(failed)
    }
}

fn label(entry: &[u8]) -> Result<(&str, &str), Problem> {
    let (mut key, mut value) = ("", "");
    each_field(entry, |number, raw| {
        match number {
            1 => key = raw.text()?,
            2 => value = raw.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

fn owner(data: &[u8]) -> Result<OwnerReference, Problem> {
    let (mut kind, mut name, mut uid, mut api_version, mut controller) = ("", "", "", "", false);
    each_field(data, |number, raw| {
        match number {
            1 => kind = raw.text()?,
            3 => name = raw.text()?,
            4 => uid = raw.text()?,
            5 => api_version = raw.text()?,
            6 => controller = raw.varint()? != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok(OwnerReference::new(api_version, kind, name, uid, controller))
}

fn instant(data: &[u8]) -> Result<Option<Box<str>>, Problem> {
    let mut seconds = 0;
    each_field(data, |number, raw| {
        if number == 1 {
            seconds = raw.varint()?.cast_signed();
        }
        Ok(())
    })?;
    if data.is_empty() || seconds == time::ZERO {
        return Ok(None);
    }
    let mut text = Vec::with_capacity(20);
    time::write(&mut text, seconds, None);
    String::from_utf8(text).map(|text| Some(text.into())).map_err(|_| Problem::Utf8)
}

impl KindSchema<'_> {
    /// Returns the scalar at `path` as a string, read from a message of this kind without decoding the
    /// message. The string equals the one in [`message_to_json`](Self::message_to_json). Returns `None` if
    /// the value is absent, an object or a list.
    ///
    /// ```
    /// use informer_schema::{Envelope, Schema};
    ///
    /// let schema = Schema::builtin();
    /// let wire = schema.to_protobuf(br#"{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n1"}}"#)?;
    /// let envelope = Envelope::parse(&wire)?;
    /// let pod = schema.kind_by_api_version("v1", "Pod").ok_or("no such kind")?;
    /// assert_eq!(pod.scalar(envelope.raw, &"spec.nodeName".parse()?)?.as_deref(), Some("n1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if bytes on the path are invalid.
    pub fn scalar<'a>(self, raw: &'a [u8], path: &FieldPath) -> Result<Option<Cow<'a, str>>, TranscodeError> {
        self.scalar_at(raw, path.segments())
    }

    /// Like [`scalar`](Self::scalar), but takes the path as a list of segments. Unlike in a [`FieldPath`], a
    /// segment may contain any character.
    ///
    /// # Errors
    ///
    /// Returns an error if bytes on the path are invalid.
    pub fn scalar_at<'a, 'p>(
        self,
        raw: &'a [u8],
        path: impl IntoIterator<Item = &'p str>,
    ) -> Result<Option<Cow<'a, str>>, TranscodeError> {
        let message = MessageView::new(self.schema, self.data.message, raw);
        let found = walk(View::Message(message), path.into_iter());
        found.map_err(|fault| fault.into_error("read", self.describe()))
    }
}

fn walk<'a, 'p>(
    mut view: View<'_, 'a>,
    path: impl Iterator<Item = &'p str>,
) -> Result<Option<Cow<'a, str>>, crate::error::Fault> {
    let mut path = path.peekable();
    while path.peek().is_some() {
        let next = match view {
            View::Json(json) => return Ok(in_json(json, path)?),
            View::Message(message) => Some(member(&message, &mut path)),
            View::Map(entries) => path.next().map(|name| entries.get(name)),
            _ => None,
        };
        match next.transpose()?.flatten() {
            Some(found) => view = found,
            None => return Ok(None),
        }
    }
    Ok(match view {
        View::Text(text) => Some(text),
        View::Bool(value) => Some(value.to_string().into()),
        View::Integer(value) => Some(value.to_string().into()),
        View::Double(value) => {
            let mut out = Vec::new();
            text::write_double(&mut out, value)?;
            Some(String::from_utf8_lossy(&out).into_owned().into())
        }
        View::Json(json) => in_json(json, std::iter::empty())?,
        View::Null | View::Message(_) | View::List(_) | View::Map(_) => None,
    })
}

type Step<'s, 'a> = Result<Option<View<'s, 'a>>, crate::error::Fault>;

/// Returns the value of the next path segment, which may be a field of an embedded Go struct. For a map, the
/// path segment with the key is consumed, too. No memory is allocated if every field occurs once, as servers
/// write it.
fn member<'s, 'a, 'p>(
    message: &MessageView<'s, 'a>,
    path: &mut std::iter::Peekable<impl Iterator<Item = &'p str>>,
) -> Step<'s, 'a> {
    let Some(name) = path.peek().copied() else { return Ok(None) };
    for field in message.fields() {
        if let (true, Base::Message(id)) = (field.flags.inline, field.base) {
            if let Some(found) = member(&embedded(message, field, id)?, path)? {
                return Ok(Some(found));
            }
        } else if field.name == name {
            path.next();
            let number = u32::from(field.number);
            if let (Shape::Map, Some(key)) = (field.shape, path.peek().copied()) {
                path.next();
                return message.entry(field, key);
            }
            return match occurrence(&message.pieces, number)? {
                Occurrence::Many => message.view(field, &occurrences(&message.pieces, number)?),
                Occurrence::Absent => message.view(field, &[]),
                Occurrence::One(raw) => message.view(field, &[(0, raw)]),
            };
        }
    }
    Ok(None)
}

/// The occurrences of one field in a message. This enum avoids the allocation of a list for a field that
/// occurs at most once.
enum Occurrence<'a> {
    Absent,
    One(Raw<'a>),
    Many,
}

fn occurrence<'a>(pieces: &Pieces<'a>, number_wanted: u32) -> Result<Occurrence<'a>, Problem> {
    let mut found = Occurrence::Absent;
    for piece in pieces.as_slice() {
        each_field(piece, |number, raw| {
            if number == number_wanted {
                found =
                    if matches!(found, Occurrence::Absent) { Occurrence::One(raw) } else { Occurrence::Many };
            }
            Ok(())
        })?;
    }
    Ok(found)
}

fn embedded<'s, 'a>(
    message: &MessageView<'s, 'a>,
    field: &FieldData,
    id: MessageId,
) -> Result<MessageView<'s, 'a>, Problem> {
    debug_assert_eq!(field.shape, Shape::Value, "embedded types are not pointers");
    let number = u32::from(field.number);
    let found = if number == 0 { Occurrence::Absent } else { occurrence(&message.pieces, number)? };
    let pieces = match found {
        Occurrence::Absent => Pieces::None,
        Occurrence::One(raw) => Pieces::One(raw.bytes()?),
        Occurrence::Many => {
            let raws = occurrences(&message.pieces, number)?;
            Pieces::Many(raws.iter().map(|(_, raw)| raw.bytes()).collect::<Result<_, _>>()?)
        }
    };
    Ok(MessageView { schema: message.schema, id, pieces, depth: message.depth + 1 })
}

fn in_json<'a, 'p>(
    json: &'a [u8],
    path: impl Iterator<Item = &'p str>,
) -> Result<Option<Cow<'a, str>>, Problem> {
    let tape = Tape::parse(json)?;
    let mut at = tape.root();
    for name in path {
        let found = (tape.kind(at) == text::JsonKind::Object).then(|| tape.member(at, name)).flatten();
        let Some(found) = found else { return Ok(None) };
        at = found;
    }
    Ok(match tape.kind(at) {
        text::JsonKind::String => tape.string(at),
        text::JsonKind::True | text::JsonKind::False | text::JsonKind::Number => Some(tape.slice(at).into()),
        _ => None,
    })
}
