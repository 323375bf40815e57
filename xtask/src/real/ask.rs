//! Sends single HTTP requests to a server on loopback: enough to check readiness and to compact etcd.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};

/// Timeout of each read and write on a connection. It can be short, because the callers repeat readiness
/// checks that fail.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Peer<'a> {
    pub(super) port: u16,
    /// The certificate of the CA that signed the server's certificate, as PEM. `None` if the server uses
    /// plaintext.
    pub(super) authority: Option<&'a str>,
    pub(super) token: &'a str,
}

impl Peer<'_> {
    pub(super) fn ask(&self, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        // The request uses HTTP/1.0. The body of the response then ends with the connection, so no decoder
        // for chunked bodies is needed.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        match self.authority {
            None => exchange(&mut stream, &request),
            Some(authority) => {
                let name = ServerName::try_from("127.0.0.1").expect("127.0.0.1 is a valid server name");
                let connection = rustls::ClientConnection::new(Arc::new(configuration(authority)?), name);
                let connection = connection.map_err(io::Error::other)?;
                exchange(&mut rustls::StreamOwned::new(connection, stream), &request)
            }
        }
    }
}

fn configuration(authority: &str) -> io::Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority.as_bytes()).map_err(io::Error::other)?;
    roots.add(authority).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn exchange(stream: &mut (impl Read + Write), request: &str) -> io::Result<(u16, String)> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        // The server may close the connection without a TLS close_notify. This is not an error, because
        // callers detect a truncated response by its status or its JSON content.
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    let response = String::from_utf8_lossy(&response);
    let (head, body) =
        response.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("the response has no header"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| io::Error::other("the response has no status"))?, body.to_owned()))
}
