//! Quiescence: ends all faults and compares the programs under test with the server.

use std::collections::BTreeSet;
use std::time::Duration;

use informer_apiserver::RequestRecord;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::{RawKind, World};
use crate::auditor::key_of;
use crate::program::{KindOfProgram, Program};
use crate::sample::{Fruit, is_unreadable};
use crate::scenario::Write;
use crate::webhooks::Webhooks;
use crate::{own_writes, requests, view};

/// The time within which every view must equal the server's state after the last fault. A silent watch is
/// closed after its timeout of up to 10 min, and a backoff lasts up to a minute.
const MAX_CONVERGENCE: Duration = Duration::from_secs(30 * 60);

/// The time after which every watch that is open now has ended. A silent watch ends 30 s after its timeout,
/// which is up to 10 min.
const WATCHES_END: Duration = Duration::from_secs(11 * 60);

/// The time within which informers open new watches after the old ones have ended.
const WATCHES_RESUME: Duration = Duration::from_secs(120);

/// The time after which the client requests the hash of a schema again, instead of using the last response.
const SCHEMA_HASH_EXPIRES: Duration = Duration::from_secs(2);

/// The first pause between two comparisons of all views. Each pause is twice as long as the previous one, up
/// to a maximum.
const COMPARISON_PAUSE: Duration = Duration::from_millis(100);
const MAX_COMPARISON_PAUSE: Duration = Duration::from_secs(60);

/// The maximum simulated duration of a program's write and the read after it while there are no faults. The
/// server responds at once, so a longer duration means that a request waited for other consumers.
const MAX_WRITE_IN_CALM: Duration = Duration::from_millis(100);

const MAX_STOP: Duration = Duration::from_secs(60);

