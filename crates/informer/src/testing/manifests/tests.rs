use std::fs;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{ManifestState, Manifests};

fn crd(conversion: Value) -> CustomResourceDefinition {
    let crd = json!({
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "conversion": conversion,
            "group": "example.com",
            "names": {"kind": "Shop", "plural": "shops"},
            "scope": "Namespaced",
            "versions": [],
        },
    });
    serde_json::from_value(crd).unwrap()
}

fn write(folder: &Path, path: &str, text: &str) {
    fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
    fs::write(folder.join(path), text).unwrap();
}

fn states(report: &super::ManifestsReport) -> Vec<String> {
    report.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn manifests_are_checked_written_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "config/rbac/kustomization.yaml", "resources: []\n");
    write(folder, "config/rbac/role.yaml", "kind: ClusterRole\nmetadata:\n  name: shop-role\n");
    write(folder, "charts/shop/templates/deployment.yaml", "kind: Deployment\n");
    let manifests = Manifests::of_project("shop").folder(folder).crds([crd(Value::Null)]);
    let report = manifests.check().unwrap();
    assert!(report.is_stale());
    let paths = ["charts/shop/crds/shops.yaml", "charts/shop/templates/role.yaml", "config/crd/shops.yaml"];
    assert_eq!(states(&report), paths.map(|path| format!("stale {path}")));
    assert_eq!(states(&manifests.write().unwrap()), paths.map(|path| format!("written {path}")));
    assert_eq!(states(&manifests.check().unwrap()), paths.map(|path| format!("unchanged {path}")));

    // The test removes the manifest `role.yaml`, so the Helm template that was generated from it must be
    // removed. It also adds a conversion webhook to the CRD, so the chart must contain the CRD as a template.
    fs::remove_file(folder.join("config/rbac/role.yaml")).unwrap();
    let webhook = json!({"strategy": "Webhook", "webhook": {
        "clientConfig": {"service": {"name": "shop-webhook", "namespace": "shop-system", "path": "/convert"}},
        "conversionReviewVersions": ["v1"],
    }});
    let manifests = Manifests::of_project("shop").folder(folder).crds([crd(webhook)]);
    let report = manifests.write().unwrap();
    assert_eq!(
        states(&report),
        [
            "removed charts/shop/crds/shops.yaml",
            "written charts/shop/templates/crd_shops.yaml",
            "removed charts/shop/templates/role.yaml",
            "written config/crd/shops.yaml",
        ]
    );
    assert_eq!(report.files().next(), Some(("charts/shop/crds/shops.yaml", ManifestState::Removed)));
    let template = fs::read_to_string(folder.join("charts/shop/templates/crd_shops.yaml")).unwrap();
    let conversion = concat!(
        "  {{- if .Values.webhooks.enabled }}\n  conversion:\n    strategy: Webhook\n    webhook:\n",
        "      clientConfig:\n        service:\n          name: {{ include \"shop.fullname\" . }}-webhook\n",
        "          namespace: {{ .Release.Namespace }}\n          path: /convert\n",
        "      conversionReviewVersions:\n      - v1\n  {{- end }}\n",
    );
    assert!(template.starts_with("# Generated from src/api; "), "{template}");
    assert!(template.contains(conversion), "{template}");
    assert!(template.contains("    helm.sh/resource-policy: keep\n"), "{template}");
    assert!(template.contains("  name: shops.example.com\n  labels:\n"), "{template}");
    assert!(folder.join("charts/shop/templates/deployment.yaml").exists());
}

#[test]
fn names_and_namespaces_of_the_project_become_those_of_the_release() {
    let manifests = Manifests::of_project("web");
    let text = concat!(
        "# A comment about web.\nkind: RoleBinding\nmetadata:\n  name: web-leader\n  namespace: web-system\n",
        "roleRef:\n  kind: Role\n  name: web-leader\nsubjects:\n- kind: ServiceAccount\n  name: web\n",
        "  namespace: web-system\n---\nkind: Certificate\nmetadata:\n  name: web-webhook\n",
        "  annotations:\n    cert-manager.io/inject-ca-from: web-system/web-webhook\nspec:\n",
        "  dnsNames:\n  - web-webhook.web-system.svc\n  secretName: web-webhook\n  other: web\n",
        "  ports:\n  - name: web\n",
    );
    let (path, template) = manifests.chart_template("config/rbac/leader.yaml", text).unwrap();
    assert_eq!(path, "charts/web/templates/leader.yaml");
    let expected = concat!(
        "# Generated from config/rbac/leader.yaml; edit it and run `informer manifests`.\n",
        "# A comment about web.\nkind: RoleBinding\nmetadata:\n  name: FULL-leader\n  namespace: RELEASE\n",
        "  labels:\n    {{- include \"web.labels\" . | nindent 4 }}\n",
        "roleRef:\n  kind: Role\n  name: FULL-leader\nsubjects:\n- kind: ServiceAccount\n  name: FULL\n",
        "  namespace: RELEASE\n---\nkind: Certificate\nmetadata:\n  name: FULL-webhook\n",
        "  labels:\n    {{- include \"web.labels\" . | nindent 4 }}\n",
        "  annotations:\n    cert-manager.io/inject-ca-from: RELEASE/FULL-webhook\nspec:\n",
        "  dnsNames:\n  - FULL-webhook.RELEASE.svc\n  secretName: FULL-webhook\n  other: web\n",
        "  ports:\n  - name: web\n",
    );
    let expected = expected.replace("FULL", "{{ include \"web.fullname\" . }}");
    assert_eq!(template, expected.replace("RELEASE", "{{ .Release.Namespace }}"));
}

