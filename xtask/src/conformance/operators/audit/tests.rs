use serde_json::json;

use super::*;

fn entry(user: &str, verb: &str, resource: &str, below: Option<&str>, code: u16) -> String {
    let mut reference = json!({"resource": resource, "namespace": "default", "apiGroup": "example.com"});
    if let Some(below) = below {
        reference["subresource"] = json!(below);
    }
    let entry = json!({
        "kind": "Event", "stage": "ResponseComplete", "verb": verb, "user": {"username": user, "groups": []},
        "objectRef": reference, "responseStatus": {"code": code},
    });
    entry.to_string()
}

#[test]
fn requests_of_an_account_are_split_into_allowed_and_refused() {
    let log = [
        entry("us", "list", "websites", None, 200),
        entry("us", "patch", "websites", Some("status"), 409),
        entry("us", "delete", "websites", None, 403),
        entry("them", "create", "websites", None, 201),
        json!({"stage": "ResponseComplete", "verb": "get", "user": {"username": "us"}, "requestURI": "/api"})
            .to_string(),
        "{\"stage\": \"Resp".to_owned(),
    ];
    let seen = read(&log.join("\n"), "us");
    let shown = |permissions: &BTreeSet<Permission>| -> Vec<String> {
        permissions.iter().map(ToString::to_string).collect()
    };
    assert_eq!(shown(&seen.allowed), ["list websites.example.com", "patch websites/status.example.com"]);
    assert_eq!(shown(&seen.refused), ["delete websites.example.com"]);
    assert_eq!(seen.requests, 3);
}
