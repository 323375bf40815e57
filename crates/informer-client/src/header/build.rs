use std::borrow::Cow;
use std::ops::Range;

use informer_core::{Header, Labels, ObjectKey, OwnerReference, ResourceVersion};

use super::{HeaderError, MetadataSpans, Problem, RawHeader, string};
use crate::scan::Cursor;

const LABELS: &str = "metadata.labels";
const ANNOTATIONS: &str = "metadata.annotations";

impl RawHeader<'_> {
    /// Returns the key of the object (`namespace/name`) as a string, written into `buffer`; `None` if the
    /// object has no name.
    pub(crate) fn key_text<'b>(&self, buffer: &'b mut String) -> Option<&'b str> {
        let name = self.metadata.name.as_deref().filter(|name| !name.is_empty())?;
        buffer.clear();
        if let Some(namespace) = self.metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty())
        {
            buffer.push_str(namespace);
            buffer.push('/');
        }
        buffer.push_str(name);
        Some(buffer)
    }

    pub(crate) fn key(&self) -> Result<ObjectKey, HeaderError> {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            return Err(HeaderError::new("metadata.name", Problem::Missing));
        }
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        ObjectKey::new(namespace, name)
            .map_err(|error| HeaderError::new("metadata.name", Problem::Key(error.to_string())))
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn version(&self) -> ResourceVersion {
        self.metadata.version.as_deref().map_or_else(ResourceVersion::unset, ResourceVersion::from)
    }

    pub(crate) fn build(&self, text: &str) -> Result<Header, HeaderError> {
        let metadata = &self.metadata;
        let mut header = Header::new(self.key()?)
            .with_uid(self.uid())
            .with_version(self.version())
            .with_generation(metadata.generation)
            .with_deletion_timestamp(metadata.deletion_timestamp.as_deref().map(Box::from));
        if let Some(range) = &metadata.labels {
            header = header.with_labels(pairs(text, range, LABELS)?);
        }
        if let Some(range) = &metadata.owners {
            header = header.with_owners(owners(text, range)?);
        }
        Ok(header)
    }
}

impl MetadataSpans<'_> {
    pub(crate) fn annotations(&self, text: &str) -> Result<Labels, HeaderError> {
        let Some(range) = &self.annotations else { return Ok(Labels::default()) };
        Ok(pairs(text, range, ANNOTATIONS)?.into_iter().collect())
    }

    pub(crate) fn labels(&self, text: &str) -> Result<Labels, HeaderError> {
        let Some(range) = &self.labels else { return Ok(Labels::default()) };
        Ok(pairs(text, range, LABELS)?.into_iter().collect())
    }

    pub(crate) fn label<'a>(&self, text: &'a str, name: &str) -> Result<Option<Cow<'a, str>>, HeaderError> {
        self.labels.as_ref().map_or(Ok(None), |range| value_of(name, text, range, LABELS))
    }

    pub(crate) fn annotation<'a>(
        &self,
        text: &'a str,
        name: &str,
    ) -> Result<Option<Cow<'a, str>>, HeaderError> {
        self.annotations.as_ref().map_or(Ok(None), |range| value_of(name, text, range, ANNOTATIONS))
    }

    pub(crate) fn owners(&self, text: &str) -> Result<Vec<OwnerReference>, HeaderError> {
        self.owners.as_ref().map_or_else(|| Ok(Vec::new()), |range| owners(text, range))
    }

    pub(crate) fn finalizers(&self, text: &str) -> Result<Box<[Box<str>]>, HeaderError> {
        const FIELD: &str = "metadata.finalizers";
        let Some(range) = &self.finalizers else { return Ok(Box::default()) };
        let (mut cursor, mut found, mut first) = (Cursor::over(text, range), Vec::new(), true);
        cursor.expect(b'[', "an array")?;
        while cursor.element(&mut first)? {
            let text = string(&mut cursor, FIELD)?;
            found.push(text.ok_or(HeaderError::new(FIELD, Problem::Type("an array of strings")))?.into());
        }
        Ok(found.into())
    }
}

type StringPair<'a> = (Cow<'a, str>, Cow<'a, str>);

fn pairs<'a>(
    text: &'a str,
    range: &Range<usize>,
    field: &'static str,
) -> Result<Vec<StringPair<'a>>, HeaderError> {
    let mut found = Vec::new();
    for_each_pair(text, range, field, |key, value| found.push((key, value)))?;
    Ok(found)
}

/// Returns the value of a key. All pairs are validated, so that an invalid one makes each object undecodable
/// in the same way.
fn value_of<'a>(
    name: &str,
    text: &'a str,
    range: &Range<usize>,
    field: &'static str,
) -> Result<Option<Cow<'a, str>>, HeaderError> {
    let mut found = None;
    for_each_pair(text, range, field, |key, value| {
        if key == name {
            found = Some(value);
        }
    })?;
    Ok(found)
}

fn for_each_pair<'a>(
    text: &'a str,
    range: &Range<usize>,
    field: &'static str,
    mut call: impl FnMut(Cow<'a, str>, Cow<'a, str>),
) -> Result<(), HeaderError> {
    let (mut cursor, mut first) = (Cursor::over(text, range), true);
    cursor.object()?;
    while let Some(key) = cursor.member(&mut first)? {
        let key = key.decode().map_err(|_| HeaderError::new(field, Problem::BadString))?;
        let value = string(&mut cursor, field)?;
        let value = value.ok_or(HeaderError::new(field, Problem::Type("an object of strings")))?;
        call(key, value);
    }
    Ok(())
}

fn owners(text: &str, range: &Range<usize>) -> Result<Vec<OwnerReference>, HeaderError> {
    const FIELD: &str = "metadata.ownerReferences";
    let (mut cursor, mut found, mut first) = (Cursor::over(text, range), Vec::new(), true);
    cursor.expect(b'[', "an array")?;
    while cursor.element(&mut first)? {
        if cursor.peek() != Some(b'{') {
            return Err(HeaderError::new(FIELD, Problem::Type("an array of objects")));
        }
        found.push(owner(&mut cursor, FIELD)?);
    }
    Ok(found)
}

fn owner(cursor: &mut Cursor<'_>, field: &'static str) -> Result<OwnerReference, HeaderError> {
    let [mut api_version, mut kind, mut name, mut uid] = [const { Cow::Borrowed("") }; 4];
    cursor.object()?;
    let (mut first, mut controller) = (true, false);
    while let Some(key) = cursor.member(&mut first)? {
        let place = if key.is("apiVersion") {
            &mut api_version
        } else if key.is("kind") {
            &mut kind
        } else if key.is("name") {
            &mut name
        } else if key.is("uid") {
            &mut uid
        } else {
            let value = cursor.skip()?;
            if key.is("controller") {
                controller = match cursor.slice(&value) {
                    "true" => true,
                    "false" | "null" => false,
                    _ => {
                        return Err(HeaderError::new(
                            field,
                            Problem::Type("an array with boolean controllers"),
                        ));
                    }
                };
            }
            continue;
        };
        *place = string(cursor, field)?.unwrap_or_default();
    }
    Ok(OwnerReference::new(&api_version, &kind, &name, &uid, controller))
}
