//! CertificateSigningRequests: validation, and the admission plugin `CertificateSubjectRestriction`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_apiserver::ApiServer;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use crate::support::json as ask;

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
    let (code, message) = create(&server, spec(CLIENT_SIGNER, &STANDARD.encode("no PEM"))).await;
    assert_eq!(code, 403);
    assert!(message.contains("failed to parse CSR"), "{message}");
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
