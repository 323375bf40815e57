use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::{ANSWER_TIMEOUT, BODY_MAX, HttpServer, text};
use super::{Site, exchange};

const ANSWER: usize = 100_000;

/// A connection with a small buffer, on which a large answer was asked for.
async fn asked() -> (DuplexStream, JoinHandle<()>) {
    let server = HttpServer::at("127.0.0.1:0")
        .route("/", |_| async { text(http::StatusCode::OK, "x".repeat(ANSWER)) });
    let site = Site {
        routes: server.routes,
        access: None::<Arc<super::Access>>,
        body_max: BODY_MAX,
        stop: CancellationToken::new(),
    };
    let (mut peer, here) = tokio::io::duplex(1024);
    let task = tokio::spawn(exchange(here, site));
    peer.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("it reads");
    (peer, task)
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_reads_its_answer_does_not_keep_its_connection() {
    let (_peer, task) = asked().await;
    let limit = ANSWER_TIMEOUT + Duration::from_secs(1);
    timeout(limit, task).await.expect("it is given up").expect("no panic");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_its_answer_a_byte_at_a_time_has_no_more_time() {
    let (mut peer, task) = asked().await;
    let read = async {
        while peer.read_u8().await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let limit = ANSWER_TIMEOUT + Duration::from_secs(2);
    tokio::select! {
        ended = timeout(limit, task) => ended.expect("it is given up").expect("no panic"),
        () = read => unreachable!("there is more to read than a byte a second"),
    }
}

#[tokio::test(start_paused = true)]
async fn each_answer_that_is_read_in_time_has_time_of_its_own() {
    let (mut peer, task) = asked().await;
    for _ in 0..3 {
        sleep(ANSWER_TIMEOUT * 3 / 4).await;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(peer.read_u8().await.expect("it is open"));
        }
        peer.read_exact(&mut vec![0; ANSWER]).await.expect("it is whole");
        sleep(Duration::from_secs(20)).await;
        peer.write_all(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("it reads");
    }
    drop(peer);
    task.await.expect("no panic");
}
