use super::*;

fn kind(kind: &str, group: &str, version: &str) -> Result<Kind, String> {
    Kind::new(kind, group, version, None, true).map_err(|error| error.to_string())
}

#[test]
fn names_of_a_kind_follow_from_its_kind() {
    for (name, module, plural) in [
        ("Website", "website", "websites"),
        ("HTTPRoute", "http_route", "httproutes"),
        ("NetworkPolicy", "network_policy", "networkpolicies"),
        ("Gateway", "gateway", "gateways"),
        ("Proxy2Address", "proxy2_address", "proxy2addresses"),
        ("Mesh", "mesh", "meshes"),
    ] {
        let names = kind(name, "shop.example.com", "v1").unwrap();
        assert_eq!((names.module.as_str(), names.plural.as_str()), (module, plural));
    }
}

#[test]
fn invalid_kind_group_and_version_are_rejected_with_a_remedy() {
    for (name, group, version, problem) in [
        ("website", "example.com", "v1", "upper camel case"),
        ("Web-Site", "example.com", "v1", "upper camel case"),
        ("Request", "example.com", "v1", "another meaning in the generated files"),
        ("Type", "example.com", "v1", "another meaning in the generated files"),
        ("Website", "example", "v1", "the group example is not a domain name"),
        ("Website", "Example.com", "v1", "is not a domain name"),
        ("Website", "example..com", "v1", "is not a domain name"),
        ("Website", "apps.k8s.io", "v1", "is protected by Kubernetes"),
        ("Website", "example.com", "1", "1 is not a version of an API"),
        ("Website", "example.com", "v0", "is not a version"),
        ("Website", "example.com", "v1gamma1", "is not a version"),
        ("Website", "example.com", "v1beta", "is not a version"),
    ] {
        let error = kind(name, group, version).unwrap_err();
        assert!(error.starts_with(&format!("define kind {name}: ")), "{error}");
        assert!(error.contains(problem) && error.contains("; "), "{error}");
    }
    for version in ["v1", "v1beta1", "v2alpha13"] {
        assert!(kind("Website", "example.com", version).is_ok(), "{version}");
    }
    let error = Kind::new("Website", "example.com", "v1", Some("Sites"), true).unwrap_err().to_string();
    assert!(error.contains("the plural Sites"), "{error}");
}

#[test]
fn invalid_project_name_is_rejected_with_a_remedy() {
    let long = "a".repeat(48);
    for name in ["", "Website", "web_site", "1st", "-web", "web-", "web.site", "tokio", "struct", &long] {
        let error = check_project(name).unwrap_err().to_string();
        assert!(error.starts_with(&format!("create project {name}: ")) && error.contains("; "), "{error}");
    }
    for name in ["w", "website-operator", "shop2"] {
        assert!(check_project(name).is_ok(), "{name}");
    }
}
