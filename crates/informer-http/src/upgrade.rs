//! Connections that leave HTTP, for example for the WebSocket protocol.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::Request;
use http::header::UPGRADE;
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;

/// The bytes of a connection after its upgrade.
pub type UpgradedIo = TokioIo<Upgraded>;

type UpgradeFuture = Pin<Box<dyn Future<Output = ()> + Send>>;
type Handler = Box<dyn FnOnce(UpgradedIo) -> UpgradeFuture + Send>;

/// An extension of a response with the status 101: serves the connection after the response.
///
/// The connection keeps its slot meanwhile. The handler is dropped if the server stops or the connection is
/// cut.
#[derive(Clone)]
pub struct Upgrade(Arc<Mutex<Option<Handler>>>);

impl std::fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Upgrade")
    }
}

impl Upgrade {
    /// Creates the extension from a function that serves the connection.
    pub fn new<F>(serve: impl FnOnce(UpgradedIo) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(Mutex::new(Some(Box::new(move |io| Box::pin(serve(io)))))))
    }
}

/// The upgrade of one connection, if its last response requested one.
#[derive(Clone, Default)]
pub(crate) struct PendingUpgrade(Arc<Mutex<Option<(OnUpgrade, Upgrade)>>>);

impl PendingUpgrade {
    /// Returns the future of the upgrade that a request asks for.
    pub(crate) fn requested_by(request: &mut Request<Incoming>) -> Option<OnUpgrade> {
        request.headers().contains_key(UPGRADE).then(|| hyper::upgrade::on(request))
    }

    pub(crate) fn set(&self, requested: Option<OnUpgrade>, handler: Option<Upgrade>) {
        if let Some(pair) = requested.zip(handler) {
            *self.0.lock() = Some(pair);
        }
    }

    /// Serves the connection after its upgrade; returns at once if there is none.
    pub(crate) async fn serve(&self) {
        let Some((upgraded, handler)) = self.0.lock().take() else { return };
        let handler = handler.0.lock().take();
        if let (Ok(upgraded), Some(serve)) = (upgraded.await, handler) {
            serve(TokioIo::new(upgraded)).await;
        }
    }
}
