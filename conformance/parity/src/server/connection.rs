use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::request;
use super::session::Session;
use crate::script::{Attempt, End, ListResponse, Response, StatusResponse, Step};

/// The pause before a connection is reset. Without it, the reset could discard bytes that the client has not
/// read yet.
const BEFORE_RESET: Duration = Duration::from_millis(80);

pub(super) async fn serve(mut stream: TcpStream, session: &Arc<Session>) -> io::Result<()> {
    let Some(request) = request::read(&mut stream).await? else { return Ok(()) };
    if let Some(version) = &request.version_check {
        return respond_to_version_check(&mut stream, version).await;
    }
    if request.text == "GET /version" {
        return send_version(&mut stream).await;
    }
    let attempt = session.arrive(request);
    let outcome = async {
        let Attempt { delay, response, .. } = match attempt {
            Some(attempt) => attempt,
            None => Attempt { expect: None, delay: Duration::ZERO, response: Attempt::unscripted() },
        };
        tokio::time::sleep(delay).await;
        match response {
            Response::List(list) => send_list(&mut stream, &list, session).await,
            Response::Status(status) => send_status(&mut stream, &status, session).await,
            Response::Stream(steps, end) => send_stream(&mut stream, &steps, end, session).await,
            Response::Drop(end) => finish(&mut stream, end, session).await,
            Response::Refuse(_) => Ok(()),
        }
    };
    let outcome = outcome.await;
    drop(stream);
    session.response_ended();
    outcome
}

/// Responds to a version check of this library with a list at the checked version, so that the check
/// succeeds. Scripts do not contain this request, because client-go does not send it. The recorded wait of
/// the next request is measured from the failure before the check.
async fn respond_to_version_check(stream: &mut TcpStream, version: &str) -> io::Result<()> {
    let body = format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[]}}"#
    );
    send_unrecorded(stream, &body).await
}

/// Responds to `GET /version`. Scripts do not contain this request: informers of this library read the
/// server's version with each complete list, and those of client-go do not.
async fn send_version(stream: &mut TcpStream) -> io::Result<()> {
    send_unrecorded(stream, r#"{"major":"1","minor":"36","gitVersion":"v1.36.3"}"#).await
}

/// Sends a JSON body as response to a request that is not part of the script. Neither the request nor the
/// time of the response is recorded in the trace.
async fn send_unrecorded(stream: &mut TcpStream, body: &str) -> io::Result<()> {
    let head = head("200 OK", "application/json", body.len(), "");
    stream.write_all((head + body).as_bytes()).await?;
    stream.shutdown().await
}

async fn send_list(stream: &mut TcpStream, list: &ListResponse, session: &Arc<Session>) -> io::Result<()> {
    let head = head("200 OK", &list.content_type, list.body.len(), "");
    let Some(end) = list.broken else {
        session.close_port_if_next().await;
        return send_whole(stream, head + &list.body, session).await;
    };
    send(stream, &(head + &list.body[..list.body.len() / 2]), session).await?;
    finish(stream, end, session).await
}

async fn send_status(
    stream: &mut TcpStream,
    status: &StatusResponse,
    session: &Arc<Session>,
) -> io::Result<()> {
    let retry_after = status.retry_after.map(|seconds| format!("Retry-After: {seconds}\r\n"));
    let line = format!("{} {}", status.code, status.reason);
    let body = status.body();
    let head = head(&line, status.content_type(), body.len(), &retry_after.unwrap_or_default());
    session.close_port_if_next().await;
    send_whole(stream, head + &body, session).await
}

fn head(status: &str, content_type: &str, length: usize, more: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n"
    )
}

async fn send_whole(stream: &mut TcpStream, text: String, session: &Session) -> io::Result<()> {
    send(stream, &text, session).await?;
    stream.shutdown().await
}

async fn send(stream: &mut TcpStream, text: &str, session: &Session) -> io::Result<()> {
    // The time of the last response is recorded before sending, because the client may react before this task
    // continues. It is recorded again afterwards, because sending may take time.
    session.sent();
    stream.write_all(text.as_bytes()).await?;
    session.sent();
    Ok(())
}

async fn send_chunk(stream: &mut TcpStream, text: &str, session: &Session) -> io::Result<()> {
    send(stream, &format!("{:x}\r\n{text}\r\n", text.len()), session).await
}

async fn send_stream(
    stream: &mut TcpStream,
    steps: &[Step],
    end: End,
    session: &Arc<Session>,
) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\
                Connection: close\r\n\r\n";
    send(stream, head, session).await?;
    for step in steps {
        match step {
            Step::Send(text) => send_chunk(stream, text, session).await?,
            Step::Error(status) => send_chunk(stream, &status.event(), session).await?,
            Step::Do(command) => session.command(command).await,
            Step::Wait(time) => {
                let closed = closed_by_peer(stream);
                if tokio::time::timeout(*time, closed).await.is_ok() {
                    return Ok(());
                }
            }
        }
    }
    if end == End::Close {
        session.close_port_if_next().await;
        send(stream, "0\r\n\r\n", session).await?;
        return stream.shutdown().await;
    }
    if end == End::CutChunk {
        send(stream, "40\r\n{\"type\":\"ADDED\",", session).await?;
    }
    finish(stream, end, session).await
}

async fn finish(stream: &mut TcpStream, end: End, session: &Arc<Session>) -> io::Result<()> {
    if end == End::Hold {
        session.hold(true);
        closed_by_peer(stream).await;
        session.hold(false);
        return Ok(());
    }
    session.close_port_if_next().await;
    if end == End::Reset {
        tokio::time::sleep(BEFORE_RESET).await;
        stream.set_zero_linger()?;
    }
    session.sent();
    Ok(())
}

async fn closed_by_peer(stream: &mut TcpStream) {
    let mut buffer = [0; 64];
    while !matches!(stream.read(&mut buffer).await, Ok(0) | Err(_)) {}
}
