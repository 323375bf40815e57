//! Restores of the server to an earlier state, and the invariants that must hold after informers have
//! detected a restore.

use std::time::Duration;

use informer_apiserver::{FaultAction, FaultMatch, Verb};
use informer_simulator::Random;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::World;
use super::faults::DELIVERY;
use crate::auditor::key_of;
use crate::cluster::of_programs;
use crate::sample::{NAMESPACES, is_unreadable};
use crate::scenario::Write;

/// The pause of all writes after a restore. Informers detect a restore at the latest when a silent watch
/// ends. If the server's resource versions reached those from before the restore earlier, informers could not
/// detect it.
const QUIET_AFTER_REWIND: Duration = Duration::from_secs(12 * 60);

/// The maximum simulated duration of a read of a cache that does not have to wait for a write.
const MAX_READ_IN_CALM: Duration = Duration::from_secs(1);

/// The maximum duration of a read through an informer that cannot notice a restore. The read requests the
/// version of the server after half of its bound, which is 5 s.
const MAX_READ_AFTER_RESTORE: Duration = Duration::from_secs(5);

impl World {
    /// Restores the last backup while no write is in flight. Writes nothing until informers have detected the
    /// restore.
    pub(super) async fn rewind(&mut self) {
        self.calm().await;
        let Some(backup) = self.shared.cluster.last_backup() else { return };
        let ahead = self.views_ahead_of(backup);
        if self.shared.cluster.rewind() {
            let version = self.shared.cluster.server().version();
            self.shared.trace.line(format_args!("the server was restored to @{version}"));
            sleep(QUIET_AFTER_REWIND).await;
            self.converge().await;
            self.read_all(&ahead).await;
        }
    }

    /// Restores a backup at a time when caches have received some changes after the backup, but not the last
    /// writes of their own programs.
    pub(super) async fn restore_unseen_writes(&mut self, random: &mut Random) {
        self.calm().await;
        self.shared.cluster.back_up();
        for kind in 0..self.kinds.len() {
            for namespace in NAMESPACES {
                self.touch(kind, &(namespace, "o0".to_owned()), &random.below(1000).to_string()).await;
            }
        }
        sleep(DELIVERY).await;
        let stall = FaultAction::Stall { after_events: Some(0), after_bytes: None };
        self.watches_suffer = true;
        let server = self.shared.cluster.server();
        server.faults().on(of_programs(FaultMatch::verb(Verb::Watch))).then(stall);
        server.disconnect_watchers();
        sleep(DELIVERY).await;
        let mut writes = JoinSet::new();
        for kind in self.programs.iter().flat_map(|program| &program.kinds) {
            let namespace = random.pick(&NAMESPACES);
            writes.spawn(kind.actor.write(Write::Patch, (namespace, "o0".to_owned()), random.draw()));
        }
        while writes.join_next().await.is_some() {}
        self.rewind().await;
    }

    /// Returns the program and the kind of each view whose informers have all reached a resourceVersion later
    /// than `version`.
    fn views_ahead_of(&self, version: u64) -> Vec<(usize, usize)> {
        let mut ahead = Vec::new();
        for (program, of_program) in self.programs.iter().enumerate() {
            for (kind, of_kind) in of_program.kinds.iter().enumerate() {
                let states = of_kind.view.states();
                if states.iter().all(|state| state.version.as_u64().is_some_and(|held| held > version)) {
                    ahead.push((program, kind));
                }
            }
        }
        ahead
    }

    /// Reads all objects through all views. No read may fail because it waits for a write that the restore
    /// has undone. Reads of the views in `ahead`, which have noticed the restore, must not wait at all.
    async fn read_all(&self, ahead: &[(usize, usize)]) {
        for (program, of_program) in self.programs.iter().enumerate() {
            for (kind, of_kind) in of_program.kinds.iter().enumerate() {
                let raw = &self.kinds[kind];
                let objects = self.raw.list(&raw.gvr).await.map(|list| list.0).unwrap_or_default();
                let selection = of_kind.view.selection();
                let readable = objects.iter().filter(|object| !is_unreadable(object));
                for object in readable.filter(|object| selection.has_namespace_of(object)) {
                    let (key, begin) = (key_of(object), Instant::now());
                    let read = of_kind.actor.read(key.clone()).await;
                    let took = begin.elapsed();
                    let max = if ahead.contains(&(program, kind)) {
                        MAX_READ_IN_CALM
                    } else {
                        MAX_READ_AFTER_RESTORE
                    };
                    self.checks().ensure("reads-recover", read.is_ok() && took <= max, || {
                        let name = of_kind.view.name();
                        format!("{name}: after a restore, a read of {key} took {took:?}: {read:?}")
                    });
                }
            }
        }
    }
}
