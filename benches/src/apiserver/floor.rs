//! Measures plain sockets: sends the bytes of creates, lists and watches through as many connections as a
//! load measurement opens, but without HTTP and parsing. It also measures a list over TLS, and the delay
//! until a sleeping reader receives an event. Writers and readers share the cores, like a server and its
//! clients on one machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use informer_apiserver::CertificateAuthority;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{Failure, Figures};

/// The number of bytes that one write call sends of a list, and the size of the reader's buffer.
const PART: usize = 256 << 10;

/// The TLS cipher suites with which a list is measured. The embedded server and kube-apiserver both choose
/// the first one.
const SUITES: [(&str, CipherSuite); 2] =
    [("AES-128", CipherSuite::TLS13_AES_128_GCM_SHA256), ("AES-256", CipherSuite::TLS13_AES_256_GCM_SHA384)];

/// The number of events that are sent to a sleeping reader, and the interval between two events, in which the
/// reader goes to sleep.
const ALONE: usize = 400;
const PAUSE: Duration = Duration::from_millis(5);

const HOST: &str = "127.0.0.1";

#[derive(Clone, Debug, Args)]
pub(crate) struct Floor {
    /// Bytes of a request that creates an object.
    #[arg(long, default_value_t = 5_300)]
    request: usize,
    /// Bytes of an object in a response or an event.
    #[arg(long, default_value_t = 7_268)]
    object: usize,
    /// Number of objects that are created and listed.
    #[arg(long, default_value_t = 100_000)]
    objects: usize,
    /// Number of connections that create the objects.
    #[arg(long, default_value_t = 16)]
    writers: usize,
    /// Number of connections that receive each write.
    #[arg(long, default_value_t = 1_000)]
    watchers: usize,
    /// Number of writes that each of the `--watchers` connections receives, one after the other.
    #[arg(long, default_value_t = 100)]
    writes: usize,
}

pub(crate) async fn measured(floor: &Floor) -> Result<Figures, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut figures = Figures::default();
    figures.put("creates, a second", creates(floor, &listener).await?);
    let (client, server) = pair(&listener).await?;
    figures.put("list, objects a second", list(floor, client, server).await?);
    for (name, suite) in SUITES {
        let (client, server) = pair(&listener).await?;
        let (accepts, connects) = tls(suite)?;
        let client = BufReader::with_capacity(crate::connect::READ_BYTES, client);
        let host = ServerName::try_from(HOST)?;
        let (client, server) = tokio::join!(connects.connect(host, client), accepts.accept(server));
        let rate = list(floor, client?, server?).await?;
        figures.put(&format!("list over TLS with {name}, objects a second"), rate);
    }
    figures.put("one write at a time, deliveries a second", deliveries(floor, &listener).await?);
    let delays = delays(floor, &listener).await?;
    figures.put("one event to a reader that sleeps, p50 us", delays[ALONE / 2].as_secs_f64() * 1e6);
    figures.put("one event to a reader that sleeps, p99 us", delays[ALONE * 99 / 100].as_secs_f64() * 1e6);
    Ok(figures)
}

async fn pair(listener: &TcpListener) -> Result<(TcpStream, TcpStream), Failure> {
    let (client, server) = tokio::join!(TcpStream::connect(listener.local_addr()?), listener.accept());
    let (client, (server, _)) = (client?, server?);
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((client, server))
}

async fn creates(floor: &Floor, listener: &TcpListener) -> Result<f64, Failure> {
    let (each, mut ends) = (floor.objects / floor.writers, Vec::new());
    for _ in 0..floor.writers {
        ends.push(pair(listener).await?);
    }
    let began = Instant::now();
    let mut tasks: Vec<JoinHandle<std::io::Result<()>>> = Vec::new();
    for (client, server) in ends {
        tasks.push(tokio::spawn(turns(client, true, (floor.request, floor.object), each)));
        tasks.push(tokio::spawn(turns(server, false, (floor.object, floor.request), each)));
    }
    for task in tasks {
        task.await??;
    }
    Ok((each * floor.writers) as f64 / began.elapsed().as_secs_f64())
}

