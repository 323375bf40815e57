use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::{Peer, Plan};
use crate::bench::{Bench, Failure, maps};

/// Number of concurrent writers. Each writer changes its own objects only.
const WRITERS: usize = 24;

/// The minimum time between two cuts of the connections of one client program. Every client program backs off
/// after a watch that lasted less than a second.
const CUT_EVERY: Duration = Duration::from_millis(2500);

/// The changes that were made to the objects.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Churned {
    /// Number of updates of objects.
    pub updates: u64,
    /// Number of deletions. Most of the deleted objects were created again under the same name.
    pub deletes: u64,
    /// Number of objects that were created.
    pub creates: u64,
    /// The time during which objects were changed, in seconds.
    pub seconds: f64,
}

#[derive(Debug, Default)]
struct Counts {
    updates: AtomicU64,
    deletes: AtomicU64,
    creates: AtomicU64,
}

/// Changes each object at least once, and for at least the duration of the plan, while the connections of the
/// client programs are cut.
pub(super) async fn churn(bench: &Bench, peers: &[Peer], plan: &Plan) -> Result<Churned, Failure> {
    let (began, counts) = (Instant::now(), Counts::default());
    let until = began + plan.time;
    let writers = (0..WRITERS).map(|writer| write(bench, writer, plan.objects, until, &counts));
    let cutters = peers.iter().enumerate().map(|(index, peer)| cut(peer, index));
    tokio::select! {
        written = try_join_all(writers) => written.map(drop)?,
        _ = join_all(cutters) => {}
    }
    peers.iter().for_each(|peer| peer.cable().plug());
    Ok(Churned {
        updates: counts.updates.load(Ordering::Relaxed),
        deletes: counts.deletes.load(Ordering::Relaxed),
        creates: counts.creates.load(Ordering::Relaxed),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Runs one writer over its objects. Two of three turns change an object; the third turn deletes an object
/// and usually re-creates it.
async fn write(
    bench: &Bench,
    writer: usize,
    objects: usize,
    until: Instant,
    counts: &Counts,
) -> Result<(), Failure> {
    let add = |counter: &AtomicU64, done: bool| counter.fetch_add(u64::from(done), Ordering::Relaxed);
    let own: Vec<usize> = (writer..objects).step_by(WRITERS).collect();
    if own.is_empty() {
        return Ok(());
    }
    for turn in 0_usize.. {
        if turn >= own.len() && Instant::now() >= until {
            break;
        }
        // The stride 7919 is coprime to the number of objects, so the writer visits every object, in an order
        // without cache locality.
        let name = format!("map-{}", own[turn.wrapping_mul(7919) % own.len()]);
        match turn % 6 {
            0 => {
                add(&counts.deletes, there(bench.delete(&name).await)?);
                write_new(bench, &format!("new-{writer}-{turn}"), turn).await?;
                add(&counts.creates, true);
            }
            3 => {
                add(&counts.deletes, there(bench.delete(&name).await)?);
                write_new(bench, &name, turn).await?;
                add(&counts.creates, true);
            }
            _ => {
                let changed = bench.change(&name, &turn.to_string()).await;
                add(&counts.updates, there(changed.map(drop))?);
            }
        }
    }
    Ok(())
}

async fn write_new(bench: &Bench, name: &str, turn: usize) -> Result<(), Failure> {
    let object = json!({"metadata": {"name": name}, "data": {"value": turn.to_string(), "made": "anew"}});
    bench.api.create(&maps(), &bench.namespace, &object).await?;
    Ok(())
}

/// Returns whether the object of a request existed. A missing object is no failure, since this writer may
/// have deleted it in an earlier round.
fn there(outcome: Result<(), Failure>) -> Result<bool, Failure> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.downcast_ref::<crate::ApiError>().is_some_and(|error| error.status == 404) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

async fn cut(peer: &Peer, index: usize) {
    for round in index.. {
        // The pauses of the client programs differ, so that no two client programs are cut at the same time.
        tokio::time::sleep(CUT_EVERY + Duration::from_millis(311 * (round as u64 % 5))).await;
        match round % 4 {
            0 | 2 => peer.cable().cut(),
            1 => peer.cable().cut_after(1000 + 777 * (round as u32 % 64)),
            _ => {
                peer.cable().unplug().await;
                tokio::time::sleep(Duration::from_millis(1500)).await;
                peer.cable().plug();
            }
        }
        peer.count_cut();
    }
}
