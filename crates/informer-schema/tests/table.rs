//! Verifies the schema table against facts about well-known kinds, such as field numbers, merge keys and
//! resources.

use informer_core::{Gvk, Gvr};
use informer_schema::{BaseType, ExtraField, Field, KindSchema, ListType, Message, Schema, Shape};

fn kind<'s>(schema: &'s Schema, group: &str, version: &str, kind: &str) -> KindSchema<'s> {
    schema.kind(&Gvk::new(group, version, kind)).expect("the table has this kind")
}

fn field<'s>(message: Message<'s>, name: &str) -> Field<'s> {
    message.field(name).unwrap_or_else(|| panic!("{message:?} has no {name}"))
}

fn message<'s>(schema: &'s Schema, name: &str) -> Message<'s> {
    schema.message(name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn metadata_field_numbers_match_the_table() {
    let schema = Schema::builtin();
    let expected: [(&str, &[(&str, u32)]); 3] = [
        (
            "meta.v1.ObjectMeta",
            &[
                ("name", 1),
                ("namespace", 3),
                ("uid", 5),
                ("resourceVersion", 6),
                ("generation", 7),
                ("creationTimestamp", 8),
                ("deletionTimestamp", 9),
                ("annotations", 12),
                ("finalizers", 14),
                ("labels", 11),
                ("ownerReferences", 13),
                ("managedFields", 17),
            ],
        ),
        (
            "meta.v1.OwnerReference",
            &[("kind", 1), ("name", 3), ("uid", 4), ("apiVersion", 5), ("controller", 6)],
        ),
        ("meta.v1.ListMeta", &[("resourceVersion", 2), ("continue", 3), ("remainingItemCount", 4)]),
    ];
    for (name, numbers) in expected {
        for (member, number) in numbers {
            assert_eq!(field(message(&schema, name), member).number(), Some(*number), "{name}.{member}");
        }
    }
    for kind in schema.kinds().filter(|kind| kind.has_protobuf()) {
        if let Some(metadata) = kind.field("metadata") {
            assert_eq!(metadata.number(), Some(1), "{kind:?}");
        }
    }
}

#[test]
fn list_fields_have_merge_keys_and_list_types() {
    let schema = Schema::builtin();
    let spec = message(&schema, "io.k8s.api.core.v1.PodSpec");
    let volumes = field(spec, "volumes");
    assert_eq!((volumes.merge_key(), volumes.list_type()), (Some("name"), Some(ListType::Map)));
    assert!(volumes.patch_strategy().merge && volumes.patch_strategy().retain_keys);
    let ports = field(message(&schema, "core.v1.Container"), "ports");
    assert_eq!(ports.list_map_keys().collect::<Vec<_>>(), ["containerPort", "protocol"]);
    let args = field(message(&schema, "core.v1.Container"), "args");
    assert_eq!((args.list_type(), args.shape()), (Some(ListType::Atomic), Shape::List));
    assert!(message(&schema, "core.v1.SecretKeySelector").is_atomic());
    assert!(field(message(&schema, "core.v1.ServicePort"), "port").is_required());
    let protocol = field(message(&schema, "core.v1.ServicePort"), "protocol");
    assert_eq!(protocol.default_json(), Some("\"TCP\""));
    assert!(protocol.enum_values().is_some_and(|mut values| values.any(|value| value == "SCTP")));
}

#[test]
fn embedded_fields_have_the_order_of_json() {
    let schema = Schema::builtin();
    let volume = message(&schema, "core.v1.Volume");
    assert!(matches!(field(volume, "emptyDir").base(), BaseType::Message(_)));
    let names: Vec<_> = kind(&schema, "", "v1", "Pod").fields().iter().map(|field| field.name()).collect();
    assert_eq!(names, ["kind", "apiVersion", "metadata", "spec", "status"]);
    assert_eq!(
        volume.field_by_number(2).and_then(|field| field.message()).map(Message::short_name),
        Some("core.v1.VolumeSource")
    );
}

#[test]
fn resources_match_discovery() {
    let schema = Schema::builtin();
    let deployments = schema.resource(&Gvr::new("apps", "v1", "deployments")).expect("served");
    assert_eq!(deployments.singular(), "deployment");
    assert!(deployments.is_namespaced() && deployments.is_served_by_default());
    assert_eq!(deployments.short_names().collect::<Vec<_>>(), ["deploy"]);
    assert_eq!(deployments.categories().collect::<Vec<_>>(), ["all"]);
    assert_eq!(deployments.kind().map(KindSchema::name), Some("Deployment"));
    let scale = deployments.subresources().find(|part| part.name == "scale").expect("has a scale");
    assert_eq!((scale.response_kind.group, scale.response_kind.version), ("autoscaling", "v1"));
    let columns: Vec<_> =
        deployments.columns().filter(|column| column.priority == 0).map(|column| column.name).collect();
    assert_eq!(columns, ["Name", "Ready", "Up-to-date", "Available", "Age"]);
    assert_eq!(schema.group_versions().next(), Some(("", "v1")));
}

#[test]
fn unknown_and_duplicate_fields_are_reported_in_document_order() {
    let schema = Schema::builtin();
    let json = br#"{"kind":"Pod","b":1,"spec":{"containers":[{"name":"a"},{"imge":"x","name":"b","name":"c"}],"nodeName":"n","nodeName":"m"},"b":2}"#;
    let problems = kind(&schema, "", "v1", "Pod").strict_problems(json).expect("is JSON");
    let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let expected = [
        r#"unknown field "b""#,
        r#"unknown field "spec.containers[1].imge""#,
        r#"duplicate field "spec.containers[1].name""#,
        r#"duplicate field "spec.nodeName""#,
    ];
    assert_eq!(told, expected);
}

#[test]
fn kinds_of_meta_are_found_in_every_group() {
    let schema = Schema::builtin();
    for (group, version) in [("", "v1"), ("apps", "v1"), ("meta.k8s.io", "v1")] {
        assert_eq!(
            kind(&schema, group, version, "DeleteOptions").message().short_name(),
            "meta.v1.DeleteOptions"
        );
    }
    assert!(schema.kind(&Gvk::new("example.com", "v1", "Widget")).is_none());
    assert!(!kind(&schema, "meta.k8s.io", "v1", "Table").has_protobuf());
    assert_eq!(kind(&schema, "", "v1", "PodList").item().map(KindSchema::name), Some("Pod"));
}

#[test]
fn every_resource_has_a_kind_and_every_list_its_items() {
    let schema = Schema::builtin();
    for resource in schema.resources() {
        let kind = resource.kind().unwrap_or_else(|| panic!("{}", resource.plural()));
        if resource.verbs().any(|verb| verb == "list") {
            let list = Gvk::new(kind.group(), kind.version(), format!("{}List", kind.name()));
            assert_eq!(schema.kind(&list).and_then(KindSchema::item).map(KindSchema::gvk), Some(kind.gvk()));
            assert!(resource.columns().len() > 0);
            assert_eq!(kind.resource().map(|found| found.plural()), Some(resource.plural()));
        }
    }
}

/// Fields of a server that is newer than the schema table.
const NEWER: [ExtraField; 6] = [
    ExtraField::new("core.v1.PodSpec", "priorityBand", 200, "*string"),
    ExtraField::new("core.v1.Container", "shells", 201, "[]string"),
    ExtraField::new("core.v1.SecretVolumeSource", "fallback", 202, "*core.v1.SecretReference"),
    ExtraField::new("core.v1.EnvVarSource", "limits", 203, "{}quantity"),
    ExtraField::new("meta.v1.ObjectMeta", "lineage", 204, "[]core.v1.EnvVar"),
    ExtraField::new("core.v1.ContainerStatus", "heartbeat", 205, "*time"),
];

#[test]
fn unknown_fields_are_found_at_any_depth() {
    let (newer, table) = (Schema::with_extra_fields(&NEWER).unwrap(), Schema::builtin());
    let plain = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "e", "valueFrom": {}}],
                "ports": [{"containerPort": 1}], "livenessProbe": {"httpGet": {"port": "http"}}}],
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
        },
        "status": {"containerStatuses": [{"name": "a", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]},
    });
    let has_unknown = |schema: &Schema, object: &serde_json::Value| {
        let wire = newer.to_protobuf(object.to_string().as_bytes()).unwrap();
        let message = informer_schema::Envelope::parse(&wire).unwrap().raw;
        kind(schema, "", "v1", "Pod").has_unknown_fields(message)
    };
    assert!(!has_unknown(&table, &plain));
    let changes = [
        ("/spec", serde_json::json!({"priorityBand": "x"})),
        ("/spec/containers/0", serde_json::json!({"shells": ["sh"]})),
        ("/spec/volumes/0/secret", serde_json::json!({"fallback": {}})),
        ("/spec/containers/0/env/0/valueFrom", serde_json::json!({"limits": {"cpu": "1"}})),
        ("/metadata", serde_json::json!({"lineage": [{"name": "x"}]})),
        ("/status/containerStatuses/0", serde_json::json!({"heartbeat": "2026-01-01T00:00:00Z"})),
    ];
    for (place, members) in changes {
        let mut changed = plain.clone();
        let serde_json::Value::Object(members) = members else { unreachable!("members are objects") };
        changed.pointer_mut(place).unwrap().as_object_mut().unwrap().extend(members);
        assert!(has_unknown(&table, &changed), "{place}");
        assert!(!has_unknown(&newer, &changed), "{place}");
    }
}

