//! Tests of kube's client over the connections and credentials of this client.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use informer_client::{Client, ClientOptions};
use k8s_openapi::api::core::v1::Pod;
use kube_client::Config;
use kube_client::api::{AttachParams, Patch, PatchParams};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use crate::script::{Reply, script};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STATUS: u8 = 3;

type Socket = WebSocketStream<TlsStream<TcpStream>>;

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

/// Accepts one WebSocket request after the other.
async fn serve(listener: TcpListener, tls: TlsAcceptor, seen: ReceivedRequests) {
    while let Ok((socket, _)) = listener.accept().await {
        let socket = upgrade(socket, &tls, &seen).await;
        let path = seen.lock().last().map(|(path, ..)| path.clone()).unwrap_or_default();
        match path.split_once('?').and_then(|(path, _)| path.rsplit('/').next()) {
            Some("exec") => exec(socket).await,
            Some("attach") => attach(socket).await,
            Some("portforward") => forward(socket).await,
            other => panic!("an unexpected request: {other:?}"),
        }
    }
}

async fn upgrade(socket: TcpStream, tls: &TlsAcceptor, seen: &ReceivedRequests) -> Socket {
    let socket = tls.accept(socket).await.unwrap();
    let protocol = socket.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    #[expect(clippy::result_large_err, reason = "the type of the error is that of the callback")]
    let negotiate = |request: &Request, mut response: Response| {
        let token = request.headers()["authorization"].to_str().unwrap().to_owned();
        seen.lock().push((request.uri().to_string(), token, protocol));
        response.headers_mut().insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
        Ok(response)
    };
    tokio_tungstenite::accept_hdr_async(socket, negotiate).await.unwrap()
}

async fn send(socket: &mut Socket, channel: u8, data: &[u8]) {
    socket.send(Message::binary([&[channel], data].concat())).await.unwrap();
}

/// Returns the next data that the client sends on a channel of the WebSocket.
async fn receive(socket: &mut Socket, channel: u8) -> Vec<u8> {
    while let Some(message) = socket.next().await {
        if let Message::Binary(frame) = message.unwrap()
            && let Some((&sent_on, data)) = frame.split_first()
            && !data.is_empty()
        {
            assert_eq!(sent_on, channel);
            return data.to_vec();
        }
    }
    panic!("the client closed the connection");
}

async fn succeed(mut socket: Socket) {
    send(&mut socket, STATUS, br#"{"kind":"Status","status":"Success"}"#).await;
    socket.close(None).await.unwrap();
}

/// Sends a line of output and the status.
async fn exec(mut socket: Socket) {
    send(&mut socket, STDOUT, b"hello\n").await;
    succeed(socket).await;
}

/// Returns the input of the client as output, then sends the status.
async fn attach(mut socket: Socket) {
    let input = receive(&mut socket, STDIN).await;
    send(&mut socket, STDOUT, &input).await;
    succeed(socket).await;
}

/// Forwards two ports: returns the data of the first one in upper case, and reports an error of the second
/// one. Each port has a channel for data and one for errors, which begin with the number of the port.
async fn forward(mut socket: Socket) {
    for (channel, port) in [(0, 8080_u16), (1, 8080), (2, 9090), (3, 9090)] {
        send(&mut socket, channel, &port.to_le_bytes()).await;
    }
    let request = receive(&mut socket, 0).await;
    send(&mut socket, 0, &request.to_ascii_uppercase()).await;
    send(&mut socket, 3, b"nothing listens at 9090").await;
    socket.close(None).await.unwrap();
}

async fn listen() -> (SocketAddr, CertificateDer<'static>, ReceivedRequests) {
    let (config, certificate) = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), ReceivedRequests::default());
    tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&seen)));
    (address, certificate, seen)
}

/// Returns a client with a token, for a server at this address.
fn client(address: SocketAddr, certificate: &CertificateDer<'_>) -> Client {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![certificate.to_vec()]);
    config.auth_info.token = Some("first".to_owned().into());
    Client::new(config).unwrap()
}

#[tokio::test]
async fn attach_sends_input_and_receives_output_over_a_websocket() {
    let (address, certificate, seen) = listen().await;
    let pods = client(address, &certificate).kube_api::<Pod>(Some("web"));
    let params = AttachParams::default().stdin(true).stderr(false);
    let mut process = pods.attach("web-0", &params).await.unwrap();
    let status = process.take_status().unwrap();
    process.stdin().unwrap().write_all(b"a line\n").await.unwrap();
    let mut output = String::new();
    process.stdout().unwrap().read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "a line\n");
    assert_eq!(status.await.unwrap().status.as_deref(), Some("Success"));
    let (path, token, _) = seen.lock()[0].clone();
    assert!(path.starts_with("/api/v1/namespaces/web/pods/web-0/attach?"), "{path}");
    assert_eq!(token, "Bearer first");
}

#[tokio::test]
async fn port_forward_connects_each_port_and_returns_its_error() {
    let (address, certificate, seen) = listen().await;
    let pods = client(address, &certificate).kube_api::<Pod>(Some("web"));
    let mut forwarded = pods.portforward("web-0", &[8080, 9090]).await.unwrap();
    let mut stream = forwarded.take_stream(8080).unwrap();
    let error = forwarded.take_error(9090).unwrap();
    stream.write_all(b"ping").await.unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"PING");
    assert_eq!(error.await.as_deref(), Some("nothing listens at 9090"));
    let (path, token, _) = seen.lock()[0].clone();
    assert!(path.starts_with("/api/v1/namespaces/web/pods/web-0/portforward?"), "{path}");
    assert_eq!(token, "Bearer first");
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

#[tokio::test(start_paused = true)]
async fn resize_and_ephemeral_containers_are_patched_through_kube_api() {
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","generation":2}}"#;
    let (client, requests) = script([Reply::ok(pod), Reply::ok(pod)]);
    let pods = client.kube_api::<Pod>(None);
    let patch = |spec: serde_json::Value| Patch::Strategic(serde_json::json!({"spec": spec}));
    let limits = serde_json::json!({"resources": {"limits": {"cpu": "2"}}, "name": "main"});
    let resize = patch(serde_json::json!({"containers": [limits]}));
    let resized = pods.patch_resize("web-0", &PatchParams::default(), &resize).await.unwrap();
    assert_eq!(resized.metadata.generation, Some(2));
    let content_type = requests.last_header("content-type");
    assert_eq!(content_type.as_deref(), Some("application/strategic-merge-patch+json"));

    let debugger = patch(serde_json::json!({"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}));
    pods.patch_ephemeral_containers("web-0", &PatchParams::default(), &debugger).await.unwrap();
    let path = "/api/v1/namespaces/default/pods/web-0";
    assert_eq!(requests.uris(), [format!("{path}/resize?"), format!("{path}/ephemeralcontainers?")]);
}
