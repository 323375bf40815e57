//! Parses the text of the schema table. Names are slices of that text and are not copied.

use std::convert::Infallible;
use std::sync::OnceLock;

use foldhash::fast::RandomState;
use memchr::{memchr_iter, memmem};

use super::{MessageId, Names, Releases, Schema};
use crate::schema::field::{Base, Extra, FieldData, Flags, Shape};
use crate::schema::kind::{KindData, MessageData};
use crate::schema::resource::{
    Column, GroupVersionData, NameList, ResourceData, ResponseName, SubresourceData,
};

/// The reason that parsing cannot fail: the schema table is compiled in, and a test of this crate parses it.
const PARSED_BY_TESTS: &str = "the table is compiled in and parsed by a test of this crate";

/// The first attribute of kinds and fields that are newer than the kube-apiserver of
/// [`Schema::server_version`].
const NEWER: &str = "since=";

/// The capacity that is reserved for message types before the table is parsed. The table has fewer types.
const MESSAGES_CAPACITY: usize = 1 << 11;

/// The maximum number of fields of a message, because sets of fields are 64-bit masks. The largest type has
/// 44 fields.
pub(super) const MAX_FIELDS: usize = 64;

pub(super) fn parse(text: &'static str, releases: Releases) -> Schema {
    match parse_and_extend(text, releases, |_| Ok::<(), Infallible>(())) {
        Ok(schema) => schema,
    }
}

/// Parses the schema table. `extend` may add fields before the indexes are built.
pub(super) fn parse_and_extend<E>(
    text: &'static str,
    releases: Releases,
    extend: impl FnOnce(&mut Schema) -> Result<(), E>,
) -> Result<Schema, E> {
    let mut schema = Schema {
        messages: Vec::with_capacity(MESSAGES_CAPACITY),
        fields: Vec::with_capacity(1 << 13),
        extras: Vec::with_capacity(1 << 10),
        numbers: Vec::with_capacity(1 << 14),
        kinds: Vec::with_capacity(1 << 9),
        resources: Vec::with_capacity(1 << 8),
        groups: Vec::new(),
        server_version: "",
        types_version: "",
        by_name: names(text),
        by_kind: Box::default(),
    };
    for line in parts(b'\n', text.trim_end()).filter(|line| !line.starts_with('#')) {
        let (tag, rest) = line.split_once('\t').expect(PARSED_BY_TESTS);
        match tag {
            "" | "K" if releases == Releases::Served && is_newer(rest) => {}
            "" => field(&mut schema, rest),
            "M" => message(&mut schema, rest),
            "K" => kind(&mut schema, rest),
            "V" => {
                let [_, server, types] = cells(rest);
                (schema.server_version, schema.types_version) = (server, types);
            }
            _ => served(&mut schema, tag, rest),
        }
    }
    extend(&mut schema)?;
    number(&mut schema);
    // The schema table sorts its kinds as strings `group/version/kind`, which is another order than by group,
    // then version, then kind.
    schema.kinds.sort_unstable_by_key(|data| (data.group, data.version, data.kind));
    schema.by_kind = by_kind(&schema.kinds);
    Ok(schema)
}

/// Returns true if the kind or field of a table line is newer than the kube-apiserver of
/// [`Schema::server_version`]. The attributes of such a line follow after four columns and begin with
/// [`NEWER`].
fn is_newer(rest: &str) -> bool {
    rest.splitn(5, '\t').nth(4).is_some_and(|attributes| attributes.starts_with(NEWER))
}

fn by_kind(kinds: &[KindData]) -> Box<[u16]> {
    let mut table = vec![0; (2 * kinds.len()).next_power_of_two()];
    let mask = table.len() - 1;
    for (place, data) in (1..).zip(kinds) {
        let mut at = super::kind_hash(data.group, data.version, data.kind) & mask;
        while table[at] != 0 {
            at = (at + 1) & mask;
        }
        table[at] = place;
    }
    table.into()
}

fn cells<const N: usize>(rest: &'static str) -> [&'static str; N] {
    let mut cells = parts(b'\t', rest);
    std::array::from_fn(|_| cells.next().expect(PARSED_BY_TESTS))
}

