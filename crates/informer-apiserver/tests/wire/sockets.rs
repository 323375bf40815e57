use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use informer_apiserver::{ApiServer, FaultAction, FaultMatch, History, Listening, Verb};
use informer_core::Gvr;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

fn filled(count: usize) -> ApiServer {
    let server = ApiServer::builder().build();
    let objects =
        (0..count).map(|i| json!({"metadata": {"name": format!("c{i:04}")}, "data": {"x": "y".repeat(500)}}));
    server.load(&maps(), objects).unwrap();
    server
}

fn client() -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

async fn http2(listening: &Listening) -> (SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let socket = TcpStream::connect(listening.addr()).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(socket)).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn get(listening: &Listening, path: &str) -> http::Request<Empty<Bytes>> {
    http::Request::get(format!("{}/api/v1/{path}", listening.url())).body(Empty::new()).unwrap()
}

/// Creates a server whose history is shorter than the changes that [`flood`] writes.
fn forgetful() -> ApiServer {
    ApiServer::builder().history(History { events: 64, bytes: 1 << 20 }).build()
}

/// Writes changes that are much larger than all buffers and flow control windows of a connection.
async fn flood(server: &ApiServer) {
    for i in 0..400 {
        let object = json!({"metadata": {"name": "a"}, "data": {"x": format!("{i}").repeat(20_000)}});
        server.load(&maps(), [object]).unwrap();
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_large_list_is_complete_over_http_1_and_2() {
    let server = filled(2_000);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    for http2 in [false, true] {
        let client: Client<_, Empty<Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
        let response = client.request(get(&listening, "configmaps")).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let list: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), 2_000);
    }
    assert_eq!(server.count_requests(Verb::List, "configmaps"), 2);
    listening.shutdown().await;
}

#[tokio::test]
async fn a_response_to_head_has_the_content_length_and_no_body() {
    let listening = filled(1).listen("127.0.0.1:0").await.unwrap();
    for http2 in [false, true] {
        let client: Client<_, Empty<Bytes>> =
            Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
        for (path, status) in [("healthz", 200), ("api/v1/configmaps", 405)] {
            let uri = format!("{}/{path}", listening.url());
            let head = http::Request::head(uri).body(Empty::new()).unwrap();
            let response = client.request(head).await.unwrap();
            assert_eq!(response.status(), status);
            let length: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
            assert!(length > 0, "{path}");
            assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty(), "{path}");
        }
    }
    listening.shutdown().await;
}

#[tokio::test]
async fn a_reset_is_a_connection_error_and_a_clean_end_is_not() {
    let server = filled(100);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    for abrupt in [true, false] {
        server.faults().clear();
        let cut = FaultAction::Cut { after_events: None, after_bytes: Some(5_000), abrupt };
        let fault = server.faults().on(FaultMatch::list("configmaps")).then(cut);
        let body = client().request(get(&listening, "configmaps")).await.unwrap().into_body().collect().await;
        assert_eq!(body.is_err(), abrupt);
        if let Ok(body) = body {
            assert_eq!(body.to_bytes().len(), 5_000);
        }
        assert_eq!(fault.fired(), 1);
    }
}

#[tokio::test]
async fn shutdown_ends_watches_cleanly_and_returns() {
    let server = filled(1);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let client = client();
    let mut body = client.request(get(&listening, "configmaps?watch=1")).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().unwrap().data_ref().unwrap().starts_with(b"{\"type\":\"ADDED\""));
    let rest = tokio::spawn(body.collect());
    listening.shutdown().await;
    assert!(rest.await.unwrap().unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn cut_connections_ends_all_connections_and_keeps_the_listener() {
    let server = filled(1);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let (client, watch) = (client(), || get(&listening, "configmaps?watch=1"));
    let mut body = client.request(watch()).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    listening.cut_connections();
    assert!(body.frame().await.unwrap().is_err(), "the stream ends with an error");
    assert_eq!(client.request(watch()).await.unwrap().status(), 200);
}

#[tokio::test]
async fn incomplete_and_invalid_requests_do_not_stop_the_server() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = filled(1);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let head = "POST /api/v1/namespaces/n/configmaps HTTP/1.1\r\nhost: localhost\r\n";
    let requests: [Vec<u8>; 5] = [
        b"GET /api/v1/po".to_vec(),
        b"\x00\xff\xfe nonsense\r\n\r\n".to_vec(),
        format!("{head}content-length: 100\r\n\r\n{{").into_bytes(),
        [format!("{head}content-length: 4\r\n\r\n").as_bytes(), b"{\xff\xfe}"].concat(),
        b"GET /api/v1/%ff%fe HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_vec(),
    ];
    for request in requests {
        let mut socket = TcpStream::connect(listening.addr()).await.unwrap();
        socket.write_all(&request).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut response = Vec::new();
        // The server may reject the request or close the connection, but it must not leave the client
        // waiting.
        drop(socket.read_to_end(&mut response).await);
        let response = String::from_utf8_lossy(&response);
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 4"), "{response}");
    }
    assert_eq!(client().request(get(&listening, "configmaps")).await.unwrap().status(), 200);
    assert_eq!(server.list(&maps(), "n").unwrap().len(), 0);
}

#[tokio::test]
async fn a_watch_that_is_not_read_uses_bounded_memory() {
    use tokio::io::AsyncWriteExt;
    let server = forgetful();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let mut socket = TcpStream::connect(listening.addr()).await.unwrap();
    let version = server.version();
    let request = format!(
        "GET /api/v1/configmaps?watch=1&resourceVersion={version} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    socket.readable().await.unwrap();
    flood(&server).await;
    let mut text = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut text).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    let events = text.matches("{\"type\":").count();
    assert!(events < 400 && !text.contains("ERROR") && text.ends_with("0\r\n\r\n"), "{events} events");
}

