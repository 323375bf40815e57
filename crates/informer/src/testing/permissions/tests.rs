use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use tower::ServiceExt;

use super::{PermissionsError, PermissionsUsed, RoleRules, Target, selected_name};
use crate::testing::{ApiServer, TestServer};

/// Builds used permissions from tuples `(group, resource, verb, object)`. The object is `namespace/name`, or
/// only a name. An empty namespace or name means that the request has none, as a list in all namespaces does.
fn used(permissions: &[(&str, &str, &str, &str)]) -> PermissionsUsed {
    let mut used = PermissionsUsed::default();
    let part = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    for (group, resource, verb, object) in permissions {
        let (namespace, name) = object.split_once('/').unwrap_or(("", object));
        used.add(group, resource, verb, Target { namespace: part(namespace), name: part(name) });
    }
    used
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&one| one.to_owned()).collect()
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(strings(groups)),
        resources: Some(strings(resources)),
        verbs: strings(verbs),
        resource_names: (!names.is_empty()).then(|| strings(names)),
        ..PolicyRule::default()
    }
}

fn cluster_role(rules: Vec<PolicyRule>) -> ClusterRole {
    let mut role = ClusterRole { rules: Some(rules), ..ClusterRole::default() };
    role.metadata.name = Some("shop".to_owned());
    role
}

#[track_caller]
fn assert_differences(used: &PermissionsUsed, role: impl Into<RoleRules>, expected: &[&str]) {
    let compared = used.compare(role);
    assert_eq!(compared.is_exact(), expected.is_empty());
    let printed = compared.to_string();
    let lines: Vec<&str> = printed.lines().filter(|_| !compared.is_exact()).collect();
    assert_eq!(lines, expected);
}

#[test]
fn unused_and_missing_permissions_are_listed_with_their_rules() {
    let used = used(&[("apps", "deployments", "list", ""), ("apps", "deployments", "patch", "default/web")]);
    let exact = cluster_role(vec![rule(&["apps"], &["deployments"], &["list", "patch"], &[])]);
    assert_differences(&used, &exact, &[]);
    let other = cluster_role(vec![
        rule(&[""], &["pods"], &["get"], &[]),
        rule(&["apps"], &["deployments"], &["list", "delete"], &[]),
    ]);
    assert_differences(
        &used,
        &other,
        &[
            "ClusterRole shop, rule 1: granted and never used: get pods in API group \"\"",
            "ClusterRole shop, rule 2: granted and never used: delete deployments in API group \"apps\"",
            "ClusterRole shop, rule 2: used and not granted: patch deployments in API group \"apps\", for \
             default/web",
        ],
    );
    let compared = used.compare(&other);
    assert_eq!((compared.unused().len(), compared.missing().len()), (2, 1));
    assert_eq!(compared.missing()[0].permission().verb, "patch");
}

#[test]
fn wildcard_grants_all_and_is_unused_only_if_nothing_matches() {
    let used = used(&[("apps", "deployments", "patch", "a/b"), ("apps", "deployments/status", "get", "a/b")]);
    for (groups, resources, verbs) in [(["*"], ["*"], ["*"]), (["apps"], ["*"], ["*"])] {
        assert_differences(&used, &cluster_role(vec![rule(&groups, &resources, &verbs, &[])]), &[]);
    }
    assert_differences(
        &used,
        &cluster_role(vec![
            rule(&["*"], &["*"], &["patch", "get"], &[]),
            rule(&["batch"], &["*"], &["*"], &[]),
        ]),
        &["ClusterRole shop, rule 2: granted and never used: * * in API group \"batch\""],
    );
}

#[test]
fn subresource_needs_its_own_permission() {
    let used = used(&[("apps", "deployments/status", "patch", "a/b")]);
    assert_differences(&used, &cluster_role(vec![rule(&["apps"], &["*/status"], &["patch"], &[])]), &[]);
    assert_differences(
        &used,
        &cluster_role(vec![rule(&["apps"], &["deployments", "*/scale"], &["patch"], &[])]),
        &[
            "ClusterRole shop, rule 1: granted and never used: patch deployments in API group \"apps\"",
            "ClusterRole shop, rule 1: granted and never used: patch */scale in API group \"apps\"",
            "ClusterRole shop, rule 1: used and not granted: patch deployments/status in API group \"apps\", \
             for a/b",
        ],
    );
}

