//! Validation of the addresses of Services and EndpointSlices. The server has one range of cluster IPs, which
//! is one of IPv4.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{causes_of, dry_create, json, read, send_with};

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
    });
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    service
}

async fn patch(server: &ApiServer, spec: Value) -> (u16, Vec<String>) {
    let headers = [("content-type", "application/merge-patch+json")];
    let body = json!({"spec": spec}).to_string();
    let (status, body) =
        read(send_with(server, "PATCH", &format!("{SERVICES}/a"), &headers, &body).await).await;
    (status, causes_of(&serde_json::from_str(&body).unwrap()))
}

#[tokio::test]
async fn cluster_ips_and_families_of_a_new_service_must_be_consistent() {
    let server = ApiServer::builder().build();
    let ips = |ips: Value| json!({"clusterIP": ips[0], "clusterIPs": ips});
    let families = |families: Value| json!({"ipFamilies": families});
    let cases: [(Value, &[&str]); 16] = [
        (json!({"clusterIP": "10.0.0.9"}), &[]),
        (ips(json!(["10.0.0.9"])), &[]),
        (ips(json!(["None"])), &[]),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), &[]),
        (json!({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}), &[]),
        (ips(json!(["10.0.0.9", "None"])), &["Invalid spec.clusterIPs[1]"]),
        (ips(json!(["None", "10.0.0.9"])), &["Invalid spec.clusterIPs"]),
        (ips(json!(["10.0.0.9", "10.0.0.10"])), &["Invalid spec.clusterIPs"]),
        (ips(json!(["10.0.0.9", "fd00::1", "fd00::2"])), &["Invalid spec.clusterIPs"]),
        (json!({"clusterIPs": ["10.0.0.9"]}), &["Invalid spec.clusterIPs"]),
        (families(json!(["IPv4", "IPv4"])), &["Duplicate spec.ipFamilies[1]"]),
        (families(json!(["IPv5"])), &["NotSupported spec.ipFamilies[0]"]),
        (families(json!(["IPv6"])), &["Invalid spec.ipFamilies[0]"]),
        (json!({"ipFamilyPolicy": "Dual"}), &["NotSupported spec.ipFamilyPolicy"]),
        (json!({"ipFamilyPolicy": "RequireDualStack"}), &["Invalid spec.ipFamilyPolicy"]),
        (families(json!(["IPv4", "IPv6"])), &["Invalid spec.ipFamilyPolicy"]),
    ];
    for (spec, causes) in cases {
        let status = if causes.is_empty() { 201 } else { 422 };
        let expected = (status, causes.iter().map(|cause| (*cause).to_owned()).collect());
        assert_eq!(dry_create(&server, SERVICES, &service(spec.clone())).await, expected, "{spec}");
    }
}

#[tokio::test]
async fn cluster_ip_must_have_the_family_at_its_position() {
    let server = ApiServer::builder().build();
    let spec = json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv6"]});
    let cause = "Invalid spec.clusterIPs[0]".to_owned();
    assert_eq!(dry_create(&server, SERVICES, &service(spec)).await, (422, vec![cause]));
}

#[tokio::test]
async fn headless_service_without_selector_may_have_both_families() {
    let server = ApiServer::builder().build();
    let headless = |mut spec: Value| {
        spec["clusterIP"] = "None".into();
        spec["selector"] = Value::Null;
        service(spec)
    };
    for (spec, policy, families) in [
        (json!({}), "RequireDualStack", json!(["IPv4", "IPv6"])),
        (json!({"ipFamilies": ["IPv6"]}), "RequireDualStack", json!(["IPv6", "IPv4"])),
        (json!({"ipFamilyPolicy": "SingleStack"}), "SingleStack", json!(["IPv4"])),
    ] {
        let url = format!("{SERVICES}?dryRun=All");
        let (status, created) = json(&server, "POST", &url, &headless(spec.clone()).to_string()).await;
        let found = (status, &created["spec"]["ipFamilyPolicy"], &created["spec"]["ipFamilies"]);
        assert_eq!(found, (201, &json!(policy), &families), "{spec}");
    }
    let (_, _) = json(&server, "POST", SERVICES, &headless(json!({})).to_string()).await;
    assert_eq!(patch(&server, json!({"ipFamilyPolicy": "SingleStack"})).await, (200, vec![]));
}

