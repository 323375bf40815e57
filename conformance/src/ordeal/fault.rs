use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use crate::bench::{Bench, Failure, maps};
use crate::{Cable, Server};

/// A fault of a server or of the connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Every open connection is cut.
    Cut,
    /// A connection ends in the middle of a response.
    Truncate,
    /// The server is unreachable for some time, because the proxy refuses connections.
    Unplug,
    /// Connections stay open and deliver nothing for some time. After that, all delayed bytes are delivered
    /// at once.
    Freeze,
    /// Connections stay open for some time, but all bytes sent on them during that time are lost.
    Swallow,
    /// Every byte on connections is delayed.
    Delay,
    /// The server shuts down gracefully and starts again.
    Restart,
    /// The server's process is killed and started again.
    Kill,
    /// The server's process is paused and resumed.
    Pause,
    /// The server restarts with an older state.
    Older,
    /// The server compacts its history while it is unreachable.
    Compact,
}

impl Fault {
    /// Returns the faults that this kind of server supports.
    pub(super) fn of(server: &Server) -> Vec<Self> {
        let all = [
            Self::Cut,
            Self::Truncate,
            Self::Unplug,
            Self::Freeze,
            Self::Swallow,
            Self::Delay,
            Self::Restart,
            Self::Kill,
            Self::Pause,
            Self::Older,
            Self::Compact,
        ];
        all.into_iter().filter(|fault| fault.can_happen_to(server)).collect()
    }

    fn can_happen_to(self, server: &Server) -> bool {
        match (self, server) {
            // A server in a separate process keeps its state only in memory. Each start restores an older
            // state and begins a new history, so there is nothing to compact.
            (Self::Compact, Server::Spawned(_)) => false,
            (Self::Kill | Self::Pause, Server::Embedded(_)) => false,
            _ => true,
        }
    }

    /// Returns true if the server has an older state after the fault. No object may be changed until a client
    /// has detected that. The server assigns resource versions again; once it has passed the versions that a
    /// client has seen, the client cannot detect the restore.
    pub(super) fn loses_state(self, server: &Server) -> bool {
        match self {
            Self::Older => true,
            Self::Restart | Self::Kill => matches!(server, Server::Spawned(_)),
            _ => false,
        }
    }

    /// Returns the name of the fault for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cut => "connections cut",
            Self::Truncate => "cut in the middle",
            Self::Unplug => "unreachable",
            Self::Freeze => "frozen",
            Self::Swallow => "frozen, then cut",
            Self::Delay => "delayed",
            Self::Restart => "server restarted",
            Self::Kill => "server killed",
            Self::Pause => "server held",
            Self::Older => "server with an older state",
            Self::Compact => "history compacted",
        }
    }

    pub(super) async fn happen(self, bench: &Bench, cable: &Cable, rng: &mut StdRng) -> Result<(), Failure> {
        let server = &bench.server;
        let while_it_lasts = tokio::time::sleep(Duration::from_millis(rng.random_range(200..2500)));
        match self {
            Self::Cut => cable.cut(),
            Self::Truncate => {
                cable.cut_after(rng.random_range(1..20_000));
                while_it_lasts.await;
            }
            Self::Unplug => {
                cable.unplug().await;
                while_it_lasts.await;
            }
            Self::Freeze => {
                cable.freeze();
                while_it_lasts.await;
            }
            Self::Swallow => {
                cable.freeze();
                while_it_lasts.await;
                cable.cut();
            }
            Self::Delay => {
                cable.delay(Duration::from_millis(rng.random_range(20..400)));
                while_it_lasts.await;
            }
            Self::Restart => {
                server.stop().await?;
                while_it_lasts.await;
                server.start().await?;
            }
            Self::Kill => {
                server.kill().await?;
                while_it_lasts.await;
                server.start().await?;
            }
            Self::Pause => {
                server.pause().await?;
                while_it_lasts.await;
                server.resume().await?;
            }
            Self::Older => server.restore().await?,
            Self::Compact => {
                cable.unplug().await;
                while_it_lasts.await;
                server.compact().await?;
            }
        }
        cable.plug();
        Ok(())
    }
}

/// The pause between two changes of one writer. It is so short that several changes happen before and after
/// each fault.
const PACE: Duration = Duration::from_millis(5);

/// Changes objects until the future is dropped, and counts the changes that the server accepts. A rejected
/// change is no failure, because the server may be down.
pub(super) async fn change(bench: &Bench, objects: usize, seed: u64, changes: &mut u64) {
    change_until(bench, objects, seed, changes, u64::MAX).await;
}

/// Changes objects like [`change`], but returns after the given number of accepted changes.
pub(super) async fn change_until(bench: &Bench, objects: usize, seed: u64, changes: &mut u64, enough: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    for turn in 0_u64.. {
        let name = format!("map-{}", rng.random_range(0..objects));
        let made = json!({"metadata": {"name": name}, "data": {"value": turn.to_string(), "made": "anew"}});
        let taken = match rng.random_range(0..10) {
            0 => bench.delete(&name).await.is_ok(),
            1 | 2 => bench.api.create(&maps(), &bench.namespace, &made).await.is_ok(),
            _ => bench.change(&name, &format!("{seed}-{turn}")).await.is_ok(),
        };
        *changes += u64::from(taken);
        if *changes >= enough {
            return;
        }
        tokio::time::sleep(PACE).await;
    }
}