#[tokio::test]
async fn shutdown_does_not_wait_forever_for_a_stalled_response() {
    let server = filled(1);
    server.faults().on(FaultMatch::watch("configmaps")).stall_after(1);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let client = client();
    let mut body = client.request(get(&listening, "configmaps?watch=1")).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::pause();
    listening.shutdown().await;
    assert!(body.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn a_lost_response_breaks_the_connection_after_the_write_is_committed() {
    let server = filled(0);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let fault = server.faults().on(FaultMatch::verb(Verb::Create)).lose_answer();
    for (http2, name) in [(false, "one"), (true, "two")] {
        let client: Client<_, String> = Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
        let body = json!({"metadata": {"name": name}}).to_string();
        let uri = format!("{}/api/v1/namespaces/n/configmaps", listening.url());
        let response = client.request(http::Request::post(uri).body(body).unwrap()).await;
        // Over HTTP/2, the response headers may arrive before the reset of the stream.
        match response {
            Err(_) => {}
            Ok(response) => assert!(http2 && response.into_body().collect().await.is_err()),
        }
        assert!(server.get(&maps(), "n", name).is_ok());
    }
    assert_eq!(fault.fired(), 2, "no request was retried");
}

#[tokio::test]
async fn a_connection_with_goaway_finishes_its_requests() {
    let server = filled(1);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let go = server.faults().on(FaultMatch::list("configmaps")).nth(2).then(FaultAction::GoAway);
    let (mut sender, connection) = http2(&listening).await;
    let path = format!("configmaps?watch=1&resourceVersion={}", server.version());
    let mut watch = sender.send_request(get(&listening, &path)).await.unwrap().into_body();
    for _ in 0..2 {
        let list = sender.send_request(get(&listening, "configmaps")).await.unwrap();
        assert_eq!(list.into_body().collect().await.unwrap().to_bytes().first(), Some(&b'{'));
    }
    assert_eq!(go.fired(), 1);
    server.create(&maps(), "n", json!({"metadata": {"name": "new"}})).unwrap();
    let line = watch.frame().await.unwrap().unwrap();
    assert!(line.data_ref().unwrap().starts_with(b"{\"type\":\"ADDED\""), "the watch continues");
    server.disconnect_watchers();
    assert!(watch.collect().await.unwrap().to_bytes().is_empty());
    // The client does not close the connection; the server closes the idle connection after GOAWAY.
    connection.await.unwrap().unwrap();
    drop(sender);

    server.faults().on(FaultMatch::list("configmaps")).then(FaultAction::GoAway);
    let response = client().request(get(&listening, "configmaps")).await.unwrap();
    assert_eq!(response.headers()["connection"], "close");
}

#[tokio::test]
async fn requests_over_the_stream_limit_wait_for_a_free_stream() {
    use futures_util::FutureExt;
    let server = ApiServer::builder().http2_streams(1).build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let (mut sender, _connection) = http2(&listening).await;
    let path = format!("configmaps?watch=1&resourceVersion={}", server.version());
    let watch = sender.send_request(get(&listening, &path)).await.unwrap();
    let mut list = std::pin::pin!(sender.send_request(get(&listening, "configmaps")));
    for _ in 0..100 {
        assert!((&mut list).now_or_never().is_none(), "the watch occupies the only stream");
        tokio::task::yield_now().await;
    }
    assert_eq!(server.count_requests(Verb::List, "configmaps"), 0);
    drop(watch);
    assert_eq!(list.await.unwrap().status(), 200);
}

#[tokio::test]
async fn slow_request_bodies_do_not_block_others_and_time_out() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = filled(0);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let body = json!({"metadata": {"name": "slow"}}).to_string();
    let head = format!(
        "POST /api/v1/namespaces/n/configmaps HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stuck = Vec::new();
    for sent in [&head[..20], &head, &format!("{head}{{")] {
        let mut socket = TcpStream::connect(listening.addr()).await.unwrap();
        socket.write_all(sent.as_bytes()).await.unwrap();
        stuck.push(socket);
    }
    let mut slow = TcpStream::connect(listening.addr()).await.unwrap();
    for byte in format!("{head}{body}").bytes() {
        slow.write_all(&[byte]).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut response = String::new();
    slow.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    assert_eq!(server.list(&maps(), "n").unwrap().len(), 1, "only one object is created");
    tokio::time::pause();
    listening.shutdown().await;
    for mut socket in stuck {
        let mut rest = Vec::new();
        // The connection may end normally or with a reset, but without a response.
        drop(socket.read_to_end(&mut rest).await);
        assert_eq!(rest, b"");
    }
    assert_eq!(server.list(&maps(), "n").unwrap().len(), 1);
}

#[tokio::test]
async fn an_http_2_stream_that_is_not_read_uses_bounded_memory() {
    let server = forgetful();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let (mut sender, _connection) = http2(&listening).await;
    let path = format!("configmaps?watch=1&resourceVersion={}", server.version());
    let watch = sender.send_request(get(&listening, &path)).await.unwrap().into_body();
    flood(&server).await;
    let told = String::from_utf8(watch.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let events = told.matches("{\"type\":").count();
    assert!(events < 400 && !told.contains("ERROR") && told.ends_with("}\n"), "{events} events");
    // The reset of one stream does not affect the connection and its other streams.
    assert_eq!(sender.send_request(get(&listening, "configmaps")).await.unwrap().status(), 200);
}