/// Splits a text like [`str::split`], with fewer instructions. Every program that uses built-in kinds waits
/// for the table to be parsed when it starts.
fn parts(separator: u8, text: &'static str) -> impl Iterator<Item = &'static str> {
    let ends = memchr_iter(separator, text.as_bytes()).chain([text.len()]);
    ends.scan(0, move |start, end| {
        let part = &text[*start..end];
        *start = end + 1;
        Some(part)
    })
}

/// Parses a name from a cell of the schema table, in which `-` means that there is no name.
fn name(cell: &'static str) -> &'static str {
    if cell == "-" { "" } else { cell }
}

fn names(text: &'static str) -> Names {
    // The table begins with a comment, so a line break precedes the line of each message type.
    let starts = memmem::find_iter(text.as_bytes(), "\nM\t");
    let short = starts.filter_map(|at| parts(b'\t', &text[at + 3..]).next());
    let mut names = Names::with_capacity_and_hasher(MESSAGES_CAPACITY, RandomState::default());
    names.extend(short.zip(0..).map(|(name, place)| (name, MessageId(place))));
    names
}

fn message(schema: &mut Schema, rest: &'static str) {
    let [short, prefix] = cells(rest);
    let start = u32::try_from(schema.fields.len()).expect(PARSED_BY_TESTS);
    let atomic = rest.ends_with("map=atomic");
    schema.messages.push(MessageData {
        short,
        prefix,
        fields: start..start,
        numbers: 0..0,
        atomic,
        always: 0,
        by_name: OnceLock::new(),
    });
}

fn field(schema: &mut Schema, rest: &'static str) {
    let [json, number, kind, flags] = cells(rest);
    // The attributes are the rest of the line, after a tab.
    let attributes = rest.get(json.len() + number.len() + kind.len() + flags.len() + 4..).unwrap_or_default();
    let extra = match attributes {
        "" => 0,
        text => {
            schema.extras.push(Extra::parse(text));
            u16::try_from(schema.extras.len()).expect(PARSED_BY_TESTS)
        }
    };
    let (shape, base) = base(schema, kind).expect(PARSED_BY_TESTS);
    let flags = Flags::parse(flags);
    // A field that only newer servers have is in JSON only if it is in protobuf, because an older server has
    // it in neither. This is also right for a newer server: it writes a field that is always in JSON to
    // protobuf, too.
    let quiet = attributes.starts_with(NEWER) || base.is_quiet(shape, flags);
    schema.fields.push(FieldData {
        name: name(json),
        number: number.parse().expect(PARSED_BY_TESTS),
        shape,
        base,
        flags,
        quiet,
        extra,
    });
    schema.messages.last_mut().expect(PARSED_BY_TESTS).fields.end += 1;
}

/// Parses a value type; `None` if the schema table has no such type.
pub(super) fn base(schema: &Schema, kind: &'static str) -> Option<(Shape, Base)> {
    let (shape, rest) = match kind.as_bytes() {
        [b'*', ..] => (Shape::Pointer, &kind[1..]),
        [b'[', ..] => (Shape::List, &kind[2..]),
        [b'{', ..] => (Shape::Map, &kind[2..]),
        _ => (Shape::Value, kind),
    };
    let id = |name: &str| schema.by_name.get(name).copied();
    let base = match rest {
        "string" => Base::String,
        "bool" => Base::Bool,
        "int32" | "uint32" => Base::Int32,
        "int64" => Base::Int64,
        "float64" => Base::Double,
        "bytes" => Base::Bytes,
        "time" => Base::Time,
        "microtime" => Base::MicroTime,
        "duration" => Base::Duration,
        "quantity" => Base::Quantity,
        "intorstring" => Base::IntOrString,
        "raw" => Base::Raw,
        "fields" => Base::Fields,
        "json" => Base::Json,
        "any" => Base::Any,
        "schemaorarray" => Base::SchemaOrArray(id("apiextensions.v1.JSONSchemaProps")?),
        "schemaorbool" => Base::SchemaOrBool(id("apiextensions.v1.JSONSchemaProps")?),
        "schemaorstrings" => Base::SchemaOrStrings(id("apiextensions.v1.JSONSchemaProps")?),
        other => match other.strip_prefix('%') {
            Some(wrapped) => Base::Strings(id(wrapped)?),
            None => Base::Message(id(other)?),
        },
    };
    Some((shape, base))
}

fn kind(schema: &mut Schema, rest: &'static str) {
    let [group, version, kind, message] = cells(rest);
    let message = *schema.by_name.get(message).expect(PARSED_BY_TESTS);
    schema.kinds.push(KindData { group: name(group), version, kind, message });
}

/// Parses a line that describes an API group version, a resource, a subresource or a printer column. A
/// resource belongs to the preceding group version; a subresource or column belongs to the preceding
/// resource.
fn served(schema: &mut Schema, tag: &str, rest: &'static str) {
    match tag {
        "G" => {
            let [group, version] = cells(rest);
            schema.groups.push(GroupVersionData { group: name(group), version });
        }
        "R" => {
            let [plural, singular, scope, group, version, kind, verbs, short, categories, hash, served] =
                cells(rest);
            schema.resources.push(ResourceData {
                group_version: u16::try_from(schema.groups.len() - 1).expect(PARSED_BY_TESTS),
                plural,
                singular: name(singular),
                namespaced: scope == "Namespaced",
                response: ResponseName { group: name(group), version: name(version), kind: name(kind) },
                verbs: NameList(verbs),
                short_names: NameList(short),
                categories: NameList(categories),
                storage_hash: name(hash),
                on_request: served != "default",
                subresources: Vec::new(),
                columns: Vec::new(),
            });
        }
        "S" => {
            let [subresource, group, version, kind, verbs] = cells(rest);
            let response = ResponseName { group: name(group), version: name(version), kind: name(kind) };
            let subresource = SubresourceData { name: subresource, response, verbs: NameList(verbs) };
            last(schema).subresources.push(subresource);
        }
        _ => {
            let [column, kind, format, priority] = cells(rest);
            let priority = priority.parse().expect(PARSED_BY_TESTS);
            last(schema).columns.push(Column { name: column, kind, format: name(format), priority });
        }
    }
}

fn last(schema: &mut Schema) -> &mut ResourceData {
    schema.resources.last_mut().expect(PARSED_BY_TESTS)
}

/// Builds the ranges that map protobuf field numbers to field indexes.
fn number(schema: &mut Schema) {
    for message in &mut schema.messages {
        let fields = &schema.fields[message.fields.start as usize..message.fields.end as usize];
        let start = schema.numbers.len();
        assert!(fields.len() <= MAX_FIELDS, "{} has more fields than a set holds", message.short);
        let loud = fields.iter().zip(0..64).filter(|(field, _)| !field.quiet);
        message.always = loud.fold(0, |set, (_, place)| set | 1 << place);
        let highest = fields.iter().map(|field| usize::from(field.number)).max().unwrap_or(0);
        schema.numbers.resize(start + highest + 1, 0);
        for (field, place) in fields.iter().zip(1..).filter(|(field, _)| field.number > 0) {
            schema.numbers[start + usize::from(field.number)] = place;
        }
        let bound = |at: usize| u32::try_from(at).expect(PARSED_BY_TESTS);
        message.numbers = bound(start)..bound(schema.numbers.len());
    }
}