#[tokio::test]
async fn type_decides_which_cluster_ips_are_allowed() {
    let server = ApiServer::builder().build();
    let named = |mut spec: Value| {
        spec["type"] = "ExternalName".into();
        spec["externalName"] = "example.com".into();
        spec
    };
    let cases: [(Value, &[&str]); 6] = [
        (named(json!({})), &[]),
        (named(json!({"clusterIP": "10.0.0.9"})), &["Forbidden spec.clusterIPs"]),
        (named(json!({"ipFamilies": ["IPv4"]})), &["Forbidden spec.ipFamilies"]),
        (named(json!({"ipFamilyPolicy": "SingleStack"})), &["Forbidden spec.ipFamilyPolicy"]),
        (json!({"type": "NodePort", "clusterIP": "None"}), &["Invalid spec.clusterIPs[0]"]),
        (json!({"type": "LoadBalancer", "clusterIP": "None"}), &["Invalid spec.clusterIPs[0]"]),
    ];
    for (spec, causes) in cases {
        let status = if causes.is_empty() { 201 } else { 422 };
        let expected = (status, causes.iter().map(|cause| (*cause).to_owned()).collect());
        assert_eq!(dry_create(&server, SERVICES, &service(spec.clone())).await, expected, "{spec}");
    }
}

#[tokio::test]
async fn primary_cluster_ip_and_family_are_immutable() {
    let server = ApiServer::builder().build();
    assert_eq!(json(&server, "POST", SERVICES, &service(json!({})).to_string()).await.0, 201);
    let rejected = |cause: &str| (422, vec![cause.to_owned()]);
    assert_eq!(
        patch(&server, json!({"clusterIP": "10.0.0.3"})).await,
        rejected("Invalid spec.clusterIPs[0]")
    );
    assert_eq!(patch(&server, json!({"ipFamilies": ["IPv6"]})).await, rejected("Invalid spec.clusterIPs[0]"));
    assert_eq!(
        patch(&server, json!({"ipFamilyPolicy": "RequireDualStack"})).await,
        rejected("Invalid spec.ipFamilyPolicy")
    );
    assert_eq!(patch(&server, json!({"ipFamilyPolicy": "PreferDualStack"})).await, (200, vec![]));
    let named = json!({"type": "ExternalName", "externalName": "example.com"});
    assert_eq!(patch(&server, named).await, (200, vec![]));
    let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    assert_eq!(stored["spec"]["clusterIPs"], Value::Null);
    let changed = json!({"type": "ClusterIP", "externalName": null, "clusterIP": "10.0.0.3"});
    assert_eq!(patch(&server, changed).await, (200, vec![]));
}

#[tokio::test]
async fn loaded_dual_stack_service_can_be_updated() {
    let server = ApiServer::builder().build();
    let ips = ["10.96.0.9", "fd00::9"];
    let spec = json!({
        "clusterIP": ips[0], "clusterIPs": ips, "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack",
    });
    server.create(&Gvr::new("", "v1", "services"), "default", service(spec)).unwrap();
    assert_eq!(patch(&server, json!({"sessionAffinity": "ClientIP"})).await, (200, vec![]));
    let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    assert_eq!(stored["spec"]["clusterIPs"], json!(ips));
}

#[tokio::test]
async fn loopback_and_link_local_external_ips_are_rejected() {
    let server = ApiServer::builder().build();
    let cause = "Invalid spec.externalIPs[0]".to_owned();
    for (address, causes) in [
        ("192.0.2.1", vec![]),
        ("127.0.0.1", vec![cause.clone()]),
        ("169.254.0.1", vec![cause.clone()]),
        ("::", vec![cause]),
    ] {
        let status = if causes.is_empty() { 201 } else { 422 };
        let created = dry_create(&server, SERVICES, &service(json!({"externalIPs": [address]}))).await;
        assert_eq!(created, (status, causes), "{address}");
    }
}

#[tokio::test]
async fn node_port_of_a_protocol_is_used_once() {
    let server = ApiServer::builder().build();
    let ports = |number: u16, protocol: &str| {
        let port = |name: &str, number: u16, protocol: &str| json!({"name": name, "port": number, "protocol": protocol, "nodePort": 30_100});
        json!({"type": "NodePort", "ports": [port("a", 80, "TCP"), port("b", number, protocol)]})
    };
    let cause = |reason: &str| (422, vec![format!("{reason} spec.ports[1].nodePort")]);
    assert_eq!(dry_create(&server, SERVICES, &service(ports(81, "TCP"))).await, cause("Duplicate"));
    assert_eq!(dry_create(&server, SERVICES, &service(ports(81, "UDP"))).await, cause("Invalid"));
    assert_eq!(dry_create(&server, SERVICES, &service(ports(80, "UDP"))).await, (201, vec![]));
}

