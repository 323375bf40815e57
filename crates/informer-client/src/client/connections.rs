use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::Connect;
use parking_lot::Mutex;

use super::{BoxError, ResponseBody};

/// The number of requests that share one HTTP/2 connection. Servers allow 100 streams; a client that opens
/// more waits for one to end. Watches do not end, so a list behind them would never start.
pub(super) const MAX_STREAMS_PER_CONNECTION: usize = 90;

/// A pool of connections that opens another one before the streams of the last are used up.
pub(super) struct Connections<C> {
    connector: C,
    builder: legacy::Builder,
    pools: Arc<Mutex<Pools<C>>>,
}

/// The connections that use one client certificate.
struct Pools<C> {
    identity_generation: u64,
    pools: Vec<Pool<C>>,
}

/// Connections of which HTTP/2 uses one.
struct Pool<C> {
    client: legacy::Client<C, Full<Bytes>>,
    /// One count for itself and one for each request in it.
    streams: Arc<()>,
}

impl<C: Connect + Clone + Send + Sync + 'static> Connections<C> {
    pub(super) fn new(connector: C, builder: legacy::Builder) -> Self {
        let pools = Pools { identity_generation: 0, pools: Vec::new() };
        Self { connector, builder, pools: Arc::new(Mutex::new(pools)) }
    }

    /// Sends a request over a connection that was made for this generation of the client certificate, or for
    /// a later one.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        identity_generation: u64,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let (client, stream) = self.checkout(identity_generation);
        let response = client.request(request).await?;
        Ok(response.map(|body| ResponseBody::new(body).holding(stream)))
    }

    /// Returns a client with a free stream, and the stream. Connections of an older certificate end with the
    /// last request on them.
    fn checkout(&self, identity_generation: u64) -> (legacy::Client<C, Full<Bytes>>, Arc<()>) {
        let mut outdated = Vec::new();
        let mut state = self.pools.lock();
        if state.identity_generation < identity_generation {
            state.identity_generation = identity_generation;
            outdated.append(&mut state.pools);
        }
        let pools = &mut state.pools;
        let free = |pool: &&Pool<C>| Arc::strong_count(&pool.streams) <= MAX_STREAMS_PER_CONNECTION;
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
