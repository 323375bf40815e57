//! The faults that affect more than the responses to requests, such as restarts, restores and hanging
//! handlers.

use std::time::Duration;

use informer_core::Gvr;
use informer_simulator::Random;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{World, secrets};
use crate::fault::Fault;
use crate::sample::{NAMESPACES, POISON};
use crate::webhooks::Webhooks;

/// The time in which a working watch is sure to deliver an event to its handlers.
pub(super) const DELIVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(super) enum Remedy {
    Reachable,
    Handler(usize, usize),
    Webhooks,
}

impl World {
    pub(super) async fn fault(&mut self, fault: Fault, random: &mut Random) {
        self.watches_suffer |= matches!(fault, Fault::WatchStalls | Fault::WatchLags | Fault::Trickle);
        if fault.inject(&self.shared.cluster, random) {
            return;
        }
        let server = self.shared.cluster.server();
        let while_for = Duration::from_millis(random.between(100, 90_000) as u64);
        match fault {
            Fault::Unreachable => {
                self.shared.cluster.set_reachable(false);
                server.disconnect_watchers();
                self.undo_after(while_for, Remedy::Reachable);
            }
            Fault::Outage => {
                self.shared.cluster.set_reachable(false);
                server.disconnect_watchers();
                let minutes = Duration::from_secs(random.between(120, 300) as u64);
                self.undo_after(minutes, Remedy::Reachable);
            }
            Fault::Restart => server.disconnect_watchers(),
            Fault::Compaction => {
                server.compact();
                server.disconnect_watchers();
            }
            Fault::VersionJump => server.skip_to(server.version() + random.between(1, 1000) as u64),
            Fault::Rewind if self.replicas.is_none() => self.rewind().await,
            Fault::RestoreOfUnseenWrites if self.replicas.is_none() => {
                self.restore_unseen_writes(random).await;
            }
            Fault::HandlerHangs => {
                let (program, kind) = self.some_view(random);
                self.kind(program, kind).view.handler().set_hanging(true);
                self.undo_after(while_for, Remedy::Handler(program, kind));
            }
            Fault::HandlerPanics => {
                let (program, kind) = self.some_view(random);
                self.kind(program, kind).view.handler().panic_once();
            }
            Fault::HandlerRemoved => {
                let (program, kind) = self.some_view(random);
                self.kind(program, kind).view.remove_handler();
            }
            Fault::HandlerRemovedInCall => self.remove_handler_in_call(random).await,
            Fault::DecoderPanics => self.poison(random).await,
            Fault::WebhooksFail => {
                if let Some(webhooks) = &self.webhooks {
                    webhooks.disturb(random);
                    self.undo_after(while_for, Remedy::Webhooks);
                }
            }
            Fault::ReplicaKilled => self.replicas.iter().for_each(|replicas| replicas.kill_one(random)),
            Fault::OwnedDeleted => self.delete_owned(random).await,
            _ => {}
        }
    }

    fn some_view(&self, random: &mut Random) -> (usize, usize) {
        let program = random.below(self.programs.len());
        (program, random.below(self.programs[program].kinds.len()))
    }

    /// Removes a handler while one of its calls is running. In a cache of several namespaces, calls for
    /// events of other informers are waiting at that time.
    async fn remove_handler_in_call(&self, random: &mut Random) {
        let (program, kind) = self.some_view(random);
        let view = &self.kind(program, kind).view;
        view.handler().set_hanging(true);
        for (at, namespace) in NAMESPACES.into_iter().enumerate() {
            for name in ["o0", "o1"] {
                let key = (namespace, name.to_owned());
                self.touch(kind, &key, &format!("{at}-{}", random.below(1000))).await;
            }
        }
        sleep(DELIVERY).await;
        view.remove_handler();
        view.handler().set_hanging(false);
    }

    /// Changes an annotation of an object through the independent client. Creates the object if it does not
    /// exist.
    pub(super) async fn touch(&self, kind: usize, key: &(&'static str, String), value: &str) {
        let kind = &self.kinds[kind];
        let full = format!("{}/{}", key.0, key.1);
        let begin = || {
            let epoch = self.shared.cluster.epoch();
            self.shared.intents.begin(&kind.gvr, &full, epoch, ("raw", vec![String::new()]))
        };
        let patch = json!({"metadata": {"annotations": {"touched": value}}});
        let ticket = begin();
        let reply = self.raw.merge(&kind.gvr, (key.0, &key.1), &patch).await;
        let missing = reply.as_ref().is_err_and(|refused| refused.status == 404);
        self.completed(ticket, &reply);
        if missing {
            let object = (kind.draw)((key.0, &key.1), &mut Random::new(value.len() as u64));
            let ticket = begin();
            let reply = self.raw.create(&kind.gvr, key.0, &object).await;
            self.completed(ticket, &reply);
        }
    }

    async fn poison(&self, random: &mut Random) {
        let Some(kind) = self.kinds.iter().find(|kind| kind.gvr.resource == "fruits") else { return };
        let Ok((objects, _)) = self.raw.list(&kind.gvr).await else { return };
        if objects.is_empty() {
            return;
        }
        let object = &objects[random.below(objects.len())];
        self.paint(&kind.gvr, object, POISON).await;
    }

    async fn delete_owned(&self, random: &mut Random) {
        let Ok((owned, _)) = self.raw.list(&secrets()).await else { return };
        if let Some(secret) = owned.get(random.below(owned.len())) {
            let text = |field: &str| secret["metadata"][field].as_str().unwrap_or_default();
            if let Err(error) = self.raw.delete(&secrets(), (text("namespace"), text("name"))).await {
                self.trace_refusal(&error);
            }
        }
    }

    pub(super) async fn paint(&self, gvr: &Gvr, object: &Value, color: &str) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let key = (text("namespace"), text("name"));
        let epoch = self.shared.cluster.epoch();
        let full = format!("{}/{}", key.0, key.1);
        let ticket = self.shared.intents.begin(gvr, &full, epoch, ("raw", vec![String::new()]));
        let reply = self.raw.merge(gvr, key, &json!({"spec": {"color": color}})).await;
        self.completed(ticket, &reply);
    }

    fn undo_after(&mut self, after: Duration, remedy: Remedy) {
        self.remedies.spawn(async move {
            sleep(after).await;
            remedy
        });
    }

    pub(super) fn undo_finished(&mut self) {
        while let Some(Ok(remedy)) = self.remedies.try_join_next() {
            self.undo(remedy);
        }
    }

    fn undo(&self, remedy: Remedy) {
        self.shared.trace.line(format_args!("over: {remedy:?}"));
        match remedy {
            Remedy::Reachable => self.shared.cluster.set_reachable(true),
            Remedy::Webhooks => self.webhooks.iter().for_each(Webhooks::repair),
            Remedy::Handler(program, kind) => self.kind(program, kind).view.handler().set_hanging(false),
        }
    }
}
