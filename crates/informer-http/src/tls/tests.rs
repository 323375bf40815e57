use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::Error;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::{
    CertificateReloader, PemError, Tls, TlsConfig, TlsOptions, TlsOptionsError, TlsVersion, authorities,
    certified_key,
};

/// Writes a self-signed certificate and its key to files. Returns the TLS configuration of a server with this
/// certificate, and the root certificates with which a client trusts the server.
pub(crate) fn certificate(folder: &std::path::Path) -> (Tls, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(["here".to_owned()]).expect("a valid name");
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).expect("a writable folder");
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).expect("a writable folder");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("it is a certificate");
    (Tls::files(folder.join("tls.crt"), folder.join("tls.key"), default_provider()), roots)
}

/// Performs a TLS handshake. Returns whether the client and the server accept it.
async fn shake_hands(
    tls: &TlsConfig,
    roots: &RootCertStore,
    certificate: Option<&ClientPair>,
) -> (bool, bool) {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("ring supports TLS");
    let config = config.with_root_certificates(roots.clone());
    let config = match certificate {
        Some((certificate, key)) => {
            config.with_client_auth_cert(vec![certificate.clone()], key.clone_key()).expect("a matching pair")
        }
        None => config.with_no_client_auth(),
    };
    let (client, server) = tokio::io::duplex(64 << 10);
    let name = ServerName::try_from("here").expect("a valid name");
    let connector = TlsConnector::from(Arc::new(config));
    let (client, server) = tokio::join!(connector.connect(name, client), tls.acceptor().accept(server));
    (client.is_ok(), server.is_ok())
}

async fn shakes_hands(reloader: &CertificateReloader, roots: &RootCertStore) -> bool {
    shake_hands(&reloader.config(), roots, None).await.0
}

async fn load(tls: Tls) -> CertificateReloader {
    CertificateReloader::load(tls, |_| {}).await.expect("valid files")
}

#[tokio::test]
async fn replaced_certificate_is_served_and_invalid_one_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, first) = certificate(folder.path());
    let reads = Arc::new(Mutex::new(Vec::new()));
    let counted = Arc::clone(&reads);
    let reloader = CertificateReloader::load(tls, move |read| counted.lock().push(read.is_ok())).await;
    let mut reloader = reloader.expect("a valid pair");
    assert!(shakes_hands(&reloader, &first).await);
    assert!(!reloader.reload().await.expect("nothing has changed"));

    let key = folder.path().join("tls.key");
    std::fs::write(&key, "garbage").expect("a writable folder");
    let error = reloader.reload().await.expect_err("the key is broken").to_string();
    assert!(error.ends_with("the key is not PEM"), "{error}");
    assert!(shakes_hands(&reloader, &first).await, "the old pair is still served");

    let (_, second) = certificate(folder.path());
    assert!(reloader.reload().await.expect("a valid pair"));
    assert!(shakes_hands(&reloader, &second).await);
    assert!(!shakes_hands(&reloader, &first).await);

    assert_eq!(*reads.lock(), [true, true, false, true]);
}

