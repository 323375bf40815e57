//! TLS and client certificates over real sockets.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use informer_apiserver::{ApiServer, Certificate, CertificateAuthority, Listening, Tls, Tokens, User};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

struct Served {
    listening: Listening,
    users: CertificateAuthority,
    authority: CertificateAuthority,
}

impl Served {
    async fn start() -> Self {
        let users = CertificateAuthority::new("users").unwrap();
        let authority = CertificateAuthority::new("servers").unwrap();
        let certificate = authority.issue_for(["localhost", "127.0.0.1"]).unwrap();
        let mut tokens = Tokens::default();
        tokens.add("secret", User::new("bob"));
        let server = ApiServer::builder()
            .client_ca(users.certificate().parse().unwrap())
            .tokens(tokens)
            .rbac(true)
            .build();
        let tls = Tls::new(&certificate).unwrap().trusted(authority.certificate());
        Self { listening: server.listen_tls("127.0.0.1:0", tls).await.unwrap(), users, authority }
    }

    async fn connect(&self, protocol: &str, user: Option<&Certificate>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let trusted = CertificateDer::from_pem_slice(self.authority.certificate().as_bytes()).unwrap();
        roots.add(trusted).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(roots);
        let mut config = match user {
            None => config.with_no_client_auth(),
            Some(user) => {
                let chain = CertificateDer::pem_slice_iter(user.chain().as_bytes());
                let key = PrivateKeyDer::from_pem_slice(user.key().as_bytes()).unwrap();
                config.with_client_auth_cert(chain.collect::<Result<_, _>>().unwrap(), key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.listening.addr()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Sends a SelfSubjectReview with these credentials. Returns the status and the body of the response.
    async fn who(&self, user: Option<&Certificate>, token: Option<&str>) -> (u16, Value) {
        let stream = self.connect("http/1.1", user).await;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut request = http::Request::builder().method("POST").uri(REVIEW).header("host", "localhost");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let response = sender.send_request(request.body(Full::<Bytes>::from("{}")).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

#[tokio::test]
async fn aes_128_is_preferred_over_aes_256() {
    let provider = rustls::crypto::ring::default_provider();
    let longer = provider.cipher_suites.first().map(|suite| suite.suite());
    assert_eq!(longer, Some(CipherSuite::TLS13_AES_256_GCM_SHA384), "the client prefers the longer key");
    let served = Served::start().await;
    let stream = served.connect("http/1.1", None).await;
    let chosen = stream.get_ref().1.negotiated_cipher_suite().map(|suite| suite.suite());
    assert_eq!(chosen, Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
}

#[tokio::test]
async fn a_client_certificate_identifies_the_user() {
    let served = Served::start().await;
    let alice = served.users.issue_to(&User::new("alice").groups(["developers", "testers"])).unwrap();
    let (status, review) = served.who(Some(&alice), None).await;
    assert_eq!(status, 201, "{review}");
    let groups = json!(["developers", "testers", "system:authenticated"]);
    assert_eq!(review["status"]["userInfo"], json!({"username": "alice", "groups": groups}));
}

#[tokio::test]
async fn a_request_without_certificate_or_token_is_anonymous() {
    let (status, _) = Served::start().await.who(None, None).await;
    assert_eq!(status, 403, "anonymous users may not create a SelfSubjectReview");
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_rejected_unless_a_token_is_sent() {
    let served = Served::start().await;
    let foreign = CertificateAuthority::new("foreign").unwrap();
    let admin = foreign.issue_to(&User::new("admin").groups(["system:masters"])).unwrap();
    assert_eq!(served.who(Some(&admin), None).await.0, 401);
    let (status, review) = served.who(Some(&admin), Some("secret")).await;
    assert_eq!((status, &review["status"]["userInfo"]["username"]), (201, &json!("bob")));
}

#[tokio::test]
async fn a_server_certificate_does_not_identify_a_user() {
    let served = Served::start().await;
    let host = served.users.issue_for(["admin"]).unwrap();
    assert_eq!(served.who(Some(&host), None).await.0, 401);
}

#[tokio::test]
async fn clients_that_offer_http_2_negotiate_it() {
    let served = Served::start().await;
    let stream = served.connect("h2", None).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::builder().uri("https://localhost/healthz");
    let response = sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    connection.abort();
}

#[tokio::test]
async fn plain_http_on_the_tls_port_gets_an_explanation() {
    let served = Served::start().await;
    let mut stream = TcpStream::connect(served.listening.addr()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut text = String::new();
    // The server responds before it has read the whole request, so the connection may end with a reset.
    let _ = stream.read_to_string(&mut text).await;
    assert!(text.contains("Client sent an HTTP request to an HTTPS server."), "{text}");
}

#[tokio::test]
async fn a_connection_without_tls_handshake_does_not_delay_shutdown() {
    let served = Served::start().await;
    let silent = TcpStream::connect(served.listening.addr()).await.unwrap();
    served.listening.shutdown().await;
    drop(silent);
}

#[tokio::test]
async fn a_kubeconfig_contains_the_ca_and_the_user_certificate() {
    let served = Served::start().await;
    let alice = served.users.issue_to(&User::new("alice")).unwrap();
    let config: Value = serde_norway::from_str(&served.listening.kubeconfig_of(&alice)).unwrap();
    let cluster = &config["clusters"][0]["cluster"];
    assert_eq!(cluster["server"], format!("https://{}", served.listening.addr()));
    let decoded = |value: &Value| {
        use base64::Engine;
        base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap()).unwrap()
    };
    assert_eq!(decoded(&cluster["certificate-authority-data"]), served.authority.certificate().as_bytes());
    let user = &config["users"][0]["user"];
    assert_eq!(decoded(&user["client-certificate-data"]), alice.chain().as_bytes());
    assert_eq!(decoded(&user["client-key-data"]), alice.key().as_bytes());
}

#[test]
fn debug_output_does_not_contain_keys() {
    let authority = CertificateAuthority::new("users").unwrap();
    let alice = authority.issue_to(&User::new("alice")).unwrap();
    let tls = Tls::new(&authority.issue_for(["localhost"]).unwrap()).unwrap();
    let shown = format!("{authority:?} {alice:?} {tls:?}");
    assert_eq!(shown, "CertificateAuthority(..) Certificate(..) Tls(..)");
}

#[test]
fn invalid_certificates_have_different_errors() {
    let authority = CertificateAuthority::new("users").unwrap();
    let (one, other) =
        (authority.issue_for(["localhost"]).unwrap(), authority.issue_for(["localhost"]).unwrap());
    let mixed = Certificate::from_pem(one.chain(), other.key());
    let cases = [
        (Certificate::from_pem("", one.key()), "cannot read a certificate from PEM"),
        (Certificate::from_pem(one.chain(), "-----"), "cannot read a private key from PEM"),
        (mixed, "the certificate or its key is invalid, or they do not match"),
    ];
    for (certificate, message) in cases {
        assert_eq!(Tls::new(&certificate).unwrap_err().to_string(), message);
    }
    let many = User::new("alice").groups(["a", "b", "c"]);
    assert!(authority.issue_to(&many).unwrap_err().to_string().contains("3 groups"));
}
