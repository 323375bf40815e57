//! Tests of kube's client over the connections and credentials of this client.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::SinkExt as _;
use informer_client::{Client, ClientOptions};
use k8s_openapi::api::core::v1::Pod;
use kube_client::Config;
use kube_client::api::AttachParams;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::script::{Reply, script};

const STDOUT: u8 = 1;
const STATUS: u8 = 3;

/// The parts of a received request: the path, the token, and the negotiated protocol of the TLS connection.
type ReceivedRequests = Arc<Mutex<Vec<(String, String, Option<Vec<u8>>)>>>;

fn tls() -> (ServerConfig, CertificateDer<'static>) {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let certificate = own.cert.der().clone();
    let mut config = config.with_no_client_auth().with_single_cert(vec![certificate.clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (config, certificate)
}

/// Accepts one exec request after the other: sends a line of output and the status, and closes.
async fn serve(listener: TcpListener, tls: TlsAcceptor, seen: ReceivedRequests) {
    while let Ok((socket, _)) = listener.accept().await {
        exec(socket, &tls, &seen).await;
    }
}

async fn exec(socket: TcpStream, tls: &TlsAcceptor, seen: &ReceivedRequests) {
    let socket = tls.accept(socket).await.unwrap();
    let protocol = socket.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    #[expect(clippy::result_large_err, reason = "the type of the error is that of the callback")]
    let negotiate = |request: &Request, mut response: Response| {
        let token = request.headers()["authorization"].to_str().unwrap().to_owned();
        seen.lock().push((request.uri().to_string(), token, protocol));
        response.headers_mut().insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(socket, negotiate).await.unwrap();
    let mut send = async |channel: u8, text: &str| {
        let frame = [&[channel], text.as_bytes()].concat();
        socket.send(Message::binary(frame)).await.unwrap();
    };
    send(STDOUT, "hello\n").await;
    send(STATUS, r#"{"kind":"Status","status":"Success"}"#).await;
    socket.close(None).await.unwrap();
}

async fn listen() -> (SocketAddr, CertificateDer<'static>, ReceivedRequests) {
    let (config, certificate) = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), ReceivedRequests::default());
    tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&seen)));
    (address, certificate, seen)
}

#[tokio::test]
async fn exec_uses_a_websocket_on_http1_with_the_credentials_of_the_client() {
    let (address, certificate, seen) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "first").unwrap();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![certificate.to_vec()]);
    config.auth_info.token_file = Some(token.display().to_string());
    // HTTP/2 would be the only protocol of other requests.
    let options = ClientOptions { http2_prior_knowledge: true, ..ClientOptions::default() };
    let client = Client::with_options(config, options).unwrap();

    let pods = client.kube_api::<Pod>(Some("web"));
    let mut process =
        pods.exec("web-0", ["echo", "hello"], &AttachParams::default().stderr(false)).await.unwrap();
    let status = process.take_status().unwrap();
    let mut output = String::new();
    process.stdout().unwrap().read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "hello\n");
    assert_eq!(status.await.unwrap().status.as_deref(), Some("Success"));
    let seen = seen.lock();
    let (path, token, protocol) = &seen[0];
    assert!(path.starts_with("/api/v1/namespaces/web/pods/web-0/exec?"), "{path}");
    assert_eq!(token, "Bearer first");
    assert_ne!(protocol.as_deref(), Some(&b"h2"[..]), "HTTP/2 has no protocol upgrades");
}

#[tokio::test(start_paused = true)]
async fn kube_api_sends_requests_through_the_client() {
    let (client, requests) =
        script([Reply::status(200).data("line\n"), Reply::status(429).header("retry-after", "1").data("no")]);
    let pods = client.kube_api::<Pod>(None);
    assert_eq!(pods.logs("web-0", &Default::default()).await.unwrap(), "line\n");
    assert!(requests.last_header("user-agent").unwrap().contains("informer/"));
    assert!(pods.evict("web-0", &Default::default()).await.is_err(), "an eviction is not repeated");
    let path = "/api/v1/namespaces/default/pods/web-0";
    assert_eq!(requests.uris(), [format!("{path}/log?"), format!("{path}/eviction?")]);
}