#[tokio::test]
async fn certificate_and_key_that_do_not_match_are_rejected() {
    let (one, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let _ = (certificate(one.path()), certificate(other.path()));
    let tls = Tls::files(one.path().join("tls.crt"), other.path().join("tls.key"), default_provider());
    let error = CertificateReloader::load(tls, |_| {}).await.expect_err("a mismatch").to_string();
    assert!(error.ends_with("the key does not match the certificate"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn certificate_files_are_reloaded_every_ten_seconds() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, _) = certificate(folder.path());
    let mut reloader = load(tls).await;
    let (_, second) = certificate(folder.path());
    tokio::select! {
        () = reloader.run() => {}
        () = tokio::time::sleep(Duration::from_secs(25)) => {}
    }
    assert!(shakes_hands(&reloader, &second).await);
}

/// Creates a certificate authority: its certificate as PEM, and its key.
fn authority(name: &str) -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key can be generated");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).expect("valid parameters").pem();
    (pem, Issuer::new(params, key))
}

type ClientPair = (CertificateDer<'static>, PrivateKeyDer<'static>);

/// Issues a client certificate.
fn client_of((_, issuer): &(String, Issuer<'static, KeyPair>)) -> ClientPair {
    let key = KeyPair::generate().expect("a key can be generated");
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, issuer).expect("valid parameters").der().clone();
    (certificate, PrivateKeyDer::try_from(key.serialize_der()).expect("PKCS#8"))
}

#[tokio::test]
async fn replaced_client_authority_applies_to_the_next_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tls, roots) = certificate(folder.path());
    let write = |text: &str| {
        std::fs::write(folder.path().join("ca.crt"), text).expect("a writable folder");
        folder.path().join("ca.crt")
    };
    let (before, after) = (authority("before"), authority("after"));
    let (old, new) = (client_of(&before), client_of(&after));
    let mut reloader = load(tls.client_authority(write(&before.0))).await;
    let config = reloader.config();
    let taken = async |certificate: Option<&ClientPair>| shake_hands(&config, &roots, certificate).await.1;
    assert!(taken(Some(&old)).await && !taken(Some(&new)).await && !taken(None).await);

    write("garbage");
    let error = reloader.reload().await.expect_err("the renewal fails").to_string();
    assert!(error.contains("there is no client CA in ") && error.ends_with("ca.crt"), "{error}");
    assert!(taken(Some(&old)).await, "the old CA is still accepted");

    write(&after.0);
    assert!(reloader.reload().await.expect("valid files"));
    assert!(taken(Some(&new)).await && !taken(Some(&old)).await && !taken(None).await);
}

/// Writes a self-signed certificate to a versioned subfolder, like kubelet does for a mounted Secret. Returns
/// the root certificates with which a client trusts a server with this certificate.
fn version(folder: &std::path::Path, name: &str) -> RootCertStore {
    let version = folder.join(name);
    std::fs::create_dir(&version).expect("a writable folder");
    certificate(&version).1
}

#[tokio::test]
async fn certificate_is_reloaded_after_the_symlink_swap_of_a_mounted_secret() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let swap = |name: &str| {
        symlink(name, path("..data_tmp")).expect("a writable folder");
        std::fs::rename(path("..data_tmp"), path("..data")).expect("a writable folder");
    };
    let first = version(folder.path(), "..1");
    swap("..1");
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), path(name)).expect("a writable folder");
    }
    let tls = Tls::files(path("tls.crt"), path("tls.key"), default_provider());
    let mut reloader = load(tls).await;
    assert!(shakes_hands(&reloader, &first).await);

    let second = version(folder.path(), "..2");
    assert!(!reloader.reload().await.expect("nothing has changed"));
    swap("..2");
    std::fs::remove_dir_all(path("..1")).expect("a writable folder");
    assert!(reloader.reload().await.expect("a valid pair"));
    assert!(shakes_hands(&reloader, &second).await);
    assert!(!shakes_hands(&reloader, &first).await);
}

#[tokio::test]
async fn certificate_is_reloaded_after_files_are_renamed_over_it_or_removed_and_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (tls, first) = certificate(folder.path());
    let mut reloader = load(tls).await;

    let second = version(folder.path(), "2");
    std::fs::rename(path("2/tls.crt"), path("tls.crt")).expect("a writable folder");
    let error = reloader.reload().await.expect_err("half of a pair").to_string();
    assert!(error.ends_with("the key does not match the certificate"), "{error}");
    assert!(shakes_hands(&reloader, &first).await, "the old pair is still served");
    std::fs::rename(path("2/tls.key"), path("tls.key")).expect("a writable folder");
    assert!(reloader.reload().await.expect("a valid pair"));
    assert!(shakes_hands(&reloader, &second).await);

    for name in ["tls.crt", "tls.key"] {
        std::fs::remove_file(path(name)).expect("it exists");
        let error = reloader.reload().await.expect_err("a file is missing").to_string();
        let named = format!("the file {} cannot be read", path("tls.crt").display());
        assert!(error.ends_with(&named), "{error}");
        assert!(shakes_hands(&reloader, &second).await, "the old pair is still served");
    }
    let (_, third) = certificate(folder.path());
    assert!(reloader.reload().await.expect("a valid pair"));
    assert!(shakes_hands(&reloader, &third).await && !shakes_hands(&reloader, &second).await);
}

