use informer_core::Gvr;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::secret::{ChangeContext, Content};
use super::state::{Change, Validity};
use super::targets::{Callee, Target, TargetKind};
use super::x509::{Parsed, generate_authority, issue, split_bundle};

const VALIDITY: Validity =
    Validity { authority: SignedDuration::from_hours(72), certificate: SignedDuration::from_hours(12) };

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a valid time")
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn issued_certificate_names_its_issuer_and_its_hosts() {
    let authority = generate_authority("shop-certificates", now(), VALIDITY).unwrap();
    let hosts = names(&["shop.default.svc", "127.0.0.1", "::1"]);
    let issued = issue(&authority, &hosts, now(), VALIDITY).unwrap();
    let (ca, own) =
        (Parsed::from_pem(&authority.certificate).unwrap(), Parsed::from_pem(&issued.certificate).unwrap());
    assert_eq!(own.issuer, ca.subject);
    assert!(own.covers(&hosts) && !own.covers(&names(&["elsewhere"])));
    assert!(own.has_key(&issued.key) && !own.has_key(&authority.key));
    assert!(own.period.contains(now()));
    assert_eq!(own.period.until, now() + SignedDuration::from_hours(12));
    // Clocks may be behind.
    assert!(own.period.from < now() - SignedDuration::from_mins(30));
    let late = now() + SignedDuration::from_hours(70);
    let last = Parsed::from_pem(&issue(&authority, &hosts, late, VALIDITY).unwrap().certificate).unwrap();
    assert_eq!(last.period.until, ca.period.until, "a certificate does not outlive its authority");
}

#[test]
fn generated_certificates_are_accepted_by_a_verifier() {
    let authority = generate_authority("shop", now(), VALIDITY).unwrap();
    let issued = issue(&authority, &names(&["shop.default.svc"]), now(), VALIDITY).unwrap();
    let roots = informer_http::authorities(authority.certificate.as_bytes()).unwrap();
    let provider = informer_http::default_provider().expect("the tests have a provider");
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone())
            .build()
            .unwrap();
    let pair = informer_http::certified_key(issued.certificate.as_bytes(), issued.key.as_bytes(), &provider)
        .unwrap();
    let verify = |at: Timestamp| {
        use rustls::client::danger::ServerCertVerifier;
        let since_epoch = std::time::Duration::from_secs(u64::try_from(at.as_second()).unwrap());
        let name = "shop.default.svc".try_into().unwrap();
        let at = rustls::pki_types::UnixTime::since_unix_epoch(since_epoch);
        verifier.verify_server_cert(&pair.cert[0], &[], &name, &[], at)
    };
    verify(now()).expect("it is valid");
    verify(now() + SignedDuration::from_hours(13)).expect_err("it has expired");
}

#[test]
fn secret_is_read_as_it_was_written() {
    let names = names(&["shop.default.svc"]);
    let context = ChangeContext { name: "certificates", identity: "a", names: &names, validity: VALIDITY };
    let mut content = Content::missing("default", "certificates");
    let report = Change::Report("x".to_owned());
    for change in [Change::AddAuthority, Change::Issue, Change::MarkTrusted, Change::AddAuthority, report] {
        content = Content::read(content.with(&change, &context, now()).unwrap(), &names);
    }
    assert_eq!(content.shared.authorities.len(), 2);
    assert!(content.shared.issues);
    assert_eq!(content.shared.trusted_since, None, "the newest authority is not trusted yet");
    let certificate = content.shared.certificate.clone().unwrap();
    assert!(certificate.usable);
    assert_eq!(certificate.issuer.as_ref(), Some(&content.shared.authorities[1].id));
    assert_eq!(split_bundle(&content.bundle()).count(), 2);
    assert_eq!(content.shared.replicas["a"].serves, "x");

    let other = Content::read(content.secret.clone(), &["elsewhere".to_owned()]);
    assert!(!other.shared.certificate.unwrap().usable, "it is not valid for the name");
    let without = Content::read(content.without("a", now()).unwrap(), &names);
    assert!(without.shared.replicas.is_empty());
    let late = now() + SignedDuration::from_hours(100);
    let late = Content::read(content.with(&Change::AddAuthority, &context, late).unwrap(), &names);
    assert_eq!(late.shared.authorities.len(), 1, "expired authorities are removed");
}

#[test]
fn invalid_secret_counts_as_empty() {
    let secret = json!({
        "metadata": {"name": "s", "annotations": {"informer/certificates": "{"}},
        "data": {"tls.crt": "bm90IGEgY2VydGlmaWNhdGU=", "ca.crt": "!", "ca.key": 3},
    });
    let content = Content::read(secret, &[]);
    assert_eq!(content.shared, super::state::SecretContent::default());
}

#[test]
fn only_clients_of_the_service_trust_the_authorities() {
    let names = names(&["shop.default.svc", "10.0.0.1"]);
    let callee = Callee { namespace: "default", service: "shop", names: &names };
    let ours = json!({"service": {"namespace": "default", "name": "shop"}});
    let other = json!({"service": {"namespace": "other", "name": "shop"}, "caBundle": "eA=="});
    let url = json!({"url": "https://10.0.0.1:9443/validate"});
    let object = json!({
        "metadata": {"resourceVersion": "7"},
        "webhooks": [{"clientConfig": ours}, {"clientConfig": other}, {"clientConfig": url}],
    });
    let target = |kind| Target { kind, name: "shop".to_owned() };
    let patch = target(TargetKind::ValidatingWebhook).patch(&object, &callee, "bundle").unwrap();
    assert_eq!(
        patch,
        json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "YnVuZGxl"},
            {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "YnVuZGxl"},
        ])
    );

    let trusting = |pointer: &str, mut object: Value| {
        object.pointer_mut(pointer).unwrap()["caBundle"] = json!("YnVuZGxl");
        object
    };
    let crd = json!({"spec": {"conversion": {"webhook": {"clientConfig": ours}}}});
    let (conversion, config) = (target(TargetKind::Conversion), "/spec/conversion/webhook/clientConfig");
    assert_eq!(conversion.patch(&crd, &callee, "bundle").unwrap()[1]["path"], format!("{config}/caBundle"));
    assert_eq!(conversion.patch(&trusting(config, crd), &callee, "bundle"), None);
    let service = json!({"spec": ours});
    assert_eq!(
        target(TargetKind::ApiService).patch(&service, &callee, "bundle").unwrap()[1]["path"],
        "/spec/caBundle"
    );
    let without = json!({"spec": {"conversion": {"strategy": "None"}}});
    assert_eq!(conversion.patch(&without, &callee, "bundle"), None);
    assert_eq!(conversion.resource(), Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions"));
}
