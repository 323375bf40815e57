use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::Plan;
use crate::bench::Failure;
use crate::fleet::{Footprint, Peer, View, settle};

/// Number of rounds before the first measurement of resources. After them, the process has created its
/// threads and buffers.
const WARM_UP: u64 = 3;

/// The time for which each connection lasts before it is cut. Informers back off longer after each connection
/// that lasted less than a second.
const LASTS: Duration = Duration::from_millis(1200);

const CONNECTED_WITHIN: Duration = Duration::from_secs(60);

/// Tolerated difference of the numbers of descriptors and tasks between two measurements. Some connections
/// may just be being opened, or be idle in the connection pool.
const COMING_AND_GOING: u64 = 8;

/// Tolerated additional tasks per informer. A connection pool keeps a task for 90 seconds after a connection
/// became idle. A connection becomes idle, for example, between a list and the following watch.
const TASKS_OF_A_POOL: u64 = 1;

/// Tolerated growth of resident memory, in KiB. It accounts for freed memory that the allocator keeps for
/// reuse by its threads.
const ALLOCATOR: u64 = 8 << 10;

/// The result of the part of the chaos test that cuts connections while no object changes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Reconnects {
    /// Number of connections that the client program opened again after cuts.
    pub connections: u64,
    /// Number of informers of the client program, each with its own connections.
    pub informers: u64,
    /// The resources of the client program's process before and after its connections were cut; `None` if the
    /// process does not report them.
    pub footprint: Option<Flat>,
    /// Number of objects that differed between the client program and the server at the end.
    pub differences: usize,
}

/// The resources of a process before the first and after the last cut of its connections.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Flat {
    /// The resources before the first connection was cut.
    pub before: Footprint,
    /// The resources after the last connection was cut.
    pub after: Footprint,
}

impl Reconnects {
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.differences > 0 {
            problems.push(format!("{} objects differ after the reconnects", self.differences));
        }
        if let Some(Flat { before, after }) = self.footprint {
            let mut grown = |what: &str, before: u64, after: u64, play: u64| {
                if after > before + play {
                    problems.push(format!("{what} grew from {before} to {after}"));
                }
            };
            grown("descriptors", before.descriptors, after.descriptors, COMING_AND_GOING);
            let pools = self.informers * TASKS_OF_A_POOL;
            grown("tasks", before.tasks, after.tasks, COMING_AND_GOING + pools);
            grown("resident memory in KiB", before.resident, after.resident, ALLOCATOR);
        }
        problems
    }
}

/// Cuts all connections of the client program repeatedly, each time after they have lasted longer than a
/// second.
pub(super) async fn reconnect(peer: &mut Peer, there: &View, plan: &Plan) -> Result<Reconnects, Failure> {
    let rounds = plan.reconnects.div_ceil(plan.informers.max(1));
    for _ in 0..WARM_UP {
        cut_once(peer, plan.informers).await?;
    }
    settle(peer, there).await?;
    let before = peer.footprint();
    let connections = peer.cable().connections();
    for _ in 0..rounds {
        cut_once(peer, plan.informers).await?;
    }
    let connections = peer.cable().connections() - connections;
    let differences = settle(peer, there).await?.differences.len();
    let footprint = before.zip(peer.footprint()).map(|(before, after)| Flat { before, after });
    Ok(Reconnects { connections, informers: plan.informers, footprint, differences })
}

/// Cuts all connections of the client program once. Returns after each informer has reconnected and its
/// connection has lasted longer than a second.
async fn cut_once(peer: &Peer, informers: u64) -> Result<(), Failure> {
    let cable = peer.cable();
    let wanted = cable.connections() + informers;
    cable.cut();
    let began = Instant::now();
    while cable.connections() < wanted {
        if began.elapsed() > CONNECTED_WITHIN {
            let missing = wanted - cable.connections();
            return Err(format!("{missing} of {informers} informers did not reconnect").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(LASTS).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_beyond_the_tolerance_is_a_problem() {
        let before = Footprint { descriptors: 60, tasks: 100, resident: 50_000 };
        let flat = |after| {
            let footprint = Some(Flat { before, after });
            Reconnects { connections: 1000, informers: 50, footprint, differences: 0 }
        };
        assert!(flat(before).problems().is_empty());
        assert!(flat(Footprint { descriptors: 10, tasks: 1, resident: 1 }).problems().is_empty());
        assert!(
            flat(Footprint { tasks: 150, ..before }).problems().is_empty(),
            "one task per connection pool is tolerated"
        );
        let leaks = flat(Footprint { descriptors: 69, tasks: 159, resident: 60_000 }).problems();
        assert_eq!(leaks.len(), 3, "{leaks:?}");
    }

    #[test]
    fn differing_objects_at_the_end_are_a_problem() {
        assert_eq!(Reconnects { differences: 2, ..Reconnects::default() }.problems().len(), 1);
    }
}
