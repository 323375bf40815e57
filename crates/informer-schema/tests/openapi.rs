//! Verifies that the schema table contains every kind and every field of the newest types of `k8s-openapi`.
//! Otherwise decoding such a type from protobuf would lose a field.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;

use informer_core::Gvk;
use informer_schema::Schema;

/// Types of `k8s-openapi` that need not be in the schema table, because they are never decoded from protobuf
/// objects.
const NOT_IN_PROTOBUF: [&str; 3] = [
    // The response of `/version`.
    "io.k8s.apimachinery.pkg.version.Info",
    // The generic list type of `k8s-openapi`.
    "io.k8s.List",
    // The frame of a watch event, which `informer_schema::watch_event` parses without the schema table.
    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
];

/// The sources of the `k8s-openapi` version in `Cargo.lock`, as found by `cargo metadata`.
struct Package {
    sources: PathBuf,
    /// The newest Kubernetes minor version among the crate's features: 37 for `v1_37`.
    newest: u32,
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn package() -> Package {
    // Without `--filter-platform`, cargo reads the manifests of the dependencies of all platforms, which may
    // not be downloaded.
    let versions = output(Command::new("rustc").arg("-vV"));
    let host = versions.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let metadata = output(
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version=1", "--offline", "--filter-platform", host])
            .current_dir(env!("CARGO_MANIFEST_DIR")),
    );
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|package| package["name"] == "k8s-openapi").unwrap();
    let features = found["features"].as_object().unwrap().keys();
    let newest = features.filter_map(|name| name.strip_prefix("v1_")?.parse().ok()).max().unwrap();
    let manifest = Path::new(found["manifest_path"].as_str().unwrap());
    Package { sources: manifest.with_file_name("src").join(format!("v1_{newest}")), newest }
}

/// An OpenAPI definition from which a type of `k8s-openapi` is generated, with its published name, the JSON
/// names of its fields, and its kind, if it has one.
struct Definition {
    name: String,
    fields: Vec<String>,
    kind: Option<Gvk>,
}

fn definitions(folder: &Path, into: &mut Vec<Definition>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            definitions(&path, into);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        into.extend(text.lines().next().and_then(|line| definition(line, &text)));
    }
}

fn definition(head: &str, text: &str) -> Option<Definition> {
    let name = head.strip_prefix("// Generated from definition ")?.to_owned();
    let fields = text.lines().filter_map(|line| {
        let (name, arm) = line.trim().strip_prefix('"')?.split_once('"')?;
        arm.starts_with(" => Field::Key_").then(|| name.to_owned())
    });
    let constant = |name: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("const {name}: ")))?;
        Some(line.split('"').nth(1)?.to_owned())
    };
    let kind = (|| Some(Gvk::new(constant("GROUP")?, constant("VERSION")?, constant("KIND")?)))();
    Some(Definition { name, fields: fields.collect(), kind })
}

#[test]
fn table_is_not_older_than_the_newest_types_of_k8s_openapi() {
    let schema = Schema::builtin();
    // `types_version` is the version of Go modules: those of Kubernetes 1.37 have the version 0.37.
    let minor: u32 = schema.types_version().split('.').nth(1).unwrap().parse().unwrap();
    let newest = package().newest;
    assert!(minor >= newest, "the table is of 1.{minor}, k8s-openapi has 1.{newest}; see docs/schema.md");
}

#[test]
fn table_has_every_kind_and_field_of_k8s_openapi() {
    let schema = Schema::builtin();
    let mut all = Vec::new();
    definitions(&package().sources, &mut all);
    let (mut fields, mut kinds, mut missing) = (0, 0, Vec::new());
    for definition in all.iter().filter(|definition| !NOT_IN_PROTOBUF.contains(&&*definition.name)) {
        let message = schema.message(&definition.name);
        for name in &definition.fields {
            fields += 1;
            if message.and_then(|message| message.field(name)).is_none() {
                missing.push(format!("{}.{name}", definition.name));
            }
        }
        if let Some(kind) = &definition.kind {
            kinds += 1;
            if schema.kind(kind).is_none() {
                missing.push(format!("{kind:?}"));
            }
        }
    }
    assert!(
        all.len() > 700 && fields > 3_000 && kinds > 70,
        "{} types, {fields} fields, {kinds} kinds",
        all.len()
    );
    assert!(missing.is_empty(), "{} missing:\n{}", missing.len(), missing.join("\n"));
}

/// Fields of Kubernetes 1.37 that the kube-apiserver 1.36 of the schema table does not have.
const NEWER: [(&str, &str); 3] = [
    ("core.v1.VolumeMount", "bindMountOptions"),
    ("core.v1.KeyToPath", "user"),
    ("core.v1.PodSpec", "evictionResponders"),
];

#[test]
fn fields_newer_than_the_server_are_unknown_to_a_server_only() {
    let (client, server) = (Schema::builtin(), Schema::builtin_served());
    assert_eq!((client.server_version(), server.server_version()), ("v1.36.3", "v1.36.3"));
    for (message, name) in NEWER {
        let field = client.message(message).unwrap().field(name).unwrap();
        assert_eq!(field.since(), Some("1.37"), "{message}.{name}");
        assert!(server.message(message).unwrap().field(name).is_none(), "{message}.{name}");
    }
    let kind = Gvk::new("lifecycle.k8s.io", "v1alpha1", "EvictionRequest");
    assert!(client.kind(&kind).is_some() && server.kind(&kind).is_none());
    let served: Vec<_> = server.messages().flat_map(|message| message.fields()).collect();
    assert!(served.len() > 4_000 && served.iter().all(|field| field.since().is_none()));
}

#[test]
fn absent_struct_of_a_newer_release_is_not_written_to_json() {
    let schema = Schema::builtin();
    // A 1.37 server always writes `CSINode.status`, because this field is a struct and not a pointer in Go. A
    // 1.36 server does not have the field.
    let status = schema.message("storage.v1.CSINode").unwrap().field("status").unwrap();
    assert_eq!((status.since(), status.is_always_written()), (Some("1.37"), false));
    let json = br#"{"kind":"CSINode","apiVersion":"storage.k8s.io/v1","metadata":{"name":"a"},"spec":{"drivers":null}}"#;
    let wire = Schema::builtin_served().to_protobuf(json).unwrap();
    assert_eq!(
        String::from_utf8(schema.to_json(&wire).unwrap()).unwrap(),
        String::from_utf8(json.to_vec()).unwrap()
    );
}