#[test]
fn templates_have_conditions_and_the_selector_of_the_release() {
    let manifests = Manifests::of_project("web");
    let text = concat!(
        "kind: Service\nmetadata:\n  name: website\n  labels:\n    app.kubernetes.io/name: web\n",
        "spec:\n  selector:\n    app.kubernetes.io/name: web\n  description: \"{{ text }}\"\n",
    );
    let (path, template) = manifests.chart_template("config/operations/service_monitor.yaml", text).unwrap();
    assert_eq!(path, "charts/web/templates/service_monitor.yaml");
    assert_eq!(
        template,
        concat!(
            "# Generated from config/operations/service_monitor.yaml; edit it and run ",
            "`informer manifests`.\n{{- if .Values.serviceMonitor.enabled }}\n",
            "kind: Service\nmetadata:\n  name: website\n  labels:\n",
            "    {{- include \"web.labels\" . | nindent 4 }}\nspec:\n  selector:\n",
            "    {{- include \"web.selector\" . | nindent 4 }}\n  description: \"{{ \"{{\" }} text }}\"\n",
            "{{- end }}\n",
        )
    );
    let (path, template) = manifests.chart_template("config/webhook/website.yaml", "kind: A\n").unwrap();
    assert_eq!(path, "charts/web/templates/webhook_website.yaml");
    assert!(template.contains("{{- if .Values.webhooks.enabled }}\n"), "{template}");
    for path in ["config/rbac/kustomization.yaml", "config/manager/deployment.yaml", "Cargo.toml"] {
        assert_eq!(manifests.chart_template(path, text), None, "{path}");
    }
}

#[cfg(feature = "webhook")]
#[test]
fn registrations_of_webhooks_are_generated_and_removed() {
    use informer_runtime::webhook::{AdmissionOperation, Allowed, WebhookOptions, WebhookServer};
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "config/webhook/service.yaml", "kind: Service\nmetadata:\n  name: pods-webhook\n");
    let deletions = WebhookOptions::new().operations([AdmissionOperation::Delete]);
    let server = WebhookServer::standalone()
        .default::<Pod>(|_, pod| async { Ok(pod) })
        .validate_with::<Pod>(deletions, |_| async { Ok(Allowed::new()) })
        .validate::<ConfigMap>(|_| async { Ok(Allowed::new()) });
    let project = || Manifests::of_project("pods").folder(folder);
    let report = project().webhooks(server.registered().to_vec()).write().unwrap();
    assert_eq!(
        states(&report),
        [
            "written charts/pods/templates/webhook_configmaps.yaml",
            "written charts/pods/templates/webhook_pods.yaml",
            "written charts/pods/templates/webhook_service.yaml",
            "written config/webhook/configmaps.yaml",
            "written config/webhook/pods.yaml",
        ]
    );
    let text = fs::read_to_string(folder.join("config/webhook/pods.yaml")).unwrap();
    let validating = concat!(
        "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata:\n",
        "  annotations:\n    cert-manager.io/inject-ca-from: pods-system/pods-webhook\n  name: pods-pods\n",
        "webhooks:\n- admissionReviewVersions:\n  - v1\n  clientConfig:\n    service:\n      name: pods-webhook\n",
        "      namespace: pods-system\n      path: /validate--v1-pod\n  failurePolicy: Fail\n",
        "  name: v1.pods.core\n  rules:\n  - apiGroups:\n    - ''\n    apiVersions:\n    - v1\n    operations:\n",
        "    - DELETE\n    resources:\n    - pods\n  sideEffects: None\n  timeoutSeconds: 10\n",
    );
    assert!(
        text.starts_with("# Generated from src/webhooks; edit it and run `informer manifests`.\n"),
        "{text}"
    );
    assert!(text.ends_with(validating), "{text}");
    let template = fs::read_to_string(folder.join("charts/pods/templates/webhook_pods.yaml")).unwrap();
    assert!(template.starts_with("# Generated from src/webhooks; "), "{template}");
    assert_eq!(template.matches("# Generated from ").count(), 1, "{template}");
    assert!(template.contains("  name: v1.pods.core\n"), "the name of a webhook stays: {template}");

    let report = project().webhooks(server.registered()[2..].to_vec()).check().unwrap();
    let stale: Vec<_> = states(&report).into_iter().filter(|line| line.starts_with("stale")).collect();
    assert_eq!(stale, ["stale charts/pods/templates/webhook_pods.yaml", "stale config/webhook/pods.yaml"]);
    let _ = project().write().unwrap();
    assert!(!folder.join("config/webhook/pods.yaml").exists());
    assert!(folder.join("config/webhook/service.yaml").exists(), "it is not generated");
}