#[test]
fn resource_names_restrict_a_rule_to_objects() {
    let used = used(&[("", "secrets", "get", "shop/tls"), ("", "secrets", "list", "shop/")]);
    assert_differences(
        &used,
        &cluster_role(vec![rule(&[""], &["secrets"], &["get", "list"], &["tls", "old"])]),
        &[
            "ClusterRole shop, rule 1: granted and never used: get secrets in API group \"\", on old",
            "ClusterRole shop, rule 1: granted and never used: list secrets in API group \"\", on tls",
            "ClusterRole shop, rule 1: granted and never used: list secrets in API group \"\", on old",
            "ClusterRole shop, rule 1: used and not granted: list secrets in API group \"\", for namespace shop",
        ],
    );
    assert_eq!(selected_name("watch=true&fieldSelector=metadata.name=tls").as_deref(), Some("tls"));
    assert_eq!(selected_name("fieldSelector=a=b,metadata.name==tls").as_deref(), Some("tls"));
    assert_eq!(selected_name("fieldSelector=metadata.name!=tls"), None);
}

#[test]
fn role_grants_permissions_in_its_namespace() {
    let mut role = Role { rules: Some(vec![rule(&[""], &["secrets"], &["get"], &[])]), ..Role::default() };
    role.metadata.name = Some("shop".to_owned());
    role.metadata.namespace = Some("a".to_owned());
    assert_differences(&used(&[("", "secrets", "get", "a/tls")]), &role, &[]);
    let printed = used(&[("", "secrets", "get", "a/tls"), ("", "secrets", "get", "b/tls")]).compare(&role);
    let missing = "Role a/shop, rule 1: used and not granted: get secrets in API group \"\", for b/tls";
    assert_eq!(printed.to_string(), missing);
}

#[test]
fn differences_with_a_manifest_have_the_lines_of_its_rules() {
    let text = concat!(
        "# The role.\nkind: ClusterRole\nmetadata: {name: a}\nrules:\n# The first rule.\n",
        "- apiGroups: [apps]\n  resources:\n  - deployments\n  verbs: [list]\n\n",
        "- verbs: [get]\n  apiGroups: [\"\"]\n  resources: [pods]\n---\nkind: ClusterRoleBinding\n---\n",
        "kind: Role\nmetadata: {name: b, namespace: b}\nrules: [{verbs: [get], apiGroups: [\"\"], ",
        "resources: [secrets]}]\n",
    );
    let rules = RoleRules::parse(text, "role.yaml").unwrap().unwrap();
    assert_differences(
        &used(&[("apps", "deployments", "watch", ""), ("batch", "jobs", "get", "a/b")]),
        rules,
        &[
            "role.yaml:6: granted and never used: list deployments in API group \"apps\"",
            "role.yaml:11: granted and never used: get pods in API group \"\"",
            "role.yaml:19: granted and never used: get secrets in API group \"\"",
            "role.yaml:6: used and not granted: watch deployments in API group \"apps\", for the whole cluster",
            "role.yaml:4: used and not granted: get jobs in API group \"batch\", for a/b",
        ],
    );
    assert!(RoleRules::parse("kind: Service\n---\n# empty\n", "role.yaml").unwrap().is_none());
}

#[test]
fn used_permissions_are_printed_as_rules() {
    let used =
        used(&[("", "pods", "watch", ""), ("", "pods", "list", ""), ("apps", "deployments", "get", "a")]);
    assert_eq!(
        used.to_string(),
        "- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [list, watch]\n\
         - apiGroups: [apps]\n  resources: [deployments]\n  verbs: [get]\n"
    );
    assert_eq!(used.iter().count(), 3);
}

#[tokio::test]
async fn removed_requests_are_an_error() {
    let server = TestServer::of(ApiServer::builder().build());
    let send = async |uri: &str, user_agent: &str| {
        let request = http::Request::get(uri).header("user-agent", user_agent);
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        server.server().service().oneshot(request).await.unwrap();
    };
    send("/api/v1/pods", "small").await;
    let used = server.permissions_used().unwrap();
    assert_eq!(used.to_string(), "- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [list]\n");
    assert_eq!(server.permissions_used_by("admin").unwrap(), used);
    assert_eq!(server.permissions_used_by("jane").unwrap(), PermissionsUsed::default());

    // The server's request log is limited to 64 MiB, and each text of a request to 4,096 characters. These
    // requests have six such texts, and exceed the limit together, so the server removes the first ones.
    let long = "a".repeat(4096);
    let uri = format!("/api/v1/namespaces/{long}/pods/{long}?resourceVersion={long}");
    for _ in 0..3000 {
        send(&uri, &long).await;
    }
    let error = server.permissions_used().unwrap_err();
    assert!(matches!(error, PermissionsError::RequestsRemoved(_)), "{error}");
    assert!(error.to_string().contains("the server has removed"), "{error}");
}
