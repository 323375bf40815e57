use serde_json::json;

use super::proto::encode;

/// Returns the values of a length-delimited or 64-bit protobuf field in a message, in order.
fn parts(message: &[u8], wanted: u64) -> Vec<&[u8]> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first().expect("the varint is complete");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let (mut rest, mut found) = (message, Vec::new());
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let length = match key & 7 {
            0 => {
                varint(&mut rest);
                continue;
            }
            1 => 8,
            _ => usize::try_from(varint(&mut rest)).unwrap(),
        };
        let (part, after) = rest.split_at(length);
        rest = after;
        if key >> 3 == wanted {
            found.push(part);
        }
    }
    found
}

#[test]
fn openapi_v2_document_is_encoded_with_gnostic_field_numbers() {
    let document = json!({
        "swagger": "2.0",
        "info": {"title": "T", "version": "V"},
        "paths": {"/p": {"patch": {
            "parameters": [{"name": "dryRun", "in": "query", "type": "string"}],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-group-version-kind": {"kind": "K"},
        }}},
        "definitions": {"a.K": {
            "type": "object",
            "properties": {"p": {"type": "array", "items": {"$ref": "#/definitions/b"}, "minItems": 1, "maximum": 2}},
        }},
    });
    let bytes = encode(&document);
    assert_eq!(parts(&bytes, 1), [b"2.0"]);
    let path = parts(parts(&bytes, 8)[0], 2)[0];
    assert_eq!(parts(path, 1), [b"/p"]);
    let patch = parts(parts(path, 2)[0], 8)[0];
    let query = parts(parts(parts(parts(patch, 8)[0], 1)[0], 2)[0], 3)[0];
    assert_eq!((parts(query, 2), parts(query, 4)), (vec![&b"query"[..]], vec![&b"dryRun"[..]]));
    let extension = parts(patch, 13)[0];
    assert_eq!(parts(extension, 1), [b"x-kubernetes-group-version-kind"]);
    assert_eq!(parts(parts(extension, 2)[0], 2), [b"{\"kind\":\"K\"}\n"]);
    let definition = parts(parts(&bytes, 9)[0], 1)[0];
    assert_eq!(parts(definition, 1), [b"a.K"]);
    let property = parts(parts(parts(definition, 2)[0], 25)[0], 1)[0];
    let schema = parts(property, 2)[0];
    assert_eq!(parts(parts(schema, 22)[0], 1), [b"array"]);
    assert_eq!(parts(parts(parts(schema, 23)[0], 1)[0], 1), [b"#/definitions/b"]);
    assert_eq!(parts(schema, 7), [2_f64.to_le_bytes()]);
}
