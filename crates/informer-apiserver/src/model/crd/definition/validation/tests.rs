use serde_json::{Value, json};

use super::validate_crd;

/// Returns a definition with this schema.
fn definition(schema: Value) -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
            "conversion": {"strategy": "None"},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ],
        },
        "status": {"storedVersions": ["v1"]},
    })
}

fn errors(definition: &Value) -> Vec<String> {
    let causes = validate_crd(definition, None);
    let short = |field: &str| field.replace("spec.validation.openAPIV3Schema", "$");
    causes.iter().map(|cause| format!("{}: {}", short(&cause.field), short(&cause.message))).collect()
}

/// Returns the errors for a schema of the field `a`.
fn field_errors(schema: Value) -> Vec<String> {
    let all = errors(&definition(json!({"type": "object", "properties": {"a": schema}})));
    all.iter().map(|error| error.replace("$.properties[a]", "a")).collect()
}

fn assert_single(schema: Value, error: &str) {
    assert_eq!(field_errors(schema.clone()), [error], "{schema}");
}

#[test]
fn a_valid_definition_has_no_errors() {
    let schema = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "default": {"n": 1}, "properties": {
            "n": {"type": "integer", "minimum": 0, "x-kubernetes-validations": [{"rule": "self >= 0"}]},
            "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}},
        }},
    }});
    assert!(errors(&definition(schema)).is_empty());
}

#[test]
fn schemas_must_be_structural() {
    for (schema, error) in [
        (
            json!({"properties": {"b": {"type": "string"}}}),
            "a.type: Required value: must not be empty for specified object fields",
        ),
        (json!({"type": "array"}), "a.items: Required value: must be specified"),
        (
            json!({"type": "array", "items": {}}),
            "a.items.type: Required value: must not be empty for specified array items",
        ),
        (
            json!({"type": "object", "allOf": [{"type": "object"}]}),
            "a.allOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "object", "not": {"nullable": true}}),
            "a.not.nullable: Forbidden: must be false to be structural",
        ),
        (
            json!({"type": "object", "anyOf": [{"description": "x"}]}),
            "a.anyOf[0].description: Forbidden: must be empty to be structural",
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true}),
            "a.x-kubernetes-preserve-unknown-fields: Invalid value: true: must be false if x-kubernetes-int-or-string is true",
        ),
        (
            json!({"type": "string", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            "a.type: Invalid value: \"string\": must be object if x-kubernetes-embedded-resource is true",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            "a.properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ),
        (
            json!({"type": "string", "pattern": "a(b"}),
            "a.pattern: Invalid value: \"a(b\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `a(b`",
        ),
    ] {
        assert_single(schema, error);
    }
}

#[test]
fn the_root_of_a_schema_is_an_object_with_implicit_metadata() {
    for (schema, error) in [
        (
            json!({"type": "array", "items": {"type": "string"}}),
            "$.type: Invalid value: \"array\": must be object at the root",
        ),
        (json!({"properties": {}}), "$.type: Required value: must not be empty at the root"),
        (
            json!({"type": "object", "additionalProperties": true}),
            "$.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            json!({"type": "object", "nullable": true}),
            "$.nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            "$.properties[kind].type: Invalid value: \"integer\": must be string",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            "$.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            json!({"type": "object", "oneOf": [{"properties": {"b": {"minimum": 1}}}]}),
            "$.properties[b]: Required value: because it is defined in $.oneOf[0].properties[b]",
        ),
        (
            json!({"type": "object", "$schema": "x"}),
            "$: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
        ),
    ] {
        assert_eq!(errors(&definition(schema.clone())), [error], "{schema}");
    }
}

#[test]
fn unsupported_fields_of_openapi_are_rejected() {
    for (name, value) in [
        ("id", json!("x")),
        ("$ref", json!("#/x")),
        ("patternProperties", json!({"x": {"type": "string"}})),
        ("dependencies", json!({"x": ["y"]})),
        ("additionalItems", json!(true)),
    ] {
        let schema = json!({"type": "object", name: value});
        assert_single(schema, &format!("a.{name}: Forbidden: {name} is not supported"));
    }
    assert_single(
        json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": false}),
        "a.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
    );
    assert_single(
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        "a.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
    );
    assert_single(
        json!({"type": "text"}),
        "a.type: Unsupported value: \"text\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
    );
}

#[test]
fn list_types_are_validated() {
    let map = |items: Value| json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items});
    for (schema, error) in [
        (
            json!({"type": "string", "x-kubernetes-list-type": "set"}),
            "a.type: Invalid value: \"string\": must be array if x-kubernetes-list-type is specified",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}),
            "a.x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            "a.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            "a.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            map(json!({"type": "string"})),
            "a.items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
        ),
        (
            map(json!({"type": "object"})),
            "a.x-kubernetes-list-map-keys: Invalid value: [\"k\"]: entries must all be names of item properties",
        ),
        (
            map(json!({"type": "object", "properties": {"k": {"type": "string"}}})),
            "a.items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            map(
                json!({"type": "object", "nullable": true, "required": ["k"], "properties": {"k": {"type": "string"}}}),
            ),
            "a.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "object", "x-kubernetes-map-type": "loose"}),
            "a.x-kubernetes-map-type: Unsupported value: \"loose\": supported values: \"atomic\", \"granular\"",
        ),
    ] {
        assert_single(schema, error);
    }
}