#[tokio::test]
async fn protocols_of_a_port_share_its_node_port() {
    let server = ApiServer::builder().build();
    let port = |protocol: &str, number: u16| {
        let name = protocol.to_lowercase();
        json!({"name": name, "port": number, "protocol": protocol})
    };
    let node_ports = |created: &Value| {
        let ports = created["spec"]["ports"].as_array().unwrap().iter();
        ports.map(|port| port["nodePort"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let create = async |name: &str, ports: Value| {
        let mut service = service(json!({"type": "NodePort", "ports": ports}));
        service["metadata"]["name"] = name.into();
        json(&server, "POST", SERVICES, &service.to_string()).await
    };
    let (tcp, mut udp) = (port("TCP", 53), port("UDP", 53));
    let (status, created) = create("a", json!([tcp, udp])).await;
    let numbers = node_ports(&created);
    assert_eq!((status, numbers[0]), (201, numbers[1]));
    udp["nodePort"] = 30_053.into();
    let (status, created) = create("b", json!([tcp, udp])).await;
    assert_eq!((status, node_ports(&created)), (201, vec![30_053, 30_053]));
    let (mut first, mut other) = (port("TCP", 53), port("UDP", 54));
    (first["nodePort"], other["nodePort"]) = (30_054.into(), 30_054.into());
    let (status, rejected) = create("c", json!([first, other])).await;
    assert_eq!((status, causes_of(&rejected)), (422, vec!["Invalid spec.ports[1].nodePort".to_owned()]));
    let (status, _) =
        create("d", json!([port("TCP", 53), {"port": 54, "name": "x", "nodePort": 30_053}])).await;
    assert_eq!(status, 422);
}

#[tokio::test]
async fn node_port_can_move_to_another_port_in_one_update() {
    let server = ApiServer::builder().build();
    let port = |name: &str, number: u16| json!({"name": name, "port": number});
    let (mut a, b) = (port("a", 80), port("b", 81));
    a["nodePort"] = 30_080.into();
    let spec = json!({"type": "NodePort", "ports": [a, b]});
    let (status, _) = json(&server, "POST", SERVICES, &service(spec).to_string()).await;
    assert_eq!(status, 201);
    let (a, mut b) = (port("a", 80), port("b", 81));
    b["nodePort"] = 30_080.into();
    assert_eq!(patch(&server, json!({"ports": [a, b]})).await, (200, vec![]));
    let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    let ports = &stored["spec"]["ports"];
    assert_eq!(ports[1]["nodePort"], 30_080);
    assert!(ports[0]["nodePort"] != 30_080 && ports[0]["nodePort"].is_u64(), "{ports}");
    // Ports keep their node ports by name, also if their number changes.
    let renumbered = json!({"ports": [port("a", 90), port("b", 91)]});
    assert_eq!(patch(&server, renumbered).await, (200, vec![]));
    let (_, updated) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    for index in 0..2 {
        assert_eq!(updated["spec"]["ports"][index]["nodePort"], ports[index]["nodePort"]);
    }
}

#[tokio::test]
async fn type_change_removes_the_fields_of_load_balancers() {
    let server = ApiServer::builder().build();
    let balancer = json!({
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30_500,
        "loadBalancerClass": "example.com/a",
    });
    assert_eq!(json(&server, "POST", SERVICES, &service(balancer).to_string()).await.0, 201);
    let changed = json!({"type": "NodePort", "loadBalancerClass": "example.com/b"});
    assert_eq!(patch(&server, changed).await, (422, vec!["Forbidden spec.loadBalancerClass".to_owned()]));
    let changed = json!({"type": "NodePort", "healthCheckNodePort": 30_501});
    assert_eq!(patch(&server, changed).await, (422, vec!["Invalid spec.healthCheckNodePort".to_owned()]));
    assert_eq!(patch(&server, json!({"externalTrafficPolicy": "Cluster"})).await, (200, vec![]));
    let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    let spec = &stored["spec"];
    assert_eq!(
        (&spec["healthCheckNodePort"], &spec["loadBalancerClass"]),
        (&Value::Null, &json!("example.com/a"))
    );
    assert_eq!(patch(&server, json!({"type": "ClusterIP"})).await, (200, vec![]));
    let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    for name in ["loadBalancerClass", "allocateLoadBalancerNodePorts", "externalTrafficPolicy"] {
        assert_eq!(stored["spec"][name], Value::Null, "{name}");
    }
}

#[tokio::test]
async fn type_change_clears_the_load_balancer_status() {
    let server = ApiServer::builder().build();
    let mut balancer = service(json!({"type": "LoadBalancer"}));
    let status = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}});
    balancer["status"] = status.clone();
    server.create(&Gvr::new("", "v1", "services"), "default", balancer).unwrap();
    assert_eq!(patch(&server, json!({"sessionAffinity": "ClientIP"})).await, (200, vec![]));
    let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    assert_eq!(stored["status"], status);
    assert_eq!(patch(&server, json!({"type": "NodePort"})).await, (200, vec![]));
    let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    assert_eq!(stored["status"], json!({"loadBalancer": {}}));
}

