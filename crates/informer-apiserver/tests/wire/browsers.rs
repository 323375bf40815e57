//! A server without users rejects requests over a socket that may come from a web page in a browser.

use informer_apiserver::{ApiServer, Listening, Tokens, User};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = r#"{"metadata":{"name":"made"}}"#;

/// Sends an HTTP/1.1 request with these headers to the server. Returns the status and the body of the
/// response.
async fn send(listening: &Listening, line: &str, headers: &[&str], body: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(listening.addr()).await.unwrap();
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let request =
        format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn a_web_page_can_neither_rebind_a_name_nor_forge_a_write() {
    let server = ApiServer::builder().allowed_hosts(["apiserver.test"]).build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let (post, own) = (format!("POST {MAPS}"), format!("Host: {}", listening.addr()));
    let refused: [(&str, &[&str], u16, &str); 5] = [
        (
            "GET /api",
            &["Host: rebound.example"],
            403,
            "host \\\"rebound.example\\\" is not a name of this server",
        ),
        (
            &post,
            &[&own, "Origin: http://page.example"],
            403,
            "origin \\\"http://page.example\\\" is not this server",
        ),
        (&post, &[&own, "Origin: null"], 403, "origin \\\"null\\\""),
        (&post, &[&own, "Sec-Fetch-Site: cross-site"], 403, "a web page of another origin"),
        (&post, &[&own, "Sec-Fetch-Site: same-origin"], 415, "set Content-Type"),
    ];
    for (line, headers, status, why) in refused {
        let (found, body) = send(&listening, line, headers, MAP).await;
        assert_eq!(found, status, "{headers:?}: {body}");
        assert!(body.contains(why), "{headers:?}: {body}");
    }
    assert_eq!(server.requests().len(), 0, "the requests do not reach the server");
    for host in ["Host: localhost:8001", "Host: apiserver.test", &own] {
        assert_eq!(send(&listening, "GET /api", &[host], "").await.0, 200, "{host}");
    }
    // `curl --data-binary` with an empty content type, and raw requests of client-go, send no `Content-Type`
    // and must be accepted.
    assert_eq!(send(&listening, &post, &[&own], MAP).await.0, 201);
}

#[tokio::test]
async fn server_with_users_checks_neither_host_nor_origin() {
    let mut tokens = Tokens::default();
    tokens.add("secret", User::new("alice"));
    let server = ApiServer::builder().tokens(tokens).build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let headers = ["Host: api.example", "Origin: http://page.example", "Authorization: Bearer secret"];
    assert_eq!(send(&listening, &format!("POST {MAPS}"), &headers, MAP).await.0, 201);
    assert_eq!(send(&listening, "GET /api", &headers[..2], "").await.0, 401);
}
