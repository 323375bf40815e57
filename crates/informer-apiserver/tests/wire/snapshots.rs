//! Snapshots of a server's state in files.

use informer_apiserver::{ApiServer, SnapshotError};
use informer_core::Gvr;
use serde_json::json;

use crate::support::call;

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn filled() -> ApiServer {
    let server = ApiServer::builder().build();
    for name in ["a", "b"] {
        server.create(&maps(), "default", json!({"metadata": {"name": name}, "data": {"k": name}})).unwrap();
    }
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    server.create(&Gvr::new("", "v1", "secrets"), "default", secret).unwrap();
    server
}

#[tokio::test]
async fn a_restored_snapshot_keeps_versions_and_uids() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let server = filled();
    server.save(&path).unwrap();
    server.save(&path).unwrap();
    let next = ApiServer::builder().build();
    next.restore_from(&path).unwrap();
    for uri in ["/api/v1/configmaps", "/api/v1/namespaces", "/api/v1/secrets"] {
        assert_eq!(call(&next, "GET", uri, "").await, call(&server, "GET", uri, "").await, "{uri}");
    }
    let old = format!("/api/v1/configmaps?watch=1&resourceVersion={}", server.version() - 1);
    assert!(
        call(&next, "GET", &old, "").await.1.contains("\"code\":410"),
        "the history does not start before the snapshot"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!(mode & 0o077, 0, "only the owner can read Secrets");
    }
}

#[test]
fn a_broken_snapshot_is_reported_with_its_problem_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    filled().save(&path).unwrap();
    let whole = std::fs::read_to_string(&path).unwrap();
    let server = ApiServer::builder().build();
    let version = server.version();
    for (text, told) in [
        (whole[..whole.len() / 2].to_owned(), "it is truncated"),
        (String::new(), "it is truncated"),
        ("hunter2".to_owned(), "it is not JSON"),
        ("[]".to_owned(), "its state has an invalid structure"),
        (whole.replacen("\"version\":", "\"version\":\"hunter2\",\"x\":", 1), "invalid structure"),
        (whole.replacen("\"informerSnapshot\":1", "\"informerSnapshot\":2", 1), "of format 2"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = server.restore_from(&path).unwrap_err().to_string();
        assert!(error.contains(told) && error.contains("state.json"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    std::fs::write(&path, whole.replace("\"configmaps\"", "\"misspelt\"")).unwrap();
    assert!(matches!(server.restore_from(&path), Err(SnapshotError::Restore { .. })));
    assert!(matches!(server.restore_from(folder.path().join("none")), Err(SnapshotError::Read { .. })));
    assert!(matches!(server.save(folder.path().join("none/state")), Err(SnapshotError::Write { .. })));
    assert_eq!((server.version(), server.list(&maps(), "").unwrap().len()), (version, 0));
}

#[test]
fn a_snapshot_that_cannot_be_restored_defines_no_kind() {
    let definition = json!({
        "metadata": {"name": "widgets.example.com", "resourceVersion": "7"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let state = |more: serde_json::Value| {
        let definitions = json!({
            "group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions", "objects": [definition],
        });
        serde_json::from_value(json!({"version": 9, "kinds": [definitions, more]})).unwrap()
    };
    let of = |resource: &str, name: &str| {
        let object = json!({"metadata": {"name": name, "resourceVersion": "8"}});
        json!({"group": "example.com", "version": "v1", "resource": resource, "objects": [object]})
    };
    let server = ApiServer::builder().build();
    server.restore(state(of("misspelt", "a"))).unwrap_err();
    assert!(!server.serves("example.com/v1"));
    server.restore(state(of("widgets", ""))).unwrap_err();
    assert!(!server.serves("example.com/v1"));
    server.restore(state(of("widgets", "a"))).unwrap();
    assert!(server.serves("example.com/v1"));
}

#[cfg(unix)]
#[test]
fn a_snapshot_file_follows_no_link_and_is_readable_by_its_owner_only() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("state.json"), folder.path().join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    // An attacker has created symbolic links with the names that a predictable temporary file could have, and
    // with the name of the snapshot file.
    for name in ["state.partial", "state.json.partial", "state.json.tmp", "state.json"] {
        symlink(&victim, folder.path().join(name)).unwrap();
    }
    let server = filled();
    for _ in 0..2 {
        server.save(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert!(found.is_file());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        // The permissions of the existing file must not apply to the new snapshot file.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 5, "no temporary file is left");
}

#[tokio::test]
async fn a_watch_from_a_version_before_a_restore_gets_410() {
    let server = filled();
    let snapshot = server.snapshot();
    server.create(&maps(), "default", json!({"metadata": {"name": "later"}})).unwrap();
    let version = server.version();
    server.restore(snapshot).unwrap();
    assert!(server.version() > version, "the version now identifies another state");
    let path = format!("/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion={version}");
    let (_, body) = call(&server, "GET", &path, "").await;
    assert!(body.contains("\"code\":410"), "{body}");
}
