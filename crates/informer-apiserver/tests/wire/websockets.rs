use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use informer_apiserver::{ApiServer, FaultMatch, Listening};
use informer_core::Gvr;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

type Socket = WebSocketStream<TcpStream>;

fn maps() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}

async fn connect(
    listening: &Listening,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<Socket, Error> {
    let url = format!("ws://{}{path}", listening.addr());
    let mut request = url.into_client_request()?;
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = TcpStream::connect(listening.addr()).await.unwrap();
    Ok(client_async(request, stream).await?.0)
}

fn origin(listening: &Listening) -> String {
    format!("http://{}", listening.addr())
}

async fn watch(listening: &Listening, query: &str) -> Socket {
    let path = format!("/api/v1/namespaces/default/configmaps?watch=true&{query}");
    connect(listening, &path, &[("origin", &origin(listening))]).await.unwrap()
}

async fn next(socket: &mut Socket) -> Value {
    match socket.next().await.unwrap().unwrap() {
        Message::Text(line) => serde_json::from_str(&line).unwrap(),
        other => panic!("expected a text message, got {other:?}"),
    }
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}})
}

#[tokio::test]
async fn each_watch_event_is_a_text_message() {
    let server = ApiServer::builder().build();
    server.load(&maps(), (0..50).map(|index| map(&format!("m{index:02}")))).unwrap();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let mut socket = watch(&listening, "resourceVersion=0").await;
    for index in 0..50 {
        let event = next(&mut socket).await;
        assert_eq!(
            (&event["type"], &event["object"]["metadata"]["name"]),
            (&json!("ADDED"), &json!(format!("m{index:02}")))
        );
    }
    server.load(&maps(), [map("later")]).unwrap();
    assert_eq!(next(&mut socket).await["object"]["metadata"]["name"], "later");
    socket.send(Message::Ping("p".into())).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong("p".into()));
}

#[tokio::test]
async fn websocket_is_closed_at_the_end_of_the_watch() {
    let server = ApiServer::builder().build();
    server.faults().on(FaultMatch::watch("configmaps")).expire();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let mut socket = watch(&listening, "resourceVersion=0").await;
    assert_eq!(next(&mut socket).await["object"]["code"], 410);
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_))) | None));
}

#[tokio::test]
async fn protobuf_events_are_binary_messages_without_length() {
    let server = ApiServer::builder().build();
    server.load(&maps(), [map("a")]).unwrap();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let accept = ("accept", "application/vnd.kubernetes.protobuf;stream=watch");
    let path = "/api/v1/configmaps?watch=1&resourceVersion=0";
    let mut socket = connect(&listening, path, &[("origin", &origin(&listening)), accept]).await.unwrap();
    let Message::Binary(event) = socket.next().await.unwrap().unwrap() else { panic!("no binary message") };
    assert!(event.starts_with(b"\x0a\x05ADDED"), "{event:?}");
}

#[tokio::test]
async fn invalid_handshakes_are_rejected() {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let status = |error: Error| match error {
        Error::Http(response) => response.status().as_u16(),
        other => panic!("expected a response, got {other}"),
    };
    let (watch, list) = ("/api/v1/configmaps?watch=1", "/api/v1/configmaps");
    let own = origin(&listening);
    assert_eq!(status(connect(&listening, watch, &[]).await.unwrap_err()), 403);
    assert_eq!(
        status(connect(&listening, watch, &[("origin", "http://other.example.com")]).await.unwrap_err()),
        403
    );
    assert_eq!(
        status(
            connect(&listening, watch, &[("origin", &own), ("sec-websocket-version", "8")])
                .await
                .unwrap_err()
        ),
        400
    );
    assert_eq!(status(connect(&listening, list, &[("origin", &own)]).await.unwrap_err()), 200);
    assert_eq!(
        status(connect(&listening, "/api/v1/nope?watch=1", &[("origin", &own)]).await.unwrap_err()),
        404
    );
}

#[tokio::test]
async fn shutdown_ends_open_websockets() {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let mut socket = watch(&listening, "resourceVersion=0").await;
    listening.shutdown().await;
    let end = tokio::time::timeout(Duration::from_secs(20), async {
        while let Some(Ok(_)) = socket.next().await {}
    });
    end.await.unwrap();
}
