use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Responder;
use crate::http_server::{HttpServer, MAX_BODY_BYTES, REQUEST_TIMEOUT, text};

fn responder() -> Responder {
    let server = HttpServer::at("127.0.0.1:0")
        .route("/short", |_| async { text(StatusCode::OK, "short") })
        .route("/endless", |_| std::future::pending());
    Responder {
        routes: server.routes,
        access: None,
        body_max: MAX_BODY_BYTES,
        stop: CancellationToken::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn incomplete_body_times_out_with_504_and_is_not_served() {
    let body = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request = Request::post("/short").body(body).expect("a valid request");
    let start = Instant::now();
    let response = responder().respond_to(request, || panic!("the handler is not called")).await;
    assert_eq!((response.status(), start.elapsed()), (StatusCode::GATEWAY_TIMEOUT, REQUEST_TIMEOUT));
}

#[tokio::test(start_paused = true)]
async fn endless_handler_times_out_with_504_and_ends_the_guard_of_its_connection() {
    let request = Request::get("/endless").body(Full::<Bytes>::default()).expect("a valid request");
    let guard = Arc::new(());
    let (start, serving) = (Instant::now(), Arc::clone(&guard));
    let response = responder().respond_to(request, || serving).await;
    assert_eq!((response.status(), start.elapsed()), (StatusCode::GATEWAY_TIMEOUT, REQUEST_TIMEOUT));
    assert_eq!(Arc::strong_count(&guard), 1);
}
