//! CertificateSigningRequests: validation, approval and signing, and the admission plugins
//! `CertificateSubjectRestriction`, `CertificateApproval` and `CertificateSigning`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_apiserver::{ApiServer, User};
use informer_core::Gvr;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{json as ask, read, request};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn request_of_group(group: &str) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "alice");
    params.distinguished_name.push(DnType::OrganizationName, group);
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    STANDARD.encode(request.pem().unwrap())
}

async fn create(server: &ApiServer, spec: Value) -> (u16, String) {
    let object = json!({"metadata": {"generateName": "r-"}, "spec": spec});
    let (code, body) = ask(server, "POST", REQUESTS, &object.to_string()).await;
    (code, body["message"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn client_certificate_for_system_masters_cannot_be_requested() {
    let server = ApiServer::builder().build();
    let spec = |signer: &str, request: &str| json!({"request": request, "signerName": signer, "usages": ["client auth"]});
    let masters = request_of_group("system:masters");
    let (code, message) = create(&server, spec(CLIENT_SIGNER, &masters)).await;
    assert_eq!(code, 403);
    let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert!(message.ends_with(why), "{message}");
    assert_eq!(
        create(&server, spec("example.com/signer", &masters)).await.0,
        201,
        "another signer may decide"
    );
    assert_eq!(create(&server, spec(CLIENT_SIGNER, &request_of_group("developers"))).await.0, 201);
}

#[tokio::test]
async fn certificate_request_must_be_pem_with_a_valid_signature() {
    let server = ApiServer::builder().build();
    let refused = async |request: &[u8], why: &str| {
        let request = STANDARD.encode(request);
        let spec = json!({"request": request, "signerName": "example.com/signer", "usages": ["client auth"]});
        let (code, message) = create(&server, spec).await;
        assert_eq!(code, 422);
        let wanted = format!("spec.request: Invalid value: {request:?}: {why}");
        assert!(message.ends_with(&wanted), "{message}");
    };
    refused(b"no PEM", "PEM block type must be CERTIFICATE REQUEST").await;
    let valid = STANDARD.decode(request_of_group("a")).unwrap();
    let valid = String::from_utf8(valid).unwrap();
    let der: String = valid.lines().filter(|line| !line.starts_with('-')).collect();
    let mut forged = STANDARD.decode(der).unwrap();
    let changed = forged.windows(5).position(|window| window == b"alice").unwrap();
    forged[changed] = b'A';
    let pem = |der: &[u8]| {
        let encoded = STANDARD.encode(der);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{encoded}\n-----END CERTIFICATE REQUEST-----\n")
    };
    refused(pem(&forged).as_bytes(), "x509: ECDSA verification failure").await;
    // The parameter NULL of the signature algorithm, ecdsa-with-SHA256, does not disable the verification.
    let algorithm = b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
    let at = forged.windows(algorithm.len()).rposition(|window| window == algorithm).unwrap();
    let mut with_parameter = forged.clone();
    with_parameter.splice(at + algorithm.len()..at + algorithm.len(), *b"\x05\x00");
    with_parameter[at + 1] += 2;
    let length = if with_parameter[1] == 0x81 { 2 } else { 3 };
    with_parameter[length] += 2;
    refused(pem(&with_parameter).as_bytes(), "x509: ECDSA verification failure").await;
    refused(pem(&forged[..40]).as_bytes(), "asn1: syntax error: data truncated").await;
}

#[tokio::test]
async fn certificate_request_with_pem_headers_is_read_by_validation_and_admission() {
    let server = ApiServer::builder().build();
    let with_header = |group: &str| {
        let pem = String::from_utf8(STANDARD.decode(request_of_group(group)).unwrap()).unwrap();
        let incomplete = "-----BEGIN CERTIFICATE REQUEST-----\n?\n-----END CERTIFICATE REQUEST-----\n";
        STANDARD
            .encode(format!("{incomplete}{}", pem.replacen("REQUEST-----", "REQUEST-----\nComment: a\n", 1)))
    };
    let spec =
        |request: String| json!({"request": request, "signerName": CLIENT_SIGNER, "usages": ["client auth"]});
    let (code, message) = create(&server, spec(with_header("developers"))).await;
    assert_eq!(code, 201, "{message}");
    let (code, message) = create(&server, spec(with_header("system:masters"))).await;
    assert!(code == 403 && message.ends_with("system:masters group is not allowed"), "{message}");
}

#[tokio::test]
async fn certificate_request_with_malformed_der_names_the_problem() {
    let server = ApiServer::builder().build();
    for (der, why) in [
        (&b"\x30"[..], "asn1: syntax error: truncated tag or length"),
        (b"\x30\x80\x00", "asn1: syntax error: indefinite length found (not DER)"),
        (b"\x30\x82\x01", "asn1: syntax error: truncated tag or length"),
        (b"\x30\x85\x01\x00\x00\x00\x00", "asn1: structure error: length too large"),
        (b"\x30\x02\x01", "asn1: syntax error: data truncated"),
        (
            b"\x04\x00",
            "asn1: structure error: tags don't match (16 vs {class:0 tag:4 length:0 isCompound:false}) \
             {optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> \
             stringType:0 timeType:0 set:false omitEmpty:false} certificateRequest @2",
        ),
    ] {
        let encoded = STANDARD.encode(der);
        let pem =
            format!("-----BEGIN CERTIFICATE REQUEST-----\n{encoded}\n-----END CERTIFICATE REQUEST-----\n");
        let spec =
            json!({"request": STANDARD.encode(pem), "signerName": "example.com/signer", "usages": ["any"]});
        let (code, message) = create(&server, spec).await;
        assert!(code == 422 && message.ends_with(why), "{message}");
    }
}

#[tokio::test]
async fn certificate_request_needs_usages_a_signer_and_ten_minutes() {
    let server = ApiServer::builder().build();
    let (code, message) =
        create(&server, json!({"request": request_of_group("a"), "expirationSeconds": 599})).await;
    assert_eq!(code, 422);
    for problem in [
        "spec.usages: Required value",
        "spec.signerName: Required value",
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
    ] {
        assert!(message.contains(problem), "{message}");
    }
}

#[tokio::test]
async fn unknown_and_repeated_usages_are_rejected() {
    let server = ApiServer::builder().build();
    let usages = json!(["client auth", "web", "client auth"]);
    let spec =
        json!({"request": request_of_group("a"), "signerName": "example.com/signer", "usages": usages});
    let (code, message) = create(&server, spec).await;
    assert_eq!(code, 422);
    let unknown = "spec.usages[1]: Unsupported value: \"web\": supported values: \"any\", \"cert sign\", ";
    for problem in [unknown, "spec.usages[2]: Duplicate value: \"client auth\""] {
        assert!(message.contains(problem), "{message}");
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Creates a server with a request named `r` of the signer `example.com/signer`. The user `controller` may
/// update both subresources, and has the verb `approve` or `sign` for the named signer.
async fn server_with_signer(verb: &str, signer: &str) -> ApiServer {
    let server = ApiServer::builder().rbac(true).build();
    let subresources = ["certificatesigningrequests/approval", "certificatesigningrequests/status"];
    let rules = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": subresources, "verbs": ["patch"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [signer], "verbs": [verb]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]},
    ]);
    let role = json!({"metadata": {"name": "controller"}, "rules": rules});
    server.create(&Gvr::new(RBAC, "v1", "clusterroles"), "", role).unwrap();
    let binding = json!({
        "metadata": {"name": "controller"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "controller"},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": "controller"}],
    });
    server.create(&Gvr::new(RBAC, "v1", "clusterrolebindings"), "", binding).unwrap();
    let spec = json!({
        "request": request_of_group("a"), "signerName": "example.com/signer", "usages": ["client auth"],
        "username": "mallory", "groups": ["system:masters"],
    });
    let object = json!({"metadata": {"name": "r"}, "spec": spec});
    let (status, created) = as_controller(&server, "POST", REQUESTS, &object).await;
    assert_eq!(status, 201, "{created}");
    assert_eq!(created["spec"]["username"], "controller");
    assert_eq!(created["spec"]["groups"], json!(["system:authenticated"]));
    server
}

async fn as_controller(server: &ApiServer, method: &str, uri: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut request = request(method, uri, &[("content-type", kind)], &body.to_string());
    request.extensions_mut().insert(User::new("controller"));
    let (status, text) = read(server.service().oneshot(request).await.unwrap()).await;
    (status, serde_json::from_str(&text).unwrap())
}

/// Patches the status of the request through `/approval` or `/status`.
async fn set_status(server: &ApiServer, subresource: &str, status: &Value) -> (u16, Value) {
    let uri = format!("{REQUESTS}/r/{subresource}");
    as_controller(server, "PATCH", &uri, &json!({"status": status})).await
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Test"})
}

fn certificate() -> String {
    let key = KeyPair::generate().unwrap();
    STANDARD.encode(CertificateParams::default().self_signed(&key).unwrap().pem())
}

#[tokio::test]
async fn approval_needs_the_verb_approve_for_the_signer_or_its_domain() {
    let approved = json!({"conditions": [condition("Approved")]});
    let server = server_with_signer("sign", "example.com/signer").await;
    let (status, refused) = set_status(&server, "approval", &approved).await;
    assert_eq!(status, 403);
    assert_eq!(
        refused["message"],
        "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to approve requests \
         with signerName \"example.com/signer\""
    );
    for signer in ["example.com/signer", "example.com/*"] {
        let server = server_with_signer("approve", signer).await;
        let (status, approved) = set_status(&server, "approval", &approved).await;
        assert_eq!(status, 200, "{approved}");
        let condition = &approved["status"]["conditions"][0];
        assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string());
    }
    let other = server_with_signer("approve", "example.org/*").await;
    assert_eq!(set_status(&other, "approval", &approved).await.0, 403);
}

#[tokio::test]
async fn signing_needs_the_verb_sign_if_certificate_or_conditions_change() {
    let signed = json!({"certificate": certificate()});
    let server = server_with_signer("approve", "example.com/signer").await;
    let (status, refused) = set_status(&server, "status", &signed).await;
    assert_eq!(status, 403);
    let why = "user not permitted to sign requests with signerName \"example.com/signer\"";
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
    let failed = json!({"conditions": [condition("Failed")]});
    assert_eq!(set_status(&server, "status", &failed).await.0, 403);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let uri = format!("{REQUESTS}/r/status");
    let (status, labeled) = as_controller(&server, "PATCH", &uri, &labels).await;
    assert_eq!((status, &labeled["metadata"]["labels"]["a"]), (200, &json!("b")), "{labeled}");

    let server = server_with_signer("sign", "example.com/*").await;
    assert_eq!(set_status(&server, "status", &signed).await.0, 200);
    let (status, refused) = set_status(&server, "status", &json!({"certificate": certificate()})).await;
    assert_eq!(status, 422);
    let why = "status.certificate: Forbidden: updates may not modify existing certificate content";
    assert!(refused["message"].as_str().unwrap().ends_with(why), "{refused}");
}

#[tokio::test]
async fn each_subresource_of_a_certificate_request_changes_its_own_fields() {
    let server = ApiServer::builder().build();
    let spec =
        json!({"request": request_of_group("a"), "signerName": "example.com/signer", "usages": ["any"]});
    let object = json!({"metadata": {"name": "r"}, "spec": spec});
    let (status, created) = ask(&server, "POST", REQUESTS, &object.to_string()).await;
    assert_eq!((status, &created["spec"]["username"]), (201, &json!("admin")));
    let refused = async |subresource: &str, status: &Value| {
        let (code, refused) = set_status(&server, subresource, status).await;
        assert_eq!(code, 422, "{refused}");
        let prefix = "CertificateSigningRequest.certificates.k8s.io \"r\" is invalid: ";
        refused["message"].as_str().unwrap().trim_start_matches(prefix).to_owned()
    };
    let (status, same) = set_status(&server, "approval", &json!({"certificate": certificate()})).await;
    assert_eq!((status, &same["status"]), (200, &json!({})), "the approval keeps the certificate");
    let approved = json!({"conditions": [condition("Approved")]});
    assert_eq!(
        refused("status", &approved).await,
        "status.conditions: Forbidden: updates may not add a condition of type \"Approved\""
    );
    let both = json!({"conditions": [condition("Approved"), condition("Denied")]});
    assert_eq!(
        refused("approval", &both).await,
        "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive"
    );
    let invalid = json!({"conditions": [
        {"type": "Approved", "status": "False"}, {"type": "", "status": "True"}, {"type": "A", "status": "Yes"},
        {"type": "A", "status": "True"}, {"type": "B"},
    ]});
    let found = refused("approval", &invalid).await;
    for problem in [
        "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
        "status.conditions[1].type: Required value",
        "status.conditions[2].status: Unsupported value: \"Yes\": supported values: \"False\", \"True\", \"Unknown\"",
        "status.conditions[3].type: Duplicate value: \"A\"",
        "status.conditions[4].status: Required value",
    ] {
        assert!(found.contains(problem), "{found}");
    }
    assert_eq!(set_status(&server, "approval", &approved).await.0, 200);
    assert_eq!(
        refused("approval", &json!({"conditions": []})).await,
        "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""
    );
    let garbage = STANDARD.encode("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    for (certificate, why) in [
        (STANDARD.encode("none"), "must contain at least one CERTIFICATE PEM block"),
        (garbage, "only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\""),
    ] {
        let found = refused("status", &json!({"certificate": certificate})).await;
        assert_eq!(found, format!("status.certificate: Invalid value: \"<certificate data>\": {why}"));
    }
    // The spec is immutable, and `/status` keeps the approval.
    let (_, current) = ask(&server, "GET", &format!("{REQUESTS}/r"), "").await;
    let mut other = current.clone();
    other["spec"]["signerName"] = "example.com/other".into();
    let (status, same) = ask(&server, "PUT", &format!("{REQUESTS}/r"), &other.to_string()).await;
    assert_eq!((status, &same["spec"]), (200, &current["spec"]));
    let mut approval = condition("Approved");
    approval["reason"] = "Another".into();
    let signed = json!({"certificate": certificate(), "conditions": [approval]});
    let (status, signed) = set_status(&server, "status", &signed).await;
    assert_eq!((status, &signed["status"]["conditions"]), (200, &current["status"]["conditions"]));
}

#[tokio::test]
async fn signer_name_has_a_domain_and_a_path() {
    let server = ApiServer::builder().build();
    for (signer, why) in [
        ("signer", "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
        ("example/signer", "should be a domain with at least two segments separated by dots"),
        ("example.com/Signer", "validating label \"Signer\": a lowercase RFC 1123 subdomain must consist of"),
        ("kubernetes.io/legacy-unknown", "the legacy signerName is not allowed via this API version"),
    ] {
        let spec = json!({"request": request_of_group("a"), "signerName": signer, "usages": ["any"]});
        let (code, message) = create(&server, spec).await;
        assert!(code == 422 && message.contains(why), "{message}");
    }
}
