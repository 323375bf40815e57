use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::client::legacy;
use parking_lot::Mutex;

use super::connector::Connector;
use super::error::is_unprocessed;
use super::{BoxError, ResponseBody};

/// Maximum number of concurrent requests on one HTTP/2 connection. API servers allow 100 streams per
/// connection. If all streams of a connection are in use, the HTTP/2 client queues further requests until a
/// stream ends. Watches are long-lived, so a list in that queue could wait forever.
pub(super) const MAX_STREAMS_PER_CONNECTION: usize = 90;

/// Maximum number of attempts to send a request if the server closes the connection or resets the HTTP/2
/// stream each time without processing the request.
const MAX_ATTEMPTS: u32 = 4;

/// Connection pools for one server. Another pool is opened before the HTTP/2 streams of the existing pools
/// are used up.
#[derive(Clone)]
pub(super) struct Connections {
    connector: Connector,
    builder: legacy::Builder,
    pools: Arc<Mutex<Pools>>,
}

/// The connection pools whose connections use the same client certificate.
struct Pools {
    identity_generation: u64,
    pools: Vec<Pool>,
}

/// A connection pool of hyper. The pool opens one HTTP/2 connection, or as many HTTP/1.1 connections as there
/// are concurrent requests.
struct Pool {
    client: legacy::Client<Connector, Full<Bytes>>,
    /// Counts the HTTP/2 streams in use: the strong count is one for the pool, plus one for each request
    /// until its response body is dropped.
    streams: Arc<()>,
}

impl Connections {
    pub(super) fn new(connector: Connector, builder: legacy::Builder) -> Self {
        let pools = Pools { identity_generation: 0, pools: Vec::new() };
        Self { connector, builder, pools: Arc::new(Mutex::new(pools)) }
    }

    /// Sends a request over a connection whose client certificate is the one with the number
    /// `identity_generation`, or a newer one.
    ///
    /// A request that reaches a connection while the server closes it is sent again, as Go's HTTP client
    /// does. kube-apiserver closes the connection after each anonymous request, and at random with
    /// `--goaway-chance`.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        identity_generation: u64,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let mut attempt = 1;
        loop {
            let (client, stream) = self.checkout(identity_generation);
            match client.request(request.clone()).await {
                Ok(response) => return Ok(response.map(|body| ResponseBody::new(body).holding(stream))),
                Err(error) if attempt < MAX_ATTEMPTS && is_unprocessed(&error) => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns an HTTP client whose connection has a free HTTP/2 stream, and a guard that counts the request
    /// as a user of that stream until dropped. Pools that use an older client certificate are dropped; their
    /// connections close after the last request on them.
    fn checkout(&self, identity_generation: u64) -> (legacy::Client<Connector, Full<Bytes>>, Arc<()>) {
        let mut outdated = Vec::new();
        let mut state = self.pools.lock();
        if state.identity_generation < identity_generation {
            state.identity_generation = identity_generation;
            outdated.append(&mut state.pools);
        }
        let pools = &mut state.pools;
        let free = |pool: &&Pool| Arc::strong_count(&pool.streams) <= MAX_STREAMS_PER_CONNECTION;
        if let Some(pool) = pools.iter().find(free) {
            return (pool.client.clone(), Arc::clone(&pool.streams));
        }
        let pool = Pool { client: self.builder.build(self.connector.clone()), streams: Arc::default() };
        let taken = (pool.client.clone(), Arc::clone(&pool.streams));
        pools.push(pool);
        taken
    }
}
