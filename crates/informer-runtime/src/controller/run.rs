//! Runs a controller as a runnable of a manager.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::engine::{Engine, EngineParts};
use super::metrics::ControllerMetricsProvider;
use super::metrics::Instruments;
use super::options::{self, ControllerDefaults};
use super::sharded::{KeyOf, Sharded};
#[cfg(feature = "console")]
use super::state_page::ConsoleParts;
use super::{BuildError, Controller, ControllerBuilder};
use crate::causes::{CauseLog, CauseSwitch, ControllerPage};
use crate::kind::group_kind;
use crate::{BoxError, ReconcileRequest, Runnable, RunnableGroup, Services, ShardMember};

pub(crate) struct Environment {
    pub(crate) services: Services,
    pub(crate) defaults: ControllerDefaults,
    pub(crate) metrics: Option<Arc<dyn ControllerMetricsProvider>>,
}

pub(crate) struct ControllerRunnable<R: ReconcileRequest> {
    pub(super) engine: Arc<Engine<R>>,
    pub(super) member: Option<ShardMember>,
}

impl<R: ReconcileRequest> Controller<R> {
    /// Creates the runnable of this controller: its queue, engine and metrics. Nothing is started before the
    /// manager runs the runnable.
    pub(crate) fn assemble(self, environment: Environment) -> Result<ControllerRunnable<R>, BuildError> {
        let Self { mut builder, reconciler } = self;
        let reconciler = builder.linked(reconciler);
        let name = builder.final_name()?;
        let sources = builder.take_sources(&name)?;
        let kind: Arc<str> = builder.kind.as_ref().map(group_kind).unwrap_or_default().into();
        let group_kind = Some(&*kind).filter(|kind| !kind.is_empty());
        let shares = shard(&mut builder, &name, environment.services.client.api())?;
        let settings = options::resolve(&builder.options.own, &environment.defaults, group_kind);
        let mut queue = options::queue(builder.options, &settings);
        let metrics = environment.metrics.as_deref();
        if let Some(metrics) = metrics {
            queue = queue.metrics(metrics.queue(&name));
        }
        let of_manager = || metrics.and_then(ControllerMetricsProvider::cause_switch);
        let switch = settings.record_causes.then_some(CauseSwitch::Always).or_else(of_manager);
        let causes = switch.map(|switch| Arc::new(CauseLog::new(switch)));
        let instruments = Instruments::new(metrics.and_then(|metrics| metrics.controller(&name)));
        let (member, key_of) = shares.unzip();
        let shards = || metrics.and_then(|metrics| metrics.shards(&name));
        let sharded = member.as_ref().zip(key_of).map(|(member, of)| Sharded::new(member, of, shards()));
        let mut services = environment.services;
        services.recorder = services.recorder.of(&name);
        services.client = services.client.of_controller(&name);
        #[cfg(feature = "console")]
        let console = ConsoleParts { kind: builder.kind.take(), writes: Arc::default() };
        #[cfg(feature = "console")]
        {
            services.client = services.client.counting_writes(Arc::clone(&console.writes));
        }
        let engine = Arc::new(Engine::new(EngineParts {
            name: name.into(),
            kind,
            settings,
            queue: queue.build(),
            reconciler,
            services,
            instruments,
            sources,
            sharded,
            causes,
            #[cfg(feature = "console")]
            console,
        }));
        builder.handle.set(&engine);
        if let Some(metrics) = metrics {
            let page: Arc<dyn ControllerPage> = Arc::clone(&engine) as _;
            metrics.show_controller(Arc::downgrade(&page));
        }
        Ok(ControllerRunnable { engine, member })
    }
}

impl<R: ReconcileRequest> ControllerRunnable<R> {
    /// Returns the name of the controller, which must be unique in the manager; `None` if the controller has
    /// disabled this check.
    pub(crate) fn unique_name(&self) -> Option<&str> {
        (!self.engine.settings.skip_name_validation).then(|| self.engine.name())
    }

    /// Removes and returns the shard group member of a sharded controller. The member runs as a separate
    /// runnable of the manager.
    pub(crate) fn take_member(&mut self) -> Option<ShardMember> {
        self.member.take()
    }
}

impl<R: ReconcileRequest> Runnable for ControllerRunnable<R> {
    fn name(&self) -> String {
        format!("controller {}", self.engine.name())
    }

    fn group(&self) -> RunnableGroup {
        if self.engine.settings.leader_only { RunnableGroup::LeaderOnly } else { RunnableGroup::Others }
    }

    fn warm_up(&mut self) -> Option<Box<dyn Runnable>> {
        let warms = self.engine.settings.warm_up;
        warms.then(|| Box::new(WarmUp { engine: Arc::clone(&self.engine) }) as Box<dyn Runnable>)
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move { Ok(self.engine.run(stop).await?) })
    }
}

/// The runnable for the warm-up of a controller. It starts the sources before this process is the leader.
struct WarmUp<R: ReconcileRequest> {
    engine: Arc<Engine<R>>,
}

impl<R: ReconcileRequest> Runnable for WarmUp<R> {
    fn name(&self) -> String {
        format!("warm-up of controller {}", self.engine.name())
    }

    fn group(&self) -> RunnableGroup {
        RunnableGroup::WarmUp
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, Result<(), BoxError>> {
        Box::pin(async move { Ok(self.engine.warm_up(stop).await?) })
    }
}

/// Creates the shard group member and the shard key function of a sharded controller; `None` if the
/// controller is not sharded. A sharded controller runs in all replicas, not only in the leader.
fn shard<R: ReconcileRequest>(
    builder: &mut ControllerBuilder<R>,
    name: &str,
    client: &informer_client::Client,
) -> Result<Option<(ShardMember, KeyOf<R>)>, BuildError> {
    let Some((group, key_of)) = builder.sharded.take() else { return Ok(None) };
    if builder.options.own.leader_only == Some(true) {
        return Err(BuildError::ShardedLeader { controller: name.to_owned() });
    }
    builder.options.own.leader_only = Some(false);
    let refused = |cause| BuildError::Sharding { controller: name.to_owned(), cause };
    Ok(Some((group.member(client.clone()).map_err(refused)?, key_of)))
}
