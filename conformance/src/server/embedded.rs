use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use informer_apiserver::{ApiServer, Kind, Listening};
use parking_lot::Mutex;

use super::{CustomKind, ServerError};

/// The embedded server on a socket.
#[derive(Debug)]
pub struct Embedded {
    api: ApiServer,
    address: SocketAddr,
    listening: Mutex<Option<Listening>>,
    backup: AtomicU64,
}

impl Embedded {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// When no port can be listened on.
    pub async fn new() -> Result<Self, ServerError> {
        let api = ApiServer::builder().build();
        let listening = api.listen("127.0.0.1:0").await?;
        Ok(Self {
            api,
            address: listening.addr(),
            listening: Mutex::new(Some(listening)),
            backup: AtomicU64::new(0),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn api(&self) -> &ApiServer {
        &self.api
    }

    pub(super) async fn stop(&self) {
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            listening.shutdown().await;
        }
    }

    pub(super) async fn start(&self) -> Result<(), ServerError> {
        let listening = self.api.listen(self.address).await?;
        *self.listening.lock() = Some(listening);
        Ok(())
    }

    pub(super) fn backup(&self) {
        self.backup.store(self.api.version(), Ordering::Relaxed);
    }

    pub(super) fn restore(&self) -> Result<(), ServerError> {
        let version = self.backup.load(Ordering::Relaxed);
        self.api.rewind(version).map_err(|_| ServerError::Unknown("history as long as that"))
    }

    pub(super) fn define(&self, kind: &CustomKind) -> Result<(), ServerError> {
        let [version] = kind.versions[..] else { return Err(ServerError::Unknown("kinds of two versions")) };
        let served = Kind::custom(&*kind.group, version, &*kind.kind).plural(&*kind.plural);
        self.api.register(served);
        Ok(())
    }
}
