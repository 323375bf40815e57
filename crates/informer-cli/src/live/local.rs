//! Informers of kinds that the user has named.

use informer::client::{Client, Lazy, Metadata};
use informer::kube_core::DynamicObject;
use informer::runtime::console::ConsoleData;
use informer::runtime::{Cache, CachedClient, Controller, Manager, Outcome, source};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::{LiveUpdate, PERIOD};
use crate::failure::{Failure, chain};

/// Returns a manager with one informer for each kind, which caches whole objects or their metadata. A
/// controller that does nothing reconciles each changed object, so that the history of a key contains its
/// changes.
pub(super) async fn manager(
    client: &Client,
    names: &[String],
    namespace: Option<String>,
    whole_objects: bool,
) -> Result<Manager, Failure> {
    let mut kinds = Vec::new();
    for name in names {
        let found = client.resolve(name).await;
        let found = found.map_err(|error| Failure::new(format!("cannot {}", chain(&error))))?;
        if !found.is_watchable() {
            let resource = found.kind.resource();
            return Err(Failure::new(format!(
                "watch {resource}: the resource does not support watches; name another kind"
            )));
        }
        if !kinds.contains(&found.kind) {
            kinds.push(found.kind);
        }
    }
    let cache = Cache::builder(client.clone()).namespaces(namespace).build();
    let mut manager = Manager::of(CachedClient::new(&cache));
    for kind in kinds {
        let controller = Controller::builder().named(kind.resource());
        let controller = if whole_objects {
            controller.for_with(source::watch_of::<Lazy<DynamicObject>>(kind))
        } else {
            controller.for_with(source::watch_of::<Metadata>(kind))
        };
        manager = manager.controller(controller.reconcile(|_, _| async { Ok(Outcome::Done) }));
    }
    Ok(manager)
}

/// Runs the manager, and sends a snapshot every second.
pub(super) async fn run(manager: Manager, data: ConsoleData, sender: mpsc::Sender<LiveUpdate>) {
    let (mut events, mut timer) = (data.events(), interval(PERIOD));
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let send = async {
        loop {
            timer.tick().await;
            if sender.send(LiveUpdate::Event(Box::new(events.next_event()))).await.is_err() {
                return;
            }
        }
    };
    let reason = tokio::select! {
        () = send => return,
        ended = manager.run_until(std::future::pending::<()>()) => match ended {
            Ok(()) => "the informers have stopped".to_owned(),
            Err(error) => format!("the informers have stopped: {}", chain(&error)),
        },
    };
    // The terminal may have closed, which ends this task anyway.
    let _ = sender.send(LiveUpdate::Disconnected(reason)).await;
    std::future::pending::<()>().await;
}
