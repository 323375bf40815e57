//! A TCP proxy between a client and a server whose connections can be cut, frozen and delayed.
//!
//! # Invariants
//!
//! 1. A proxy that is unplugged closes its listener before it cuts connections, so a client that reconnects
//!    immediately is refused.
//! 2. Each connection is one task. It ends when either side closes, or when the proxy is cut or dropped.
//! 3. The mode is read before each piece of data is forwarded, so a new mode also applies to open
//!    connections.
//!
//! # Shutdown
//!
//! Dropping the proxy drops its sender. The listener and all connections notice that their receiver has no
//! sender any more, and end.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use informer_apiserver::ReservedPort;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Plugged,
    /// Bytes are held back while the connections stay open, as with a peer that sends nothing.
    Frozen,
    Unplugged,
}

#[derive(Clone, Copy, Debug, Default)]
struct Setting {
    mode: Mode,
    /// Number of cuts so far. A connection ends when this number differs from the one at its start.
    cuts: u64,
    delay: Duration,
}

/// A TCP proxy on loopback whose connections can be cut, frozen and delayed.
#[derive(Debug)]
pub struct Cable {
    port: ReservedPort,
    setting: Arc<watch::Sender<Setting>>,
    meter: Arc<Meter>,
}

#[derive(Debug, Default)]
struct Meter {
    connections: AtomicU64,
    /// Number of bytes that the proxy still forwards from the server before it cuts the connection. A
    /// negative number means no limit.
    budget: AtomicI64,
}

impl Cable {
    /// Creates a proxy to the server at an address.
    ///
    /// # Errors
    ///
    /// When the proxy cannot listen on any port.
    pub async fn to(target: SocketAddr) -> io::Result<Self> {
        let port = ReservedPort::new()?;
        let listener = TcpListener::bind(port.address()).await?;
        let setting = Arc::new(watch::Sender::new(Setting::default()));
        let meter = Arc::new(Meter { connections: AtomicU64::new(0), budget: AtomicI64::new(-1) });
        let cable = (Arc::downgrade(&setting), setting.subscribe());
        tokio::spawn(accept(listener, target, cable, Arc::clone(&meter)));
        Ok(Self { port, setting, meter })
    }

    /// Returns the address of the proxy, to which clients connect.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the number of connections that clients have opened so far.
    pub fn connections(&self) -> u64 {
        self.meter.connections.load(Ordering::Relaxed)
    }

    /// Cuts every open connection. New connections are accepted immediately.
    pub fn cut(&self) {
        self.setting.send_modify(|setting| setting.cuts += 1);
    }

    /// Cuts the connections after the proxy has forwarded this many further bytes from the server, also in
    /// the middle of an object.
    pub fn cut_after(&self, bytes: u32) {
        self.meter.budget.store(i64::from(bytes), Ordering::Relaxed);
    }

    /// Refuses new connections, then cuts the open ones. When this returns, no connection is open and none is
    /// accepted.
    pub async fn unplug(&self) {
        let mut setting = self.setting.subscribe();
        let cuts = setting.borrow().cuts;
        self.setting.send_modify(|setting| setting.mode = Mode::Unplugged);
        // The task that accepts connections increments `cuts` after it has closed its listener. It lives as
        // long as the proxy, so this wait ends.
        let _ = setting.wait_for(|setting| setting.cuts != cuts).await;
    }

    /// Stops forwarding bytes without closing any connection.
    pub fn freeze(&self) {
        self.setting.send_modify(|setting| setting.mode = Mode::Frozen);
    }

    /// Delays each piece of data by this duration, in both directions, until [`plug`](Self::plug) is called.
    pub fn delay(&self, delay: Duration) {
        self.setting.send_modify(|setting| setting.delay = delay);
    }

    /// Forwards all bytes again without delay, and accepts connections.
    pub fn plug(&self) {
        self.setting.send_modify(|setting| {
            setting.mode = Mode::Plugged;
            setting.delay = Duration::ZERO;
        });
    }
}

/// The task that accepts connections until the proxy is dropped.
async fn accept(
    mut listener: TcpListener,
    target: SocketAddr,
    (cable, mut setting): (Weak<watch::Sender<Setting>>, watch::Receiver<Setting>),
    meter: Arc<Meter>,
) {
    let Ok(address) = listener.local_addr() else { return };
    loop {
        tokio::select! {
            changed = setting.changed() => {
                if changed.is_err() {
                    return;
                }
                if setting.borrow_and_update().mode == Mode::Unplugged {
                    // Without a listening socket, the system refuses connections. The port stays reserved
                    // until the proxy is plugged in again.
                    drop(listener);
                    if let Some(sender) = cable.upgrade() {
                        sender.send_modify(|setting| setting.cuts += 1);
                    }
                    if setting.wait_for(|setting| setting.mode != Mode::Unplugged).await.is_err() {
                        return;
                    }
                    let Ok(again) = TcpListener::bind(address).await else { return };
                    listener = again;
                }
            }
            accepted = listener.accept() => {
                if let Ok((near, _)) = accepted {
                    meter.connections.fetch_add(1, Ordering::Relaxed);
                    let cuts = setting.borrow().cuts;
                    tokio::spawn(connection(near, target, (setting.clone(), cuts), Arc::clone(&meter)));
                }
            }
        }
    }
}

async fn connection(
    near: TcpStream,
    target: SocketAddr,
    (mut setting, cuts): (watch::Receiver<Setting>, u64),
    meter: Arc<Meter>,
) {
    let Ok(far) = TcpStream::connect(target).await else { return };
    let _ = (near.set_nodelay(true), far.set_nodelay(true));
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let modes = setting.clone();
    tokio::select! {
        () = pass(near_read, far_write, modes.clone(), None) => {}
        () = pass(far_read, near_write, modes, Some(&meter.budget)) => {}
        // This branch is also taken when the proxy is dropped.
        _ = setting.wait_for(|setting| setting.cuts != cuts) => {}
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut setting: watch::Receiver<Setting>,
    budget: Option<&AtomicI64>,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        let Ok(delay) = setting.wait_for(|setting| setting.mode == Mode::Plugged).await.map(|now| now.delay)
        else {
            return;
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let (count, last) = spend(budget, count);
        if to.write_all(&buffer[..count]).await.is_err() || last {
            return;
        }
    }
}

/// Returns how many of `count` bytes the budget allows to forward, and whether they use it up.
fn spend(budget: Option<&AtomicI64>, count: usize) -> (usize, bool) {
    let Some(budget) = budget else { return (count, false) };
    let wanted = i64::try_from(count).expect("a buffer length fits into i64");
    let left = budget.load(Ordering::Relaxed);
    if left < 0 {
        return (count, false);
    }
    if left > wanted {
        budget.fetch_sub(wanted, Ordering::Relaxed);
        return (count, false);
    }
    // Resets the budget, so that it cuts only one connection.
    budget.store(-1, Ordering::Relaxed);
    (usize::try_from(left).expect("it is not negative and less than the piece"), true)
}
