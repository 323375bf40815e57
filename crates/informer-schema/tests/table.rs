//! What the table says of kinds that everybody knows.

use informer_core::{Gvk, Gvr};
use informer_schema::{BaseType, Field, Kind, ListType, Message, Schema, Shape};

fn kind<'s>(schema: &'s Schema, group: &str, version: &str, kind: &str) -> Kind<'s> {
    schema.kind(&Gvk::new(group, version, kind)).expect("the table has this kind")
}

fn field<'s>(message: Message<'s>, name: &str) -> Field<'s> {
    message.field(name).unwrap_or_else(|| panic!("{message:?} has no {name}"))
}

fn message<'s>(schema: &'s Schema, name: &str) -> Message<'s> {
    schema.message(name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn metadata_has_the_numbers_that_readers_rely_on() {
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
fn lists_say_how_they_are_merged() {
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
fn embedded_types_stand_where_json_has_them() {
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
fn resources_are_those_of_discovery() {
    let schema = Schema::builtin();
    let deployments = schema.resource(&Gvr::new("apps", "v1", "deployments")).expect("served");
    assert_eq!(deployments.singular(), "deployment");
    assert!(deployments.is_namespaced() && deployments.is_served_by_default());
    assert_eq!(deployments.short_names().collect::<Vec<_>>(), ["deploy"]);
    assert_eq!(deployments.categories().collect::<Vec<_>>(), ["all"]);
    assert_eq!(deployments.kind().map(Kind::name), Some("Deployment"));
    let scale = deployments.subresources().find(|part| part.name == "scale").expect("has a scale");
    assert_eq!((scale.response_kind.group, scale.response_kind.version), ("autoscaling", "v1"));
    let columns: Vec<_> =
        deployments.columns().filter(|column| column.priority == 0).map(|column| column.name).collect();
    assert_eq!(columns, ["Name", "Ready", "Up-to-date", "Available", "Age"]);
    assert_eq!(schema.group_versions().next(), Some(("", "v1")));
}

#[test]
fn members_that_are_ignored_are_told_in_the_order_of_the_text() {
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
    assert_eq!(kind(&schema, "", "v1", "PodList").item().map(Kind::name), Some("Pod"));
}

#[test]
fn every_resource_has_a_kind_and_every_list_its_items() {
    let schema = Schema::builtin();
    for resource in schema.resources() {
        let kind = resource.kind().unwrap_or_else(|| panic!("{}", resource.plural()));
        if resource.verbs().any(|verb| verb == "list") {
            let list = Gvk::new(kind.group(), kind.version(), format!("{}List", kind.name()));
            assert_eq!(schema.kind(&list).and_then(Kind::item).map(Kind::gvk), Some(kind.gvk()));
            assert!(resource.columns().len() > 0);
            assert_eq!(kind.resource().map(|found| found.plural()), Some(resource.plural()));
        }
    }
}