#[test]
fn invalid_extra_fields_are_rejected() {
    let refused = |field| Schema::with_extra_fields(&[field]).unwrap_err().to_string();
    let none = refused(ExtraField::new("core.v1.Pot", "x", 200, "string"));
    assert_eq!(none, "add field x to core.v1.Pot: there is no such message");
    let used = refused(ExtraField::new("core.v1.PodSpec", "x", 2, "string"));
    assert_eq!(used, "add field x to core.v1.PodSpec: the number is 0 or already used");
    let named = refused(ExtraField::new("core.v1.PodSpec", "containers", 200, "string"));
    assert_eq!(named, "add field containers to core.v1.PodSpec: the name is already used");
    let embedded = refused(ExtraField::new("core.v1.Volume", "secret", 200, "string"));
    assert_eq!(embedded, "add field secret to core.v1.Volume: the name is already used");
    let value = refused(ExtraField::new("core.v1.PodSpec", "x", 200, "strings"));
    assert_eq!(value, "add field x to core.v1.PodSpec: the value type is unknown");
}

#[test]
fn has_path_follows_the_fields_of_the_table() {
    let schema = Schema::builtin();
    let pod = kind(&schema, "", "v1", "Pod");
    let known = [
        "spec.nodeName",
        "metadata.labels.app",
        "spec.containers.name",
        "status",
        "spec.resources.limits.cpu",
    ];
    let unknown = ["spec.priorityBand", "spek", "spec.securityContext.newer", "metadata.lineage.name"];
    for path in known {
        assert!(pod.has_path(path.split('.')), "{path}");
    }
    for path in unknown {
        assert!(!pod.has_path(path.split('.')), "{path}");
    }
}
