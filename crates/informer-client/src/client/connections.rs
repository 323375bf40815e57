use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::Connect;
use parking_lot::Mutex;
use tower::Service;

use super::{BoxError, ResponseBody};

/// How many requests share one HTTP/2 connection. Servers allow 100 streams; a client that opens more waits for one
/// to end, which for watches is for ever, and a list behind them never starts.
const STREAMS_PER_CONNECTION_MAX: usize = 90;

/// A pool of connections that opens another one before the streams of the last are used up.
pub(super) struct Connections<C> {
    connector: C,
    builder: legacy::Builder,
    pools: Arc<Mutex<Vec<Pool<C>>>>,
}

/// Connections of which HTTP/2 uses one.
struct Pool<C> {
    client: legacy::Client<C, Full<Bytes>>,
    /// One count for itself and one for each request in it.
    streams: Arc<()>,
}

impl<C: Connect + Clone + Send + Sync + 'static> Connections<C> {
    pub(super) fn new(connector: C, builder: legacy::Builder) -> Self {
        Self { connector, builder, pools: Arc::default() }
    }

    /// A client with a free stream, and the stream.
    fn checkout(&self) -> (legacy::Client<C, Full<Bytes>>, Arc<()>) {
        let mut pools = self.pools.lock();
        let free = |pool: &&Pool<C>| Arc::strong_count(&pool.streams) <= STREAMS_PER_CONNECTION_MAX;
        if let Some(pool) = pools.iter().find(free) {
            return (pool.client.clone(), Arc::clone(&pool.streams));
        }
        let pool = Pool { client: self.builder.build(self.connector.clone()), streams: Arc::default() };
        let taken = (pool.client.clone(), Arc::clone(&pool.streams));
        pools.push(pool);
        taken
    }
}

impl<C: Clone> Clone for Connections<C> {
    fn clone(&self) -> Self {
        Self {
            connector: self.connector.clone(),
            builder: self.builder.clone(),
            pools: Arc::clone(&self.pools),
        }
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Service<Request<Full<Bytes>>> for Connections<C> {
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let (client, stream) = self.checkout();
        Box::pin(async move {
            let response = client.request(request).await?;
            Ok(response.map(|body| ResponseBody::new(body).holding(stream)))
        })
    }
}
