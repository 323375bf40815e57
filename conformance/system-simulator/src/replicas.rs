//! Replicas of the simulated operator. Each is a manager with leader election, a controller with owned
//! objects, and a controller with sharded keys.

mod acting;
mod reconcile;

use std::sync::Arc;
use std::time::Duration;

use informer_runtime::{
    CancellationToken, Controller, ControllerOptions, LeaderElection, Manager, ManagerError, ShardGroup,
    runnable,
};
use informer_simulator::Random;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(crate) use acting::Acting;
pub(crate) use reconcile::{SHARDED, copy_of};

use crate::cluster::PROGRAM_AGENT;
use crate::program::Shared;

/// The simulated time between the end of a replica's process and its restart.
const RESTART: Duration = Duration::from_secs(2);

/// The maximum duration of stopping a manager: the manager's own limit of 30 s, and the release of its lease.
const MAX_STOP: Duration = Duration::from_secs(60);

/// The replicas of one operator. A replica that ends is restarted, as by a kubelet.
pub(crate) struct Replicas {
    stop: CancellationToken,
    kills: Vec<Arc<Notify>>,
    tasks: JoinSet<()>,
    shared: Shared,
}

impl Replicas {
    pub(crate) fn start(count: usize, shared: &Shared) -> Self {
        let (stop, mut tasks, acting) = (CancellationToken::new(), JoinSet::new(), Acting::new(shared));
        let kills: Vec<_> = (0..count).map(|_| Arc::new(Notify::new())).collect();
        for (index, kill) in kills.iter().enumerate() {
            let replica = Replica { index, shared: shared.clone(), acting: acting.clone() };
            tasks.spawn(replica.run(stop.clone(), Arc::clone(kill)));
        }
        Self { stop, kills, tasks, shared: shared.clone() }
    }

    /// Kills one of the processes by dropping its future, so that the process does not release its lease.
    pub(crate) fn kill_one(&self, random: &mut Random) {
        if !self.kills.is_empty() {
            self.kills[random.below(self.kills.len())].notify_one();
        }
    }

    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let ended = timeout(MAX_STOP, ended).await.is_ok();
        self.shared.checks.ensure("every-wait-ends", ended, || "a manager does not stop".to_owned());
    }
}

struct Replica {
    index: usize,
    shared: Shared,
    acting: Acting,
}

impl Replica {
    async fn run(self, stop: CancellationToken, kill: Arc<Notify>) {
        let name = format!("replica-{}", self.index);
        while !stop.is_cancelled() {
            let manager = self.manager(&name).run_until(stop.cancelled());
            tokio::select! {
                biased;
                () = kill.notified() => self.shared.trace.line(format_args!("{name} was killed")),
                ended = manager => self.trace_end(&name, &ended),
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = sleep(RESTART) => {}
            }
        }
    }

    fn trace_end(&self, name: &str, ended: &Result<(), ManagerError>) {
        match ended {
            Ok(()) => self.shared.trace.line(format_args!("{name} has stopped")),
            Err(error) => self.shared.trace.line(format_args!("{name} failed: {error}")),
        }
    }

    fn manager(&self, name: &str) -> Manager {
        let agent = format!("{PROGRAM_AGENT}-{name}");
        let api = informer_client::Client::from_service(self.shared.cluster.transport(&agent), "a");
        let acting = self.acting.clone();
        let lead = runnable("lead", move |stop: CancellationToken| async move {
            let _leads = acting.begin("the leader");
            stop.cancelled().await;
            Ok(())
        });
        let acting = self.acting.clone();
        let mirror =
            Controller::new::<ConfigMap>("mirror").owns::<Secret>().reconcile(move |request, ctx| {
                let acting = acting.clone();
                async move { reconcile::mirror(&request.key, &ctx, &acting).await }
            });
        let acting = self.acting.clone();
        let group = ShardGroup::new("stamper").namespace("a").identity(name);
        let stamper = Controller::new::<Deployment>("stamper")
            .with_options(ControllerOptions::new().workers(2))
            .sharded(group)
            .reconcile(move |request, ctx| {
                let acting = acting.clone();
                async move { reconcile::stamp(&request.key, &ctx, &acting).await }
            });
        Manager::new(api)
            .add(lead)
            .controller(mirror)
            .controller(stamper)
            .leader_election(LeaderElection::new("operator").namespace("a").identity(name))
    }
}
