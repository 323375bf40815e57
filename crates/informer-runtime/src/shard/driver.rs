//! The task of a member of a shard group, which sends the requests of the member's state machine and passes
//! the responses to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use informer_client::Client;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{now, sleep_until};
use crate::leader::driver::own_identity;
use crate::leader::failures::Failure;
use crate::leader::health::{LeaseHealth, LeaseUse};
use crate::{BoxError, Runnable, RunnableGroup};

use super::handle::{Sharding, SharedMember};
use super::state::{MemberState, ShardAction, ShardResponse};
use super::wire::GroupLeases;
use super::{ShardConfigError, ShardGroup};

/// A member of a shard group, which shares the keys of the group with the other members.
/// [`ShardGroup::member`] creates it.
#[must_use = "call `run`, or it does nothing"]
pub struct ShardMember {
    group: String,
    lease: Duration,
    request_timeout: Duration,
    leases: GroupLeases,
    sharding: Sharding,
    health: Arc<LeaseHealth>,
}

/// A Lease request in flight, if any. The future resolves to the response, and to a flag that is true if the
/// request was a list of the group.
type PendingResponse = Option<BoxFuture<'static, (bool, ShardResponse)>>;

impl ShardMember {
    pub(super) fn new(group: ShardGroup, client: Client) -> Result<Self, ShardConfigError> {
        let namespace = group.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        ShardConfigError::check(&group, &namespace)?;
        let client = if group.share_connections { client } else { client.with_separate_connections() };
        let name: Arc<str> = format!("{}-{}", group.name, uuid::Uuid::new_v4().simple()).into();
        let state = MemberState::new(Arc::clone(&name), group.times, now());
        let view = watch::Sender::new(Arc::clone(state.view()));
        let shared = SharedMember { state: Mutex::new(state), view, wake: Notify::new() };
        let identity = group.identity.unwrap_or_else(own_identity);
        let tolerance = group.times.lease;
        let health = LeaseHealth::new(LeaseUse::ShardGroup, &namespace, &group.name, &identity, tolerance);
        Ok(Self {
            health,
            lease: group.times.lease,
            request_timeout: (group.times.lease / 5).max(Duration::from_millis(500)),
            leases: GroupLeases::new(client, &namespace, &group.name, (name, identity), group.times.lease),
            group: group.name,
            sharding: Sharding { shared: Arc::new(shared) },
        })
    }

    /// Returns a handle that shows which keys this replica owns. Until the member runs, the replica owns no
    /// key.
    pub fn sharding(&self) -> Sharding {
        self.sharding.clone()
    }

    pub(crate) fn health(&self) -> Arc<LeaseHealth> {
        Arc::clone(&self.health)
    }

    pub(crate) fn lease_duration(&self) -> Duration {
        self.lease
    }

    /// Joins the shard group and renews this member's Lease. When `stop` is cancelled, the member leaves the
    /// group as soon as running work on its keys has ended.
    ///
    /// If the server cannot be reached, requests are retried forever, and this replica owns no key meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not release the lease, which then expires.
    pub async fn run(self, stop: CancellationToken) {
        let shared = Arc::clone(&self.sharding.shared);
        let mut in_flight: PendingResponse = None;
        let mut stopping = false;
        // Two flags: whether the last write of the member's Lease failed, and whether the last list of Leases
        // failed. They are separate, so that a successful list does not hide that writes are rejected.
        let mut failing = [false; 2];
        loop {
            let (action, deadline, has_left, view) = {
                let mut state = shared.state.lock();
                state.tick(now());
                (state.poll_action(), state.next_deadline(), state.is_gone(), Arc::clone(state.view()))
            };
            shared.view.send_if_modified(|current| {
                let changed = current.number != view.number;
                if changed {
                    tracing::info!(
                        group = self.group,
                        members = view.members(),
                        active = view.is_active(),
                        "the shard changed"
                    );
                    *current = view;
                }
                changed
            });
            self.health.set_active(shared.view.borrow().is_active());
            if has_left {
                self.health.stopped();
                return;
            }
            if let Some(action) = action {
                in_flight = Some(self.send(action));
                continue;
            }
            // The branches are polled in order. If a response and a deadline are ready at the same time, the
            // response is handled first, so that a renewal in time is not lost.
            tokio::select! {
                biased;
                (is_list, response) = response(&mut in_flight) => {
                    in_flight = None;
                    failing[usize::from(is_list)] = matches!(response, ShardResponse::Failed);
                    if failing == [false; 2] {
                        self.health.succeeded();
                    }
                    shared.state.lock().handle_response(response, now());
                }
                () = stop.cancelled(), if !stopping => {
                    stopping = true;
                    shared.state.lock().stop(now());
                }
                () = shared.wake.notified() => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    fn send(&self, action: ShardAction) -> BoxFuture<'static, (bool, ShardResponse)> {
        let is_list = matches!(action, ShardAction::List);
        let response = self.leases.send(action, Timestamp::now());
        let (timeout, health) = (self.request_timeout, Arc::clone(&self.health));
        async move {
            let response = tokio::time::timeout(timeout, response).await;
            let response =
                response.unwrap_or_else(|_| Err(Failure::timed_out(timeout))).unwrap_or_else(|failure| {
                    health.failed(failure);
                    ShardResponse::Failed
                });
            (is_list, response)
        }
        .boxed()
    }
}

impl Runnable for ShardMember {
    fn name(&self) -> String {
        format!("member of the shard group {}", self.group)
    }

    /// The member of the shard group is in the manager's group of caches. It starts before the controllers
    /// and stops after them, so it leaves the shard group only when their reconciles have ended.
    fn group(&self) -> RunnableGroup {
        RunnableGroup::Caches
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        (*self).run(stop).map(Ok).boxed()
    }
}

impl fmt::Debug for ShardMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardMember").field("group", &self.group).finish_non_exhaustive()
    }
}

async fn response(in_flight: &mut PendingResponse) -> (bool, ShardResponse) {
    match in_flight {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}