/// Exchanges `count` messages of fixed size with the other end of a connection, with one message in flight at
/// a time. The end with `begins` sends first.
async fn turns(
    mut stream: TcpStream,
    begins: bool,
    (sent, received): (usize, usize),
    count: usize,
) -> std::io::Result<()> {
    let (out, mut into) = (vec![b' '; sent], vec![0; received]);
    for _ in 0..count {
        if begins {
            stream.write_all(&out).await?;
        }
        stream.read_exact(&mut into).await?;
        if !begins {
            stream.write_all(&out).await?;
        }
    }
    Ok(())
}

/// Returns a TLS acceptor configured like the embedded server, and a TLS connector configured like this
/// program.
fn tls(suite: CipherSuite) -> Result<(TlsAcceptor, TlsConnector), Failure> {
    let authority = CertificateAuthority::new("floor")?;
    let certificate = authority.issue_for([HOST])?;
    let mut provider = rustls::crypto::ring::default_provider();
    provider.cipher_suites.retain(|known| known.suite() == suite);
    let provider = Arc::new(provider);
    let chain = CertificateDer::pem_slice_iter(certificate.chain().as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key().as_bytes())?;
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes())?)?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client))))
}

async fn list(
    floor: &Floor,
    mut client: impl AsyncRead + Unpin,
    mut server: impl AsyncWrite + Unpin + Send + 'static,
) -> Result<f64, Failure> {
    let total = floor.object * floor.objects;
    let began = Instant::now();
    let writer = tokio::spawn(async move {
        let part = vec![b' '; PART];
        let mut left = total;
        while left > 0 {
            let length = left.min(PART);
            server.write_all(&part[..length]).await?;
            left -= length;
        }
        server.flush().await
    });
    let (mut into, mut read) = (vec![0; PART], 0);
    while read < total {
        read += client.read(&mut into).await?;
    }
    writer.await??;
    Ok(floor.objects as f64 / began.elapsed().as_secs_f64())
}

async fn deliveries(floor: &Floor, listener: &TcpListener) -> Result<f64, Failure> {
    let delivered = Arc::new((AtomicUsize::new(0), Notify::new()));
    let all = floor.watchers * floor.writes;
    let (mut writers, mut told) = (Vec::new(), Vec::new());
    for _ in 0..floor.watchers {
        let (mut client, mut server) = pair(listener).await?;
        let (tell, bell) = (Arc::new(Notify::new()), Arc::clone(&delivered));
        told.push(Arc::clone(&tell));
        let (writes, object, watchers) = (floor.writes, floor.object, floor.watchers);
        tokio::spawn(async move {
            let mut into = vec![0; object];
            while client.read_exact(&mut into).await.is_ok() {
                if (bell.0.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(watchers) {
                    bell.1.notify_one();
                }
            }
        });
        writers.push(tokio::spawn(async move {
            let out = vec![b' '; object];
            for _ in 0..writes {
                tell.notified().await;
                server.write_all(&out).await?;
            }
            Ok::<_, std::io::Error>(())
        }));
    }
    let began = Instant::now();
    for _ in 0..floor.writes {
        told.iter().for_each(|tell| tell.notify_one());
        delivered.1.notified().await;
    }
    let rate = all as f64 / began.elapsed().as_secs_f64();
    for writer in writers {
        writer.await??;
    }
    Ok(rate)
}

/// Measures the delays until an otherwise idle reader receives events, and returns them sorted. The writer
/// has its own thread, as in a server.
async fn delays(floor: &Floor, listener: &TcpListener) -> Result<Vec<Duration>, Failure> {
    let (mut client, server) = pair(listener).await?;
    let (began, object, server) = (Instant::now(), floor.object.max(size_of::<u64>()), server.into_std()?);
    let writer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let (mut server, mut ticks) = (TcpStream::from_std(server)?, tokio::time::interval(PAUSE));
            let mut out = vec![b' '; object];
            for _ in 0..ALONE {
                ticks.tick().await;
                let now = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                out[..size_of::<u64>()].copy_from_slice(&now.to_le_bytes());
                server.write_all(&out).await?;
            }
            Ok::<_, std::io::Error>(())
        })
    });
    let (mut into, mut delays) = (vec![0; object], Vec::with_capacity(ALONE));
    for _ in 0..ALONE {
        client.read_exact(&mut into).await?;
        let sent = into.first_chunk().map_or(0, |sent| u64::from_le_bytes(*sent));
        delays.push(began.elapsed().saturating_sub(Duration::from_nanos(sent)));
    }
    writer.join().map_err(|_| "the writer panicked")??;
    delays.sort_unstable();
    Ok(delays)
}
