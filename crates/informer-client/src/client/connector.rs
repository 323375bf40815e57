//! Type-erased connectors and connections: `Connector` and `AnyConnection`.
//!
//! The HTTP client is generic over its connector. Since every combination is converted to one connector type,
//! the client is compiled once, and not for each combination of TCP, proxy and TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use super::BoxError;

pub(super) type Connector = BoxCloneSyncService<Uri, AnyConnection, BoxError>;

pub(super) fn boxed<C>(connector: C) -> Connector
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let connector = connector.map_response(|connection| AnyConnection(Box::new(connection)));
    BoxCloneSyncService::new(connector.map_err(Into::into))
}

pub(super) struct AnyConnection(Box<dyn ByteStream>);

trait ByteStream: Connection + Read + Write + Send + Unpin {}

impl<T: Connection + Read + Write + Send + Unpin> ByteStream for T {}

impl Connection for AnyConnection {
    fn connected(&self) -> Connected {
        self.0.connected()
    }
}

impl Read for AnyConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for AnyConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, buffers)
    }
}