#[tokio::test]
async fn type_change_releases_the_remaining_node_ports() {
    let server = ApiServer::builder().build();
    let port = |name: &str, number: u16, node_port: u16| json!({"name": name, "port": number, "nodePort": node_port});
    let (a, b) = (port("a", 80, 30_110), port("b", 81, 30_111));
    let spec = json!({"type": "NodePort", "ports": [a, b]});
    assert_eq!(json(&server, "POST", SERVICES, &service(spec).to_string()).await.0, 201);
    let changed = json!({"type": "ClusterIP", "ports": [a, port("b", 81, 30_112)]});
    assert_eq!(patch(&server, changed).await.0, 422);
    assert_eq!(patch(&server, json!({"type": "ClusterIP", "ports": [a]})).await, (200, vec![]));
    let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
    assert_eq!(stored["spec"]["ports"][0]["nodePort"], Value::Null);
    let changed = json!({"type": "NodePort", "ports": null});
    assert_eq!(patch(&server, changed).await, (422, vec!["Required spec.ports".to_owned()]));
}

#[tokio::test]
async fn dry_run_rejects_a_used_node_port() {
    let server = ApiServer::builder().build();
    let named = |name: &str, node_port: u16| {
        let mut service =
            service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": node_port}]}));
        service["metadata"]["name"] = name.into();
        service
    };
    assert_eq!(json(&server, "POST", SERVICES, &named("a", 30_120).to_string()).await.0, 201);
    let cause = "Invalid spec.ports[0].nodePort".to_owned();
    assert_eq!(dry_create(&server, SERVICES, &named("b", 30_120)).await, (422, vec![cause.clone()]));
    // As in kube-apiserver, a dry run does not check the range.
    assert_eq!(dry_create(&server, SERVICES, &named("b", 80)).await, (201, vec![]));
    let (status, body) = json(&server, "POST", SERVICES, &named("b", 80).to_string()).await;
    assert_eq!((status, causes_of(&body)), (422, vec![cause]));
}

#[tokio::test]
async fn external_name_reserves_no_node_port() {
    let server = ApiServer::builder().build();
    let ports = json!([{"port": 80, "nodePort": 30_130}]);
    let named = json!({"type": "ExternalName", "externalName": "example.com", "ports": ports});
    assert_eq!(json(&server, "POST", SERVICES, &service(named).to_string()).await.0, 201);
    let mut other = service(json!({"type": "NodePort", "ports": ports}));
    other["metadata"]["name"] = "b".into();
    assert_eq!(json(&server, "POST", SERVICES, &other.to_string()).await.0, 201);
    let changed = json!({"type": "NodePort", "externalName": null});
    assert_eq!(patch(&server, changed).await, (422, vec!["Invalid spec.ports[0].nodePort".to_owned()]));
}

#[tokio::test]
async fn secondary_cluster_ip_is_used_once() {
    let server = ApiServer::builder().build();
    let services = Gvr::new("", "v1", "services");
    let named = |name: &str, ips: [&str; 2]| {
        let mut service = service(json!({"clusterIP": ips[0], "clusterIPs": ips}));
        service["metadata"]["name"] = name.into();
        service
    };
    server.create(&services, "default", named("a", ["10.96.0.9", "fd00::9"])).unwrap();
    for ips in [["10.96.0.10", "fd00::9"], ["fd00::9", "10.96.0.10"], ["fd00::10", "10.96.0.9"]] {
        let rejected = server.create(&services, "default", named("b", ips)).unwrap_err().to_string();
        assert!(rejected.contains("provided IP is already allocated"), "{rejected}");
    }
    server.create(&services, "default", named("b", ["10.96.0.10", "fd00::10"])).unwrap();
}

