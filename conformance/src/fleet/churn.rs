use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join, try_join_all};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::{Peer, Plan};
use crate::bench::{Bench, Failure, maps};

/// Writers at once; each has objects of its own.
const WRITERS: usize = 24;

/// The shortest time between two cuts of one peer. A watch that lasts for less than a second makes every peer wait.
const CUT_EVERY: Duration = Duration::from_millis(2500);

/// What was done to the objects.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Churned {
    /// Changed.
    pub updates: u64,
    /// Deleted, and most of them created again under the same name.
    pub deletes: u64,
    /// Created.
    pub creates: u64,
    /// In this time.
    pub seconds: f64,
}

#[derive(Debug, Default)]
struct Counts {
    updates: AtomicU64,
    deletes: AtomicU64,
    creates: AtomicU64,
}

/// Changes objects for a time, while the connections of the peers are cut.
pub(super) async fn churn(bench: &Bench, peers: &[Peer], plan: &Plan) -> Result<Churned, Failure> {
    let (began, counts) = (Instant::now(), Counts::default());
    let until = began + plan.time;
    let writers = (0..WRITERS).map(|writer| write(bench, writer, plan.objects, until, &counts));
    let cutters = peers.iter().enumerate().map(|(index, peer)| cut(peer, index, until));
    let cutting = async {
        join_all(cutters).await;
        Ok::<_, Failure>(())
    };
    try_join(try_join_all(writers), cutting).await?;
    Ok(Churned {
        updates: counts.updates.load(Ordering::Relaxed),
        deletes: counts.deletes.load(Ordering::Relaxed),
        creates: counts.creates.load(Ordering::Relaxed),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// One writer goes around its objects: two of three turns change one, the others delete one and mostly create it again.
async fn write(
    bench: &Bench,
    writer: usize,
    objects: usize,
    until: Instant,
    counts: &Counts,
) -> Result<(), Failure> {
    let add = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
    let own: Vec<usize> = (writer..objects).step_by(WRITERS).collect();
    for turn in 0_usize.. {
        if Instant::now() >= until || own.is_empty() {
            break;
        }
        // A stride that is prime to the length walks over all of them, in no order that a cache could like.
        let name = format!("map-{}", own[turn.wrapping_mul(7919) % own.len()]);
        match turn % 6 {
            0 => {
                gone(bench.delete(&name).await)?;
                add(&counts.deletes);
                write_new(bench, &format!("new-{writer}-{turn}"), turn).await?;
                add(&counts.creates);
            }
            3 => {
                gone(bench.delete(&name).await)?;
                add(&counts.deletes);
                write_new(bench, &name, turn).await?;
                add(&counts.creates);
            }
            _ => {
                gone(bench.change(&name, &turn.to_string()).await.map(drop))?;
                add(&counts.updates);
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

/// An object that this writer has deleted in an earlier round is no failure.
fn gone(outcome: Result<(), Failure>) -> Result<(), Failure> {
    match outcome {
        Err(error) if error.downcast_ref::<crate::ApiError>().is_some_and(|error| error.status == 404) => {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Cuts the connections of one peer in every way, until the time is over.
async fn cut(peer: &Peer, index: usize, until: Instant) {
    for round in index.. {
        // No two peers are cut together.
        tokio::time::sleep(CUT_EVERY + Duration::from_millis(311 * (round as u64 % 5))).await;
        if Instant::now() >= until {
            break;
        }
        match round % 4 {
            0 | 2 => peer.cable().cut(),
            1 => peer.cable().cut_after(1000 + 777 * (round as u32 % 64)),
            _ => {
                peer.cable().unplug();
                tokio::time::sleep(Duration::from_millis(1500)).await;
                peer.cable().plug();
            }
        }
        peer.count_cut();
    }
    peer.cable().plug();
}
