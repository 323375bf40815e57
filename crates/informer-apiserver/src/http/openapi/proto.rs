//! Protobuf encoding of OpenAPI v2 documents, with the field numbers of [gnostic's
//! messages](https://github.com/google/gnostic-models/blob/main/openapiv2/OpenAPIv2.proto). Only the fields
//! that this server uses are supported.

use serde_json::{Map, Value};

type Members = Map<String, Value>;

pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.part(2, info);
    let mut paths = Message::default();
    each(&document["paths"], |name, item| paths.part(2, named(name, path(item))));
    out.part(8, paths);
    out.part(9, schemas(&document["definitions"]));
    out.0
}

fn each(object: &Value, mut visit: impl FnMut(&str, &Value)) {
    for (name, value) in object.as_object().into_iter().flatten() {
        visit(name, value);
    }
}

fn named(name: &str, value: Message) -> Message {
    let mut out = Message::default();
    out.bytes(1, name.as_bytes());
    out.part(2, value);
    out
}

/// Adds the OpenAPI extensions, which are the keys with the prefix `x-`. gnostic stores their values as YAML,
/// and the JSON written here is valid YAML.
fn extensions(out: &mut Message, number: u32, members: &Members) {
    for (name, value) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
        let mut any = Message::default();
        any.bytes(2, format!("{value}\n").as_bytes());
        out.part(number, named(name, any));
    }
}

fn path(item: &Value) -> Message {
    let mut out = Message::default();
    for (number, verb) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(operation) = item.get(verb).and_then(Value::as_object) {
            out.part(number, operation_of(operation));
        }
    }
    out
}

fn operation_of(operation: &Members) -> Message {
    let list = |name: &str| operation.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut out = Message::default();
    list("produces").for_each(|media| out.text(6, media));
    list("consumes").for_each(|media| out.text(7, media));
    for parameter in list("parameters") {
        let mut query = Message::default();
        query.text(2, &parameter["in"]);
        query.text(4, &parameter["name"]);
        query.text(6, &parameter["type"]);
        // The nested gnostic messages of a query parameter: `ParametersItem.parameter`,
        // `Parameter.non_body_parameter`, `NonBodyParameter.query_parameter_sub_schema`.
        out.part(8, Message::of(1, Message::of(2, Message::of(3, query))));
    }
    let mut responses = Message::default();
    each(&operation["responses"], |code, response| {
        let mut text = Message::default();
        text.text(1, &response["description"]);
        responses.part(1, named(code, Message::of(1, text)));
    });
    out.part(9, responses);
    extensions(&mut out, 13, operation);
    out
}

fn schemas(all: &Value) -> Message {
    let mut out = Message::default();
    each(all, |name, value| out.part(1, named(name, schema(value))));
    out
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    let Some(members) = value.as_object() else { return out };
    for (number, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        if let Some(text) = members.get(name) {
            out.text(number, text);
        }
    }
    for (number, name) in [(7, "maximum"), (9, "minimum")] {
        if let Some(bound) = members.get(name).and_then(Value::as_f64) {
            out.double(number, bound);
        }
    }
    for (number, name) in [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ] {
        if let Some(bound) = members.get(name).and_then(Value::as_u64) {
            out.number(number, bound);
        }
    }
    members.get("required").and_then(Value::as_array).into_iter().flatten().for_each(|n| out.text(19, n));
    for value in members.get("enum").and_then(Value::as_array).into_iter().flatten() {
        let mut any = Message::default();
        any.bytes(2, format!("{value}\n").as_bytes());
        out.part(20, any);
    }
    match members.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut item = Message::default();
            item.number(2, u64::from(*allowed));
            out.part(21, item);
        }
        Some(other) => out.part(21, Message::of(1, schema(other))),
        None => {}
    }
    if let Some(name) = members.get("type") {
        let mut item = Message::default();
        item.text(1, name);
        out.part(22, item);
    }
    if let Some(items) = members.get("items") {
        out.part(23, Message::of(1, schema(items)));
    }
    if let Some(properties) = members.get("properties") {
        out.part(25, schemas(properties));
    }
    extensions(&mut out, 31, members);
    out
}

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn of(number: u32, part: Self) -> Self {
        let mut out = Self::default();
        out.part(number, part);
        out
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, number: u32, text: &Value) {
        if let Some(text) = text.as_str().filter(|text| !text.is_empty()) {
            self.bytes(number, text.as_bytes());
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "each part is built for a single use")]
    fn part(&mut self, number: u32, part: Self) {
        self.bytes(number, &part.0);
    }

    fn number(&mut self, number: u32, value: u64) {
        self.varint(u64::from(number) << 3);
        self.varint(value);
    }

    fn double(&mut self, number: u32, value: f64) {
        self.varint(u64::from(number) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}
