//! The world of one run: the cluster, the programs under test, and the auditors, which record the history of
//! each kind on the server. Performs the steps of the scenario.

mod controllers;
mod faults;
mod quiescence;
mod restores;

use std::time::Duration;

use informer_core::Gvr;
use informer_simulator::Random;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::auditor::{Auditor, version_of};
use crate::check::Checks;
use crate::cluster::Cluster;
use crate::difference;
use crate::intent::Intents;
use crate::program::{KindOfProgram, Program, Shared};
use crate::raw::{RawClient, Refused};
use crate::replicas::Replicas;
use crate::sample::{Fruit, Sample};
use crate::scenario::{Action, FailurePolicy, Scenario, Step, Target};
use crate::trace::Trace;
use crate::webhooks::Webhooks;
use faults::Remedy;

/// The maximum duration of a program's write and the read after it. It detects waits that never end.
const MAX_WRITE: Duration = Duration::from_secs(600);

const BACKUP_EVERY: usize = 8;

struct RawKind {
    gvr: Gvr,
    draw: fn((&str, &str), &mut Random) -> Value,
    change: fn(&mut Random) -> Value,
}

impl RawKind {
    fn of<K: Sample>() -> Self {
        Self { gvr: K::gvr(), draw: K::draw, change: K::raw_change }
    }
}

fn secrets() -> Gvr {
    Gvr::new("", "v1", "secrets")
}

pub(crate) struct World {
    shared: Shared,
    raw: RawClient,
    kinds: Vec<RawKind>,
    auditors: Vec<Auditor>,
    programs: Vec<Program>,
    replicas: Option<Replicas>,
    webhooks: Option<Webhooks>,
    writes: JoinSet<()>,
    /// Tasks that wait and then end a fault.
    remedies: JoinSet<Remedy>,
    steps: usize,
    /// True if a fault was injected that may affect open watches until they end.
    watches_suffer: bool,
}

impl World {
    /// Starts a cluster and the programs of a scenario. Must be called within a tokio runtime with paused
    /// time.
    pub(crate) fn new(scenario: &Scenario, trace: &Trace) -> Self {
        let cluster = Cluster::new(trace);
        let kinds = vec![
            RawKind::of::<ConfigMap>(),
            RawKind::of::<Pod>(),
            RawKind::of::<Deployment>(),
            RawKind::of::<Fruit>(),
        ];
        let webhooks = scenario.webhooks.map(|policy| {
            let fails_open = policy == FailurePolicy::Ignore;
            trace.line(format_args!("webhooks with the failure policy {policy:?}"));
            Webhooks::register(cluster.server(), fails_open, trace)
        });
        let auditors = kinds.iter().map(|kind| Auditor::start(&cluster, kind.gvr.clone(), trace)).collect();
        let checks = Checks::new(trace.clone());
        let shared =
            Shared { cluster: cluster.clone(), trace: trace.clone(), checks, intents: Intents::default() };
        let start = |(index, setup)| {
            trace.line(format_args!("program {index}: {setup:?}"));
            Program::start(index, setup, &shared)
        };
        let programs = scenario.programs.iter().enumerate().map(start).collect();
        let replicas = Some(scenario.replicas).filter(|count| *count > 0);
        let replicas = replicas.map(|count| Replicas::start(count, &shared));
        Self {
            replicas,
            webhooks,
            raw: RawClient::new(&cluster, "raw"),
            shared,
            kinds,
            auditors,
            programs,
            writes: JoinSet::new(),
            remedies: JoinSet::new(),
            steps: 0,
            watches_suffer: false,
        }
    }

    pub(crate) fn checks(&self) -> &Checks {
        &self.shared.checks
    }

    pub(crate) fn requests(&self) -> u64 {
        self.shared.cluster.server().requests().last().map_or(0, |request| request.number)
    }

    pub(crate) async fn perform(&mut self, step: &Step) {
        sleep(step.pause).await;
        self.undo_finished();
        self.steps += 1;
        if self.steps.is_multiple_of(BACKUP_EVERY) {
            self.shared.cluster.back_up();
        }
        self.shared.trace.line(format_args!("step {}: {step}", self.steps));
        let mut random = Random::new(step.draw);
        match step.action {
            Action::RawCreate(target) => self.raw_create(target, &mut random).await,
            Action::RawChange(target) => {
                let patch = (self.kinds[target.kind].change)(&mut random);
                self.raw_change(target, &patch).await;
            }
            Action::RawDelete(target) => self.raw_delete(target).await,
            Action::Write(program, write, target) => {
                let actor = &self.programs[program].kinds[target.kind].actor;
                let (write, checks) = (actor.write(write, target.key(), step.draw), self.checks().clone());
                let text = format!("{step}");
                self.writes.spawn(async move {
                    let ended = timeout(MAX_WRITE, write).await.is_ok();
                    checks.ensure("every-wait-ends", ended, || format!("{text} did not end in time"));
                });
            }
            Action::Fault(fault) => self.fault(fault, &mut random).await,
        }
    }

    async fn raw_create(&self, target: Target, random: &mut Random) {
        let (kind, key) = (&self.kinds[target.kind], target.key());
        let object = (kind.draw)((key.0, &key.1), random);
        let ticket = self.anything(target);
        let reply = self.raw.create(&kind.gvr, key.0, &object).await;
        self.completed(ticket, &reply);
        if let Ok(stored) = &reply {
            let lost = difference::missing(&object, stored);
            self.checks().ensure("fields-kept", lost.is_none(), || {
                format!("a created object lacks {}: {stored}", lost.unwrap_or_default())
            });
        }
    }

    async fn raw_change(&self, target: Target, patch: &Value) {
        let (gvr, key) = (&self.kinds[target.kind].gvr, target.key());
        let ticket = self.anything(target);
        let reply = self.raw.merge(gvr, (key.0, &key.1), patch).await;
        self.completed(ticket, &reply);
    }

    async fn raw_delete(&self, target: Target) {
        let (gvr, key) = (&self.kinds[target.kind].gvr, target.key());
        if let Err(error) = self.raw.delete(gvr, (key.0, &key.1)).await {
            self.trace_refusal(&error);
        }
    }

    /// Records that the independent client is about to write an object. That write may change any field.
    fn anything(&self, target: Target) -> crate::intent::Ticket {
        let (namespace, name) = target.key();
        let (gvr, key) = (&self.kinds[target.kind].gvr, format!("{namespace}/{name}"));
        let epoch = self.shared.cluster.epoch();
        self.shared.intents.begin(gvr, &key, epoch, ("raw", vec![String::new()]))
    }

    fn completed(&self, ticket: crate::intent::Ticket, reply: &Result<Value, Refused>) {
        if let Some(webhooks) = &self.webhooks {
            webhooks.check_response(reply, self.checks());
        }
        match reply {
            Ok(object) => self.shared.intents.completed(ticket, version_of(object)),
            Err(error) => {
                self.shared.intents.completed(ticket, 0);
                self.trace_refusal(error);
            }
        }
    }

    fn trace_refusal(&self, error: &Refused) {
        self.shared.trace.line(format_args!("  raw: {} {}", error.status, error.message));
    }

    fn kind(&self, program: usize, kind: usize) -> &KindOfProgram {
        &self.programs[program].kinds[kind]
    }
}
