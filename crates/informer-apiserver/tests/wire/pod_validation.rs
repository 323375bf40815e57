//! Validation of pods, compared with that of kube-apiserver: resources, hosts, operating systems, annotations
//! and label keys. `validation.rs` has the rules of volumes and updates.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{causes_of, dry_create, json, read, send_with};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a", "image": "a:1"}]},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    pod
}

fn container(field: &str, value: Value) -> Value {
    json!({"containers": [{"name": "a", "image": "a:1", field: value}]})
}

/// A test case: the spec of a pod, and the causes for which it is rejected.
type Case = (Value, &'static [&'static str]);

async fn check<const N: usize>(server: &ApiServer, cases: [Case; N]) {
    for (spec, causes) in cases {
        let status = if causes.is_empty() { 201 } else { 422 };
        let expected = (status, causes.iter().map(|cause| (*cause).to_owned()).collect());
        assert_eq!(dry_create(server, PODS, &pod(spec.clone())).await, expected, "{spec}");
    }
}

async fn patch(server: &ApiServer, patch: &Value) -> (u16, Vec<String>) {
    let headers = [("content-type", "application/merge-patch+json")];
    let response = send_with(server, "PATCH", &format!("{PODS}/a"), &headers, &patch.to_string()).await;
    let (status, body) = read(response).await;
    (status, causes_of(&serde_json::from_str(&body).unwrap()))
}