impl World {
    /// Ends all faults, and waits until the writes in flight are completed.
    pub(super) async fn calm(&mut self) {
        self.shared.cluster.server().faults().clear();
        self.shared.cluster.set_reachable(true);
        self.remedies.shutdown().await;
        self.webhooks.iter().for_each(Webhooks::repair);
        self.set_handlers_hanging(false);
        // The loop ends, because each write has its own time limit.
        while let Some(ended) = self.writes.join_next().await {
            if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
                let panic = informer_core::panics::panic_text(&*panic);
                self.checks().violated("no-panic", format!("a write or the read after it panicked: {panic}"));
            }
        }
    }

    /// Ends all faults, waits until every view equals the server's state, and checks the invariants of the
    /// whole run.
    pub(crate) async fn end(mut self) {
        self.shared.trace.line("no more faults");
        self.calm().await;
        if !self.unreadable().await.is_empty() {
            self.converge().await;
            self.heal().await;
        }
        let converged = self.converge().await;
        for kind in self.programs.iter().flat_map(|program| &program.kinds) {
            check_observations(&self, kind);
        }
        if converged {
            // A fault may affect a watch until the watch ends, so this waits until all such watches have
            // ended.
            if self.watches_suffer {
                sleep(WATCHES_END).await;
            }
            self.shared.cluster.server().disconnect_watchers();
            sleep(WATCHES_RESUME).await;
            self.converge().await;
            self.write_in_calm("calm").await;
            self.converge().await;
            self.write_while_handlers_hang().await;
            self.converge().await;
        }
        self.check_history();
        let requests: Vec<RequestRecord> = self.shared.cluster.server().requests();
        requests::check(&requests, &self.shared.cluster.refused(), self.checks());
        if converged {
            self.change_schema().await;
        }
        if let Some(replicas) = &mut self.replicas {
            replicas.stop().await;
        }
        self.stop().await;
    }

    /// Changes the schema of the custom kind and makes all informers list again. The list must replace cached
    /// objects, although their resource versions are the same.
    async fn change_schema(&self) {
        let cluster = &self.shared.cluster;
        let changed = cluster.change_schema();
        self.checks().ensure("converges", changed.is_ok(), || format!("change the schema: {changed:?}"));
        sleep(SCHEMA_HASH_EXPIRES).await;
        cluster.expire_watches();
        self.converge().await;
    }

    async fn unreadable(&self) -> Vec<(&RawKind, Value)> {
        let mut found = Vec::new();
        for kind in self.kinds.iter().filter(|kind| kind.gvr.resource == "fruits") {
            let objects = self.raw.list(&kind.gvr).await.map(|list| list.0).unwrap_or_default();
            found.extend(objects.into_iter().filter(is_unreadable).map(|object| (kind, object)));
        }
        found
    }

    async fn heal(&self) {
        for (kind, object) in self.unreadable().await {
            self.paint(&kind.gvr, &object, "red").await;
        }
    }

    /// Waits until every view and every handler equals the server's state, and until each recorded history
    /// (see `auditor.rs`) ends with that state. Objects that decoders cannot read are ignored. Returns false
    /// at the timeout.
    pub(super) async fn converge(&self) -> bool {
        let (begin, mut pause) = (Instant::now(), COMPARISON_PAUSE);
        loop {
            let Some(difference) = self.difference().await else { break };
            if begin.elapsed() > MAX_CONVERGENCE {
                self.checks().violated("converges", difference);
                return false;
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_COMPARISON_PAUSE);
        }
        self.shared.trace.line(format_args!("every view has converged after {:?}", begin.elapsed()));
        true
    }

    /// Returns a difference between the server's state and that of a view, a handler or an auditor. An
    /// auditor records the history of a kind, against which reads are checked.
    async fn difference(&self) -> Option<String> {
        for (at, raw) in self.kinds.iter().enumerate() {
            let objects: Vec<Value> = self.raw.list(&raw.gvr).await.map(|list| list.0).unwrap_or_default();
            if let Some(found) = self.auditors[at].history().difference(&objects) {
                return Some(format!("{}: {found}", raw.gvr.resource));
            }
            let unreadable: BTreeSet<String> =
                objects.iter().filter(|object| is_unreadable(object)).map(key_of).collect();
            for program in &self.programs {
                let view = &*program.kinds[at].view;
                let found = view::difference(view, &objects, &unreadable);
                if let Some(found) = found.or_else(|| view::handler_difference(view, &objects, &unreadable)) {
                    return Some(found);
                }
            }
        }
        self.controllers_difference().await
    }

    /// Makes each program write while no handler returns from its calls. A hung handler must delay neither
    /// writes nor reads, of no kind and of no program.
    async fn write_while_handlers_hang(&self) {
        self.shared.trace.line("every handler hangs");
        self.set_handlers_hanging(true);
        self.write_in_calm("hung").await;
        self.set_handlers_hanging(false);
    }

    fn set_handlers_hanging(&self, hanging: bool) {
        for kind in self.programs.iter().flat_map(|program| &program.kinds) {
            kind.view.handler().set_hanging(hanging);
        }
    }

    /// Makes each program write one object of each kind, while the server has no faults. Each write must
    /// succeed within a second.
    async fn write_in_calm(&self, name: &str) {
        for kind in self.programs.iter().flat_map(|program| &program.kinds) {
            self.write_one_in_calm(kind, name).await;
        }
    }

    async fn write_one_in_calm(&self, kind: &KindOfProgram, name: &str) {
        for write in [Write::Create, Write::Patch, Write::Update] {
            let begin = Instant::now();
            kind.actor.write(write, ("a", name.to_owned()), 1).await;
            let took = begin.elapsed();
            self.checks().ensure("no-starvation", took <= MAX_WRITE_IN_CALM, || {
                format!("{}: {write:?} and the read after it took {took:?}", kind.view.name())
            });
        }
        for observation in kind.actor.own_writes().take() {
            self.checks().ensure("reads-recover", observation.read.is_ok(), || {
                format!("{}: a read fails without a fault: {:?}", kind.view.name(), observation.read)
            });
        }
    }

    fn check_history(&self) {
        if let (Some(webhooks), [config_maps, pods, deployments, fruits]) = (&self.webhooks, &*self.auditors)
        {
            webhooks.check::<ConfigMap>(config_maps.history(), self.checks());
            webhooks.check::<Pod>(pods.history(), self.checks());
            webhooks.check::<Deployment>(deployments.history(), self.checks());
            webhooks.check::<Fruit>(fruits.history(), self.checks());
        }
        for (kind, auditor) in self.kinds.iter().zip(&self.auditors) {
            self.shared.intents.check(&kind.gvr, auditor.history(), self.checks());
        }
    }

    async fn stop(self) {
        for Program { cache, .. } in &self.programs {
            let stopped = timeout(MAX_STOP, cache.stop()).await.is_ok();
            self.checks().ensure("every-wait-ends", stopped, || "a cache does not stop in time".to_owned());
        }
        let checks = self.checks().clone();
        drop(self);
        // Gives the runtime time to poll the cancelled tasks, which end when they are polled.
        sleep(Duration::from_secs(1)).await;
        let left = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        checks.ensure("nothing-left", left == 0, || {
            format!("{left} tasks are left after everything has stopped")
        });
    }
}

fn check_observations(world: &World, kind: &KindOfProgram) {
    let (view, observations) = (&*kind.view, kind.actor.own_writes().take());
    let at = world.kinds.iter().position(|raw| raw.gvr == view.gvr());
    if let Some(auditor) = at.and_then(|at| world.auditors.get(at)) {
        own_writes::check(&observations, view, auditor.history(), world.checks());
    }
}