#[test]
fn defaults_must_be_valid_and_pruned() {
    for (schema, error) in [
        (
            json!({"type": "integer", "default": "x"}),
            "a.default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "integer", "minimum": 2, "default": 1}),
            "a.default: Invalid value: 1:  in body should be greater than or equal to 2",
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "default": {"c": 1}}),
            "a.default: Invalid value: {\"c\":1}: must not have unknown fields",
        ),
        (
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}, "default": {}}),
            "a.default.b: Required value",
        ),
    ] {
        assert_single(schema, error);
    }
    let root = json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}});
    assert_eq!(
        errors(&definition(root)),
        ["$.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata"]
    );
}

#[test]
fn rules_are_validated() {
    let with = |rule: Value| json!({"type": "object", "properties": {"b": {"type": "integer"}}, "x-kubernetes-validations": [rule]});
    for (rule, error) in [
        (json!({"rule": " "}), "a.x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        (
            json!({"rule": "true", "message": "a\nb"}),
            "a.x-kubernetes-validations[0].message: Invalid value: \"a\\nb\": must not contain line breaks",
        ),
        (
            json!({"rule": "true\n", "reason": "Because"}),
            "a.x-kubernetes-validations[0].reason: Unsupported value: \"Because\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\"",
        ),
        (
            json!({"rule": "true", "fieldPath": ".c"}),
            "a.x-kubernetes-validations[0].fieldPath: Invalid value: \".c\": must be a valid path",
        ),
    ] {
        assert_single(with(rule), error);
    }
}

#[cfg(feature = "cel")]
#[test]
fn expressions_are_compiled() {
    let with = |rule: &str| {
        let schema = json!({"type": "object", "properties": {"b": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": rule}]});
        field_errors(schema)
    };
    for (rule, part) in [
        ("self.c > 1", "undefined field 'c'"),
        ("self.b > 'x'", "found no matching overload for '_>_' applied to '(int, string)'"),
        ("self.b", "cel expression must evaluate to a bool"),
        ("self.b >", "Syntax error"),
        ("other.b > 1", "undeclared reference to 'other'"),
    ] {
        let errors = with(rule);
        assert!(errors.len() == 1 && errors[0].contains(part), "{rule}: {errors:?}");
    }
    assert!(with("self.b > 1 && has(self.b) && oldSelf.b == self.b").is_empty());
    let items = json!({"type": "array", "items": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}});
    assert_single(
        items,
        "a.items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within a",
    );
}

#[test]
fn names_versions_columns_and_paths_are_validated() {
    let changed = |pointer: &str, value: Value| {
        let mut definition = definition(
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}}),
        );
        let (above, name) = pointer.rsplit_once('/').unwrap();
        definition.pointer_mut(above).unwrap()[name] = value;
        errors(&definition)
    };
    let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    for (pointer, value, error) in [
        ("/spec/names/singular", json!("A"), format!("spec.names.singular: Invalid value: \"A\": {label}")),
        ("/spec/names/listKind", json!("Widget"), "spec.names.listKind: Invalid value: \"Widget\": kind and listKind may not be the same".to_owned()),
        ("/spec/names/shortNames", json!(["A"]), format!("spec.names.shortNames[0]: Invalid value: \"A\": {label}")),
        ("/spec/versions/0/deprecationWarning", json!("x"), "spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions".to_owned()),
        ("/spec/versions/0/additionalPrinterColumns", json!([{"name": "N", "type": "number", "jsonPath": "spec"}]), "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec\": must be a simple json path starting with .".to_owned()),
        ("/spec/versions/0/additionalPrinterColumns", json!([{"name": "N", "type": "n", "jsonPath": ".spec"}]), "spec.additionalPrinterColumns[0].type: Invalid value: \"n\": must be one of boolean,date,integer,number,string".to_owned()),
        ("/spec/versions/0/subresources", json!({"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.n"}}), "spec.subresources.scale.specReplicasPath: Invalid value: \".x\": should be a json path under .spec".to_owned()),
        ("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec.x"}]), "spec.selectableFields[0].jsonPath: Invalid value: \".spec.x\": is an invalid path: does not refer to a valid field".to_owned()),
        ("/spec/versions/0/selectableFields", json!([{"jsonPath": ".spec"}]), "spec.selectableFields[0].jsonPath: Invalid value: \".spec\": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.".to_owned()),
        ("/spec/preserveUnknownFields", json!(true), "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead".to_owned()),
        ("/status/storedVersions", json!(["v0", "v1"]), "status.storedVersions[0]: Invalid value: \"v0\": missing from spec.versions; v0 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions".to_owned()),
    ] {
        assert_eq!(changed(pointer, value), [error], "{pointer}");
    }
}

#[test]
fn protected_groups_need_an_approval() {
    let mut protected = definition(json!({"type": "object"}));
    protected["spec"]["group"] = json!("x.k8s.io");
    protected["metadata"]["name"] = json!("widgets.x.k8s.io");
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    assert_eq!(
        errors(&protected),
        [format!(
            "{field}: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111"
        )]
    );
    for (annotation, is_valid) in
        [("unapproved, a test", true), ("https://example.com/1", true), ("yes", false)]
    {
        protected["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
        assert_eq!(errors(&protected).is_empty(), is_valid, "{annotation}");
    }
    let mut old = protected.clone();
    old["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "no"});
    assert!(validate_crd(&protected, Some(&old)).is_empty());
}