#[tokio::test]
async fn huge_pages_need_cpu_or_memory_and_equal_limits() {
    let server = ApiServer::builder().build();
    let limits = |limits: Value| container("resources", json!({"limits": limits}));
    let resources = |limits: Value, requests: Value| {
        container("resources", json!({"limits": limits, "requests": requests}))
    };
    let page = json!({"hugepages-2Mi": "2Mi"});
    check(
        &server,
        [
            (limits(json!({"hugepages-2Mi": "4Mi", "cpu": "1"})), &[]),
            (resources(json!({"hugepages-1Gi": "1Gi"}), json!({"memory": "1Gi"})), &[]),
            (limits(page.clone()), &["Forbidden spec.containers[0].resources"]),
            (
                limits(json!({"hugepages-2Mi": "3Mi", "cpu": "1"})),
                &[
                    "Invalid spec.containers[0].resources.limits[hugepages-2Mi]",
                    "Invalid spec.containers[0].resources.requests[hugepages-2Mi]",
                ],
            ),
            (
                resources(json!({"hugepages-2Mi": "4Mi", "cpu": "1"}), page),
                &["Invalid spec.containers[0].resources.requests"],
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn extended_resource_needs_a_limit_that_equals_its_request() {
    let server = ApiServer::builder().build();
    let requests = |limits: Value| {
        container("resources", json!({"requests": {"example.com/gpu": "2"}, "limits": limits}))
    };
    check(
        &server,
        [
            (requests(json!({"example.com/gpu": "2"})), &[]),
            (requests(json!({"cpu": "1"})), &["Required spec.containers[0].resources.limits"]),
            (requests(json!({"example.com/gpu": "3"})), &["Invalid spec.containers[0].resources.requests"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn pod_level_resources_cover_the_containers() {
    let server = ApiServer::builder().build();
    let with = |resources: Value, requests: Value| {
        let container = json!({"name": "a", "image": "a:1", "resources": requests});
        json!({"resources": resources, "containers": [container]})
    };
    let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
    let mut sidecars = with(cpu("2"), cpu("1"));
    sidecars["initContainers"] = json!([
        {"name": "s", "image": "a:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "image": "a:1", "resources": {"requests": {"cpu": "1500m"}}},
    ]);
    let mut windows = with(cpu("1"), json!({}));
    windows["os"] = json!({"name": "windows"});
    check(
        &server,
        [
            (with(cpu("1"), cpu("1")), &[]),
            (with(json!({"limits": {"memory": "1Gi", "cpu": "1"}}), cpu("500m")), &[]),
            (with(cpu("1"), cpu("2")), &["Invalid spec.resources.requests[cpu]"]),
            (sidecars, &["Invalid spec.resources.requests[cpu]"]),
            (
                with(
                    json!({"limits": {"cpu": "1"}}),
                    json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}),
                ),
                &["Invalid spec.resources.containers[0][cpu].limits"],
            ),
            (
                with(json!({"requests": {"ephemeral-storage": "1Gi"}}), json!({})),
                &["NotSupported spec.resources.requests[ephemeral-storage]"],
            ),
            (windows, &["Forbidden spec.resources"]),
        ],
    )
    .await;
    let spec = with(json!({"limits": {"cpu": "2", "memory": "1Gi"}}), cpu("500m"));
    let (_, created) = json(&server, "POST", PODS, &pod(spec).to_string()).await;
    let requests = json!({"cpu": "500m", "memory": "1Gi"});
    assert_eq!(created["spec"]["resources"]["requests"], requests);
}

#[tokio::test]
async fn windows_host_process_needs_the_host_network_and_all_containers() {
    let server = ApiServer::builder().build();
    let on_host = |value: bool| json!({"windowsOptions": {"hostProcess": value}});
    let mut mixed = container("securityContext", on_host(true));
    mixed["containers"].as_array_mut().unwrap().push(json!({"name": "b", "image": "a:1"}));
    mixed["hostNetwork"] = true.into();
    let mut contradiction = container("securityContext", on_host(false));
    contradiction["securityContext"] = on_host(true);
    check(
        &server,
        [
            (json!({"hostNetwork": true, "securityContext": on_host(true)}), &[]),
            (json!({"securityContext": on_host(false)}), &[]),
            (json!({"securityContext": on_host(true)}), &["Invalid spec.hostNetwork"]),
            (mixed, &["Invalid spec"]),
            (contradiction, &["Invalid spec.containers[0].securityContext.windowsOptions.hostProcess"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn pod_with_a_user_namespace_shares_no_namespace_with_the_host() {
    let server = ApiServer::builder().build();
    let own = |field: &str| json!({"hostUsers": false, field: true});
    let devices = json!([{"name": "v", "devicePath": "/dev/v"}]);
    let mut block = container("volumeDevices", devices);
    block["hostUsers"] = false.into();
    block["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    check(
        &server,
        [
            (json!({"hostUsers": false}), &[]),
            (json!({"hostUsers": true, "hostPID": true, "hostIPC": true, "hostNetwork": true}), &[]),
            (own("hostNetwork"), &["Forbidden spec.hostNetwork"]),
            (own("hostPID"), &["Forbidden spec.HostPID"]),
            (own("hostIPC"), &["Forbidden spec.HostIPC"]),
            (block, &["Forbidden spec.containers[0].volumeDevices"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn sysctls_of_a_shared_namespace_are_rejected() {
    let server = ApiServer::builder().build();
    let sysctl = |name: &str, host: &str| json!({host: true, "securityContext": {"sysctls": [{"name": name, "value": "1"}]}});
    let cause: &[&str] = &["Invalid spec.securityContext.sysctls[0].name"];
    check(
        &server,
        [
            (sysctl("net.ipv4.tcp_syncookies", "hostIPC"), &[]),
            (sysctl("kernel.shmmax", "hostNetwork"), &[]),
            (sysctl("kernel.panic", "hostNetwork"), &[]),
            (sysctl("network.a", "hostNetwork"), &[]),
            (sysctl("net.ipv4.tcp_syncookies", "hostNetwork"), cause),
            (sysctl("net/ipv4/tcp_syncookies", "hostNetwork"), cause),
            (sysctl("kernel.shmmax", "hostIPC"), cause),
            (sysctl("fs.mqueue.msg_max", "hostIPC"), cause),
        ],
    )
    .await;
    let mut stored = pod(sysctl("kernel.sem", "hostIPC"));
    stored["spec"]["terminationGracePeriodSeconds"] = 30.into();
    server.raw().create(&Gvr::new("", "v1", "pods"), "default", stored).unwrap();
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let (_, causes) = patch(&server, &labels).await;
    assert!(!causes.iter().any(|cause| cause.contains("sysctls")), "{causes:?}");
}

#[tokio::test]
async fn hostname_override_excludes_other_host_names() {
    let server = ApiServer::builder().build();
    let name = |name: &str| json!({"hostnameOverride": name});
    let and = |field: &str| json!({"hostnameOverride": "web.example.com", field: true});
    check(
        &server,
        [
            (name("web.example.com"), &[]),
            (name("Web"), &["Invalid spec.hostnameOverride"]),
            (name(&"a".repeat(65)), &["TooLong spec.hostnameOverride"]),
            (and("hostNetwork"), &["Forbidden spec.hostnameOverride"]),
            (and("setHostnameAsFQDN"), &["Forbidden spec.hostnameOverride"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn fields_of_the_other_operating_system_are_rejected() {
    let server = ApiServer::builder().build();
    let on = |name: &str, mut spec: Value| {
        spec["os"] = json!({"name": name});
        spec
    };
    let context = |field: &str, value: Value| container("securityContext", json!({field: value}));
    check(
        &server,
        [
            (on("linux", context("privileged", true.into())), &[]),
            (on("windows", json!({"hostPID": false, "securityContext": {"runAsNonRoot": true}})), &[]),
            (on("windows", context("windowsOptions", json!({"runAsUserName": "user"}))), &[]),
            (
                on("linux", context("windowsOptions", json!({"runAsUserName": "user"}))),
                &["Forbidden spec.containers[0].securityContext.windowsOptions"],
            ),
            (
                on("windows", json!({"hostPID": true, "hostUsers": true, "shareProcessNamespace": false})),
                &[
                    "Forbidden spec.hostUsers",
                    "Forbidden spec.hostPID",
                    "Forbidden spec.shareProcessNamespace",
                ],
            ),
            (
                on(
                    "windows",
                    json!({"securityContext": {"fsGroup": 1, "seccompProfile": {"type": "Unconfined"}}}),
                ),
                &["Forbidden spec.securityContext.seccompProfile", "Forbidden spec.securityContext.fsGroup"],
            ),
            (
                on("windows", context("readOnlyRootFilesystem", false.into())),
                &["Forbidden spec.containers[0].securityContext.readOnlyRootFilesystem"],
            ),
            (on("plan9", json!({})), &["NotSupported spec.os"]),
            (on("", json!({})), &["Required spec.os.name"]),
        ],
    )
    .await;
}

#[tokio::test]
async fn se_linux_change_policy_must_be_recursive() {
    let server = ApiServer::builder().build();
    let policy = |policy: &str| json!({"securityContext": {"seLinuxChangePolicy": policy}});
    let cause: &[&str] = &["NotSupported spec.securityContext.seLinuxChangePolicy"];
    check(&server, [(policy("Recursive"), &[]), (policy("MountOption"), cause)]).await;
}

const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/a";
const MIRROR: &str = "kubernetes.io/config.mirror";

#[tokio::test]
async fn annotations_that_the_server_reads_are_validated() {
    let server = ApiServer::builder().build();
    let cost = "controller.kubernetes.io/pod-deletion-cost";
    let other = "container.apparmor.security.beta.kubernetes.io/b";
    let tolerations = "scheduler.alpha.kubernetes.io/tolerations";
    let keyed = |name: &str| vec![format!("Invalid metadata.annotations[{name}]")];
    let seccomp = vec![format!("Invalid metadata.annotations.{SECCOMP}")];
    let cases = [
        (cost, "-5", vec![]),
        (cost, "+5", keyed(cost)),
        (cost, "007", keyed(cost)),
        (cost, "2147483648", keyed(cost)),
        (SECCOMP, "docker/default", vec![]),
        (SECCOMP, "localhost/a", vec![]),
        (SECCOMP, "localhost/../a", seccomp.clone()),
        (SECCOMP, "strict", seccomp),
        (APP_ARMOR, "runtime/default", vec![]),
        (APP_ARMOR, "strict", keyed(APP_ARMOR)),
        (other, "unconfined", keyed(other)),
        (MIRROR, "a", keyed(MIRROR)),
        (tolerations, r#"[{"operator":"Exists"}]"#, vec![]),
        (tolerations, "[", vec!["Invalid metadata.annotations".to_owned()]),
        (
            tolerations,
            r#"[{"key":"a","operator":"Maybe"}]"#,
            vec![format!("NotSupported metadata.annotations.{tolerations}[0].operator")],
        ),
    ];
    for (name, value, causes) in cases {
        let mut annotated = pod(json!({}));
        annotated["metadata"]["annotations"] = json!({name: value});
        let status = if causes.is_empty() { 201 } else { 422 };
        assert_eq!(dry_create(&server, PODS, &annotated).await, (status, causes), "{name}: {value}");
    }
}

#[tokio::test]
async fn profiles_in_annotations_must_match_those_in_fields() {
    let server = ApiServer::builder().build();
    let local = |path: &str| json!({"type": "Localhost", "localhostProfile": path});
    let create = async |annotation: (&str, &str), spec: Value| {
        let mut annotated = pod(spec);
        annotated["metadata"]["annotations"] = json!({annotation.0: annotation.1});
        dry_create(&server, PODS, &annotated).await
    };
    let seccomp = |profile: Value| json!({"securityContext": {"seccompProfile": profile}});
    let app_armor = |profile: Value| json!({"securityContext": {"appArmorProfile": profile}});
    let rejected = |cause: &str| (422, vec![cause.to_owned()]);
    let runtime = json!({"type": "RuntimeDefault"});
    assert_eq!(create((SECCOMP, "docker/default"), seccomp(runtime.clone())).await, (201, vec![]));
    assert_eq!(create((SECCOMP, "localhost/a"), seccomp(local("a"))).await, (201, vec![]));
    assert_eq!(create((APP_ARMOR, "localhost/a"), app_armor(local("a"))).await, (201, vec![]));
    assert_eq!(
        create((SECCOMP, "unconfined"), seccomp(runtime.clone())).await,
        rejected("Forbidden spec.securityContext.seccompProfile.type")
    );
    assert_eq!(
        create((SECCOMP, "localhost/a"), seccomp(local("b"))).await,
        rejected("Forbidden spec.securityContext.seccompProfile.localhostProfile")
    );
    assert_eq!(
        create((APP_ARMOR, "unconfined"), app_armor(runtime)).await,
        rejected("Forbidden spec.containers[0].securityContext.appArmorProfile.type")
    );
}

#[tokio::test]
async fn annotations_of_app_armor_and_mirror_pods_are_immutable() {
    let server = ApiServer::builder().build();
    let mut created = pod(json!({}));
    created["metadata"]["annotations"] = json!({APP_ARMOR: "unconfined"});
    assert_eq!(json(&server, "POST", PODS, &created.to_string()).await.0, 201);
    let annotate = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
    assert_eq!(patch(&server, &annotate("note", json!("text"))).await, (200, vec![]));
    let app_armor = format!("Forbidden metadata.annotations[{APP_ARMOR}]");
    assert_eq!(patch(&server, &annotate(APP_ARMOR, Value::Null)).await, (422, vec![app_armor.clone()]));
    assert_eq!(patch(&server, &annotate(APP_ARMOR, json!("runtime/default"))).await, (422, vec![app_armor]));
    let (_, causes) = patch(&server, &annotate(MIRROR, json!("a"))).await;
    assert!(causes.contains(&format!("Forbidden metadata.annotations[{MIRROR}]")), "{causes:?}");
}

#[tokio::test]
async fn label_keys_must_not_be_selected_twice() {
    let server = ApiServer::builder().build();
    let term = |selector: Value, matched: &str, mismatched: &str| {
        let term = json!({
            "topologyKey": "zone", "labelSelector": selector,
            "matchLabelKeys": [matched], "mismatchLabelKeys": [mismatched],
        });
        json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    let spread = |selector: Value| {
        let constraint = json!({
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector, "matchLabelKeys": ["app"],
        });
        json!({"topologySpreadConstraints": [constraint]})
    };
    let web = json!({"matchLabels": {"app": "web"}});
    check(
        &server,
        [
            (term(json!({}), "app", "tier"), &[]),
            (term(web.clone(), "tier", "app"), &[]),
            (spread(json!({})), &[]),
            (
                term(json!({}), "tier", "tier"),
                &["Invalid spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys[0]"],
            ),
            (
                term(web.clone(), "app", "tier"),
                &["Invalid spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]"],
            ),
            (spread(web), &["Invalid spec.topologySpreadConstraints[0][0]"]),
        ],
    )
    .await;
    let (_, created) = json(&server, "POST", PODS, &pod(spread(json!({}))).to_string()).await;
    let selector = &created["spec"]["topologySpreadConstraints"][0]["labelSelector"];
    assert_eq!(*selector, json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}));
}

#[tokio::test]
async fn fields_whose_feature_gates_are_off_are_dropped() {
    let server = ApiServer::builder().build();
    let bundle = json!({"clusterTrustBundle": {"path": ""}});
    let certificate = json!({"podCertificate": {"signerName": "", "keyType": "none"}});
    let mut spec = container("lifecycle", json!({"stopSignal": "SIGNAL"}));
    spec["volumes"] = json!([{"name": "v", "projected": {"sources": [bundle, certificate]}}]);
    let (status, created) = json(&server, "POST", PODS, &pod(spec).to_string()).await;
    assert_eq!(status, 201, "{created}");
    assert_eq!(created["spec"]["containers"][0]["lifecycle"], Value::Null);
    assert_eq!(created["spec"]["volumes"][0]["projected"]["sources"], json!([{}, {}]));
}

#[tokio::test]
async fn pod_level_requests_are_defaulted_from_unquoted_numbers() {
    let server = ApiServer::builder().build();
    let container = |name: &str, cpu: Value| json!({"name": name, "image": "a:1", "resources": {"requests": {"cpu": cpu}}});
    let spec = json!({
        "resources": {"limits": {"cpu": 2}},
        "containers": [container("a", json!("500m")), container("b", json!(1))],
    });
    let (status, created) = json(&server, "POST", PODS, &pod(spec).to_string()).await;
    assert_eq!((status, &created["spec"]["resources"]["requests"]), (201, &json!({"cpu": "1500m"})));
}

#[tokio::test]
async fn pod_level_resources_decide_the_qos_class() {
    let server = ApiServer::builder().build();
    let all = json!({"cpu": "1", "memory": "1Gi"});
    let with = |pod: Value, container: Value| json!({"resources": pod, "containers": [{"name": "a", "image": "a:1", "resources": container}]});
    for (spec, class) in [
        (with(json!({"limits": all}), json!({})), "Guaranteed"),
        (with(json!({"limits": {"cpu": "1"}}), json!({})), "Burstable"),
        (with(json!({"requests": {"cpu": "2", "memory": "2Gi"}}), json!({"limits": all})), "Burstable"),
        (with(json!(null), json!({"limits": all})), "Guaranteed"),
        (with(json!(null), json!({"limits": {"cpu": "0", "memory": "0"}})), "BestEffort"),
        (with(json!(null), json!({})), "BestEffort"),
    ] {
        let url = format!("{PODS}?dryRun=All");
        let (_, created) = json(&server, "POST", &url, &pod(spec.clone()).to_string()).await;
        assert_eq!(created["status"]["qosClass"], class, "{spec}");
    }
}

#[tokio::test]
async fn loaded_pod_keeps_fields_that_depend_on_feature_gates() {
    let server = ApiServer::builder().build();
    let selector = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]});
    let spec = json!({
        "hostUsers": false, "hostNetwork": true,
        "securityContext": {"seLinuxChangePolicy": "MountOption"},
        "schedulingGroup": {"podGroupName": "g"},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector, "matchLabelKeys": ["app"],
        }],
    });
    let (status, _) = json(&server, "POST", PODS, &pod(spec.clone()).to_string()).await;
    assert_eq!(status, 422);
    let loaded = server.create(&Gvr::new("", "v1", "pods"), "default", pod(spec.clone())).unwrap();
    assert_eq!(loaded["spec"]["schedulingGroup"], spec["schedulingGroup"]);
    assert_eq!(loaded["spec"]["topologySpreadConstraints"][0]["labelSelector"], selector);
}

#[tokio::test]
async fn template_of_a_new_workload_cannot_use_disabled_policies() {
    let server = ApiServer::builder().build();
    let mut template = pod(json!({"securityContext": {"seLinuxChangePolicy": "MountOption"}}));
    template["metadata"] = json!({"labels": {"app": "web"}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": template["metadata"], "spec": template["spec"]}},
    });
    let url = "/apis/apps/v1/namespaces/default/deployments";
    let cause = "NotSupported spec.template.spec.securityContext.seLinuxChangePolicy".to_owned();
    assert_eq!(dry_create(&server, url, &deployment).await, (422, vec![cause]));
    server.create(&Gvr::new("apps", "v1", "deployments"), "default", deployment).unwrap();
}

#[tokio::test]
async fn repeated_label_key_adds_few_requirements() {
    let server = ApiServer::builder().build();
    let spread = |keys: Vec<&str>| {
        json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {}, "matchLabelKeys": keys,
        }]})
    };
    let mut long = pod(spread(vec!["a"; 1000]));
    long["metadata"]["labels"] = json!({"a": "b".repeat(10_000)});
    assert_eq!(dry_create(&server, PODS, &long).await.0, 422);
    assert_eq!(dry_create(&server, PODS, &pod(spread(vec!["app"; 1000]))).await.0, 422);
    assert_eq!(dry_create(&server, PODS, &pod(spread(vec!["app"]))).await.0, 201);
}

#[tokio::test]
async fn status_update_validates_annotations() {
    let server = ApiServer::builder().build();
    let (status, _) = json(&server, "POST", PODS, &pod(json!({})).to_string()).await;
    assert_eq!(status, 201);
    let update = async |annotations: Value| {
        let headers = [("content-type", "application/merge-patch+json")];
        let body = json!({"metadata": {"annotations": annotations}}).to_string();
        let response = send_with(&server, "PATCH", &format!("{PODS}/a/status"), &headers, &body).await;
        let (status, body) = read(response).await;
        (status, causes_of(&serde_json::from_str(&body).unwrap()))
    };
    let mirror = "metadata.annotations[kubernetes.io/config.mirror]";
    let (status, causes) = update(json!({"kubernetes.io/config.mirror": "a"})).await;
    assert_eq!((status, &causes[0]), (422, &format!("Forbidden {mirror}")));
    assert_eq!(update(json!({"example.com/a": "b"})).await, (200, vec![]));
}

#[tokio::test]
async fn fields_of_the_tolerations_annotation_are_case_insensitive() {
    let server = ApiServer::builder().build();
    let annotated = |operator: &str| {
        let tolerations = json!([{"Key": "a", "OPERATOR": operator}]).to_string();
        let mut pod = pod(json!({}));
        pod["metadata"]["annotations"] = json!({"scheduler.alpha.kubernetes.io/tolerations": tolerations});
        pod
    };
    assert_eq!(dry_create(&server, PODS, &annotated("Exists")).await, (201, vec![]));
    assert_eq!(dry_create(&server, PODS, &annotated("Maybe")).await.0, 422);
}
