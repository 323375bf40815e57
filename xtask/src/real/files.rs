//! Writes the files that kube-apiserver and its clients read: certificates, keys, tokens and kubeconfigs.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

/// Number of users in the token file in addition to `admin`: `guest-0` and so on. They have no permissions
/// until a role is bound to them.
const GUESTS: usize = 8;

/// Writes all files that must exist before the servers start, with `port` as the port of kube-apiserver.
/// Returns the bearer token of the administrator.
pub(super) fn write(folder: &Path, port: u16) -> io::Result<String> {
    let authority = authority()?;
    let server = leaf(&authority, "kube-apiserver", None)?;
    let client = leaf(&authority, "admin-by-certificate", Some("system:masters"))?;
    let accounts = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = authority.pem();
    private(folder, "ca.crt", &certificate)?;
    private(folder, "server.crt", &server.0)?;
    private(folder, "server.key", &server.1)?;
    private(folder, "client.crt", &client.0)?;
    private(folder, "client.key", &client.1)?;
    private(folder, "accounts.key", &accounts.serialize_pem())?;
    private(folder, "accounts.pub", &accounts.public_key_pem())?;
    let token = token();
    let mut tokens = format!("{token},admin,admin,system:masters\n");
    for guest in 0..GUESTS {
        tokens += &format!("{},guest-{guest},guest-{guest}\n", self::token());
    }
    private(folder, "tokens.csv", &tokens)?;
    let url = format!("https://127.0.0.1:{port}");
    let by_token = json!({"token": token});
    private(folder, "admin.conf", &kubeconfig(&url, &certificate, &by_token))?;
    let by_certificate = json!({
        "client-certificate-data": STANDARD.encode(&client.0), "client-key-data": STANDARD.encode(&client.1),
    });
    private(folder, "certificate.conf", &kubeconfig(&url, &certificate, &by_certificate))?;
    Ok(token)
}

fn authority() -> io::Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("informer-conformance", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().map_err(io::Error::other)?;
    CertifiedIssuer::self_signed(params, key).map_err(io::Error::other)
}

/// Issues a certificate with `who` as its common name. With a group it is a client certificate for a user of
/// that group, without one a server certificate for loopback. Returns the certificate and its key as PEM.
fn leaf(
    authority: &CertifiedIssuer<'static, KeyPair>,
    who: &str,
    group: Option<&str>,
) -> io::Result<(String, String)> {
    let hosts =
        if group.is_none() { vec!["127.0.0.1".to_owned(), "localhost".to_owned()] } else { Vec::new() };
    let mut params = CertificateParams::new(hosts).map_err(io::Error::other)?;
    params.distinguished_name = name(who, group);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![match group {
        None => ExtendedKeyUsagePurpose::ServerAuth,
        Some(_) => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.signed_by(&key, authority).map_err(io::Error::other)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn name(common: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

fn token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Returns a kubeconfig of one user as JSON, which is valid YAML.
pub(crate) fn kubeconfig(url: &str, authority: &str, user: &serde_json::Value) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "real",
        "clusters": [{"name": "real", "cluster": {
            "server": url, "certificate-authority-data": STANDARD.encode(authority),
        }}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "user", "namespace": "default"}}],
    });
    serde_json::to_string_pretty(&config).expect("strings are JSON") + "\n"
}

fn private(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = folder.join(name);
    let mut options = std::fs::File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    io::Write::write_all(&mut options.open(path)?, text.as_bytes())
}
