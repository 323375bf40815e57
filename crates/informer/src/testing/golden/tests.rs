use std::fs;

use serde_json::{Value, json};

use super::{Golden, GoldenError, difference};

fn deployment() -> Value {
    json!({
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {
            "name": "web",
            "uid": "1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "a"}],
            "annotations": {"example.com/checked": "now", "example.com/team": "shop"},
            "ownerReferences": [{"kind": "Website", "name": "shop", "uid": "2"}],
        },
        "spec": {"replicas": 2, "startTime": "2026-01-01T00:00:00Z"},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00.000001Z"},
        ], "leadTime": "fast"},
    })
}

const EXPECTED: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  annotations:
    example.com/team: shop
  name: web
  ownerReferences:
  - kind: Website
    name: shop
spec:
  replicas: 2
  startTime: 2026-01-01T00:00:00Z
status:
  conditions:
  - status: 'True'
    type: Ready
  leadTime: fast
";

#[test]
fn golden_file_is_written_without_volatile_fields_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/web.yaml");
    let golden = Golden::new(&path).ignore("metadata.annotations[example.com/checked]").update(false);
    assert!(matches!(golden.check(&deployment()), Err(GoldenError::Missing(_))));
    golden.clone().update(true).check(&deployment()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), EXPECTED);
    golden.assert(&deployment());
    fs::write(&path, EXPECTED.replace('\n', "\r\n")).unwrap();
    golden.check(&deployment()).unwrap();

    let mut changed = deployment();
    changed["spec"]["replicas"] = 3.into();
    changed["metadata"]["uid"] = "9".into();
    let error = golden.check(&changed).unwrap_err();
    let expected = format!(
        "compare an object with {}: the object differs (-: file, +: object); set UPDATE_GOLDEN=1 to write the \
         file\n@@ -8,7 +8,7 @@\n   - kind: Website\n     name: shop\n spec:\n-  replicas: 2\n+  \
         replicas: 3\n   startTime: 2026-01-01T00:00:00Z\n status:\n   conditions:",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
    golden.update(true).check(&changed).unwrap();
    assert!(fs::read_to_string(&path).unwrap().contains("replicas: 3"));
}

#[test]
fn list_of_objects_is_one_golden_file() {
    let folder = tempfile::tempdir().unwrap();
    let golden = Golden::new(folder.path().join("all.yaml"));
    golden.clone().update(true).check(&[deployment(), deployment()]).unwrap();
    let golden = golden.update(false);
    golden.check(&vec![deployment(), deployment()]).unwrap();
    assert!(golden.check(&[deployment()]).is_err());
}

#[test]
fn difference_is_bounded() {
    assert_eq!(difference("a\nb\n", "a\nc\n"), "@@ -1,2 +1,2 @@\n a\n-b\n+c");
    let text = |end: &str| -> String { (0..3000).map(|line| format!("{line}{end}\n")).collect() };
    let difference = difference(&text(""), &text("!"));
    assert_eq!(difference.lines().count(), 201);
    assert!(difference.ends_with("\n... 5801 more lines"), "{difference}");
}