#[tokio::test]
async fn loaded_service_may_have_any_unused_node_ports() {
    let server = ApiServer::builder().build();
    let services = Gvr::new("", "v1", "services");
    let port = |name: &str, protocol: &str, number: u16| json!({"name": name, "port": number, "protocol": protocol, "nodePort": 80});
    let spec = json!({"type": "NodePort", "ports": [port("a", "TCP", 53), port("b", "UDP", 54)]});
    server.create(&services, "default", service(spec.clone())).unwrap();
    assert_eq!(patch(&server, json!({"sessionAffinity": "ClientIP"})).await, (200, vec![]));
    let mut other = service(spec);
    other["metadata"]["name"] = "b".into();
    let rejected = server.create(&services, "default", other).unwrap_err().to_string();
    assert!(rejected.contains("provided port is already allocated"), "{rejected}");
}

#[tokio::test]
async fn service_without_cluster_ip_can_become_an_external_name() {
    for cleared in [json!({"clusterIP": null}), json!({"clusterIP": ""}), json!({"clusterIPs": null})] {
        let server = ApiServer::builder().build();
        json(&server, "POST", SERVICES, &service(json!({})).to_string()).await;
        let mut spec = json!({"type": "ExternalName", "externalName": "example.com"});
        spec.as_object_mut().unwrap().extend(cleared.as_object().unwrap().clone());
        assert_eq!(patch(&server, spec).await, (200, vec![]), "{cleared}");
        let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
        assert_eq!(stored["spec"]["clusterIPs"], Value::Null, "{cleared}");
    }
}

#[tokio::test]
async fn loaded_service_has_the_families_of_its_cluster_ips() {
    for (ips, families, policy) in [
        (json!(["fd00::9"]), json!(["IPv6"]), "SingleStack"),
        (json!(["10.96.0.9", "fd00::9"]), json!(["IPv4", "IPv6"]), "RequireDualStack"),
        (json!(["fd00::9", "10.96.0.9"]), json!(["IPv6", "IPv4"]), "RequireDualStack"),
    ] {
        let server = ApiServer::builder().build();
        let spec = json!({"clusterIP": ips[0], "clusterIPs": ips});
        server.create(&Gvr::new("", "v1", "services"), "default", service(spec)).unwrap();
        assert_eq!(patch(&server, json!({"sessionAffinity": "ClientIP"})).await, (200, vec![]), "{ips}");
        let (_, stored) = json(&server, "GET", &format!("{SERVICES}/a"), "").await;
        let spec = &stored["spec"];
        assert_eq!((&spec["clusterIPs"], &spec["ipFamilies"]), (&ips, &families));
        assert_eq!(spec["ipFamilyPolicy"], policy, "{ips}");
    }
}

#[tokio::test]
async fn headless_dual_stack_service_cannot_get_a_selector() {
    let server = ApiServer::builder().build();
    let spec = json!({"clusterIP": "None", "selector": null});
    assert_eq!(json(&server, "POST", SERVICES, &service(spec).to_string()).await.0, 201);
    let (status, causes) = patch(&server, json!({"selector": {"app": "web"}})).await;
    assert_eq!(status, 422);
    assert!(causes.contains(&"Invalid spec.ipFamilyPolicy".to_owned()), "{causes:?}");
}

#[tokio::test]
async fn domain_name_of_an_endpoint_has_two_labels() {
    let server = ApiServer::builder().build();
    let slice = |fields: Value| {
        let mut slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"},
            "addressType": "FQDN", "endpoints": [{"addresses": ["a.example.com"]}], "ports": [],
        });
        slice.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        slice
    };
    let url = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let address = "Invalid endpoints[0].addresses[0]".to_owned();
    for (name, causes) in [
        ("a.example.com", vec![]),
        ("example.com.", vec![]),
        ("", vec!["Required endpoints[0].addresses[0]".to_owned()]),
        ("localhost", vec![address.clone()]),
        ("Example.com", vec![address.clone()]),
        (&format!("{}.com", "a".repeat(64)), vec![address]),
    ] {
        let status = if causes.is_empty() { 201 } else { 422 };
        let created = dry_create(&server, url, &slice(json!({"endpoints": [{"addresses": [name]}]}))).await;
        assert_eq!(created, (status, causes), "{name}");
    }
    let unnamed = slice(json!({"ports": [{"port": 80}, {"port": 81}]}));
    let cause = "Duplicate ports[1].name".to_owned();
    assert_eq!(dry_create(&server, url, &unnamed).await, (422, vec![cause]));
}