#[test]
fn invalid_pair_or_authority_has_an_error_for_its_part() {
    let made = rcgen::generate_simple_self_signed(["here".to_owned()]).expect("a valid name");
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let pair = |chain: &str, key: &str| certified_key(chain.as_bytes(), key.as_bytes(), &default_provider());
    assert!(pair(&chain, &key).is_ok());
    assert!(matches!(pair("garbage", &key), Err(PemError::Certificate(_))));
    assert!(matches!(pair(&chain, "garbage"), Err(PemError::Key(_))));
    let other = KeyPair::generate().expect("a key can be generated").serialize_pem();
    assert!(matches!(pair(&chain, &other), Err(PemError::Rejected(_))));

    assert_eq!(authorities((chain.clone() + &chain).as_bytes()).expect("valid certificates").len(), 2);
    assert!(matches!(authorities(b""), Err(PemError::Certificate(Error::NoItemsFound))));
    assert!(matches!(authorities(b"-----BEGIN CERTIFICATE-----\nAAAA\n"), Err(PemError::Certificate(_))));
    let no_certificate = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(matches!(authorities(no_certificate), Err(PemError::Rejected(_))));
}

#[tokio::test]
async fn versions_and_cipher_suites_are_restricted() {
    let made = rcgen::generate_simple_self_signed(["here".to_owned()]).expect("a valid name");
    let provider = Arc::new(default_provider());
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let config = |options: TlsOptions| {
        let pair = certified_key(chain.as_bytes(), key.as_bytes(), &provider).expect("a matching pair");
        options.server_config(Arc::clone(&provider), pair, None, &[])
    };
    let suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
    let restricted = config(TlsOptions::new().cipher_suites([suite])).expect("a known suite");
    let tls12 = |suite: &rustls::SupportedCipherSuite| match suite {
        rustls::SupportedCipherSuite::Tls12(suite) => suite.common.suite.as_str(),
        rustls::SupportedCipherSuite::Tls13(_) => None,
    };
    let suites: Vec<_> = restricted.crypto_provider().cipher_suites.iter().filter_map(tls12).collect();
    assert_eq!(suites, [suite]);
    assert_eq!(restricted.crypto_provider().cipher_suites.len(), 4, "all suites of TLS 1.3 are left");

    let unknown = config(TlsOptions::new().cipher_suites(["TLS_RSA_WITH_RC4_128_SHA"]));
    assert!(matches!(unknown, Err(TlsOptionsError::UnknownCipherSuite { name }) if name.contains("RC4")));

    let newest = config(TlsOptions::new().min_version(TlsVersion::Tls13)).expect("a supported version");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("it is a certificate");
    let client = |version| {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_protocol_versions(&[version]).expect("ring supports TLS");
        TlsConnector::from(Arc::new(config.with_root_certificates(roots.clone()).with_no_client_auth()))
    };
    let newest = TlsConfig::from(newest);
    for (version, accepted) in [(&rustls::version::TLS13, true), (&rustls::version::TLS12, false)] {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let name = ServerName::try_from("here").expect("a valid name");
        let (client, server) =
            tokio::join!(client(version).connect(name, ours), newest.acceptor().accept(theirs));
        assert_eq!((client.is_ok(), server.is_ok()), (accepted, accepted));
    }
}
