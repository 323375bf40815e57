use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::client::legacy;
use parking_lot::Mutex;

use super::connector::Connector;
use super::error::is_unprocessed;
use super::{BoxError, ResponseBody};

/// Maximum number of requests on one HTTP/2 connection. Servers allow 100 streams. If all streams are in use,
/// the HTTP/2 client queues further requests until one ends. Watches are long-lived, so a list in that queue
/// could wait forever.
pub(super) const MAX_STREAMS_PER_CONNECTION: usize = 90;

/// Maximum number of times a request is sent if the server does not process it.
const MAX_ATTEMPTS: u32 = 4;

/// Connection pools for one server. It opens another pool before the streams of the existing ones are used
/// up.
#[derive(Clone)]
pub(super) struct Connections {
    connector: Connector,
    builder: legacy::Builder,
    pools: Arc<Mutex<Pools>>,
}

/// The pools whose connections use one client certificate.
struct Pools {
    identity_generation: u64,
    pools: Vec<Pool>,
}

/// A pool of hyper, which opens one connection with HTTP/2, or as many as needed with HTTP/1.1.
struct Pool {
    client: legacy::Client<Connector, Full<Bytes>>,
    /// The strong count is one for the pool itself, and one for each request in it.
    streams: Arc<()>,
}

impl Connections {
    pub(super) fn new(connector: Connector, builder: legacy::Builder) -> Self {
        let pools = Pools { identity_generation: 0, pools: Vec::new() };
        Self { connector, builder, pools: Arc::new(Mutex::new(pools)) }
    }

    /// Sends a request over a connection that uses this or a later generation of the client certificate.
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

    /// Returns a client with a free stream, and the stream's guard. Pools with an older certificate are
    /// dropped; their connections close after their last request.
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
