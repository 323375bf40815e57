use std::fmt;
use std::sync::Arc;

use informer_cache::{Event, GenericEvent};
use informer_client::{Lazy, Representation};

use super::options::ControllerOptions;
use super::reconciler::DynReconciler;
use super::sharded::KeyOf;
use super::{BuildError, Context, ControllerHandle, Outcome, ReconcileError, Reconciler};
use crate::client::field_owner_problem;
use crate::handler::{Handler, enqueue_object, enqueue_owner_of};
use crate::source::{Source, Watch, kind, watch};
use crate::{KubeKind, ReconcileRequest, Request, ScopedKind, ShardGroup, Trigger};

type EventFilter = Arc<dyn Fn(&GenericEvent) -> bool + Send + Sync>;

/// What is known of a controller when its sources are made.
pub(super) struct Frame {
    owner: Option<ScopedKind>,
    filter: Option<EventFilter>,
}

type Deferred<R> = Box<dyn FnOnce(&Frame) -> Option<Arc<dyn Source<R>>> + Send>;

/// A controller: what it watches, and what it does. Give it to a [`Manager`](crate::Manager).
///
/// Problems of its description (two kinds to reconcile, nothing to watch) are told when the manager takes it.
#[must_use = "a controller does nothing until a manager runs it"]
pub struct Controller<R: ReconcileRequest = Request> {
    pub(super) builder: ControllerBuilder<R>,
    pub(super) reconciler: Box<dyn DynReconciler<R>>,
}

impl Controller {
    /// A controller of this name that reconciles `K`: short for [`builder`](Self::builder),
    /// [`named`](ControllerBuilder::named) and [`for_`](ControllerBuilder::for_).
    #[expect(
        clippy::new_ret_no_self,
        reason = "the one line that most controllers begin with; `reconcile` ends it"
    )]
    pub fn new<K: KubeKind>(name: impl Into<String>) -> ControllerBuilder {
        Self::builder().named(name).for_::<K>()
    }

    /// A controller to be described. Without a name it has that of the kind that it reconciles, in lower case.
    pub fn builder() -> ControllerBuilder {
        ControllerBuilder::empty()
    }

    /// A controller whose requests are of a type of your own; what makes them is said by
    /// [`watches`](ControllerBuilder::watches) and [`source`](ControllerBuilder::source).
    pub fn of_requests<R: ReconcileRequest>(name: impl Into<String>) -> ControllerBuilder<R> {
        ControllerBuilder::empty().named(name)
    }
}

impl<R: ReconcileRequest> Controller<R> {
    /// The handle by which sources are added and the state is read, now and while it runs.
    pub fn handle(&self) -> ControllerHandle<R> {
        self.builder.handle.clone()
    }
}

/// Describes a [`Controller`].
#[must_use = "a controller is made by `reconcile`"]
pub struct ControllerBuilder<R: ReconcileRequest = Request> {
    name: Option<String>,
    pub(super) kind: Option<ScopedKind>,
    pub(super) options: ControllerOptions<R>,
    pub(super) handle: ControllerHandle<R>,
    pub(super) sharded: Option<(ShardGroup, KeyOf<R>)>,
    sources: Vec<Deferred<R>>,
    filter: Option<EventFilter>,
    for_twice: bool,
    owns: bool,
}

impl<R: ReconcileRequest> ControllerBuilder<R> {
    fn empty() -> Self {
        Self {
            name: None,
            kind: None,
            options: ControllerOptions::new(),
            handle: ControllerHandle::new(),
            sharded: None,
            sources: Vec::new(),
            filter: None,
            for_twice: false,
            owns: false,
        }
    }

    /// Sets the name, which is unique within the manager. It appears in logs, metrics and events, and is the
    /// [field owner](crate::CachedClient::field_owner) of what the controller writes: 1 to 128 bytes of printable
    /// characters.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Watches a kind, too; `handler` says what is to be looked at when an object of it changes.
    pub fn watches<K: KubeKind>(self, handler: impl Handler<Lazy<K>, R>) -> Self {
        self.watches_with(watch::<K>(), handler)
    }

    /// As [`watches`](Self::watches), in a form of your choice and with predicates.
    pub fn watches_with<O: Representation>(mut self, watch: Watch<O>, handler: impl Handler<O, R>) -> Self {
        self.sources.push(Box::new(|frame| Some(frame.source(watch, handler))));
        self
    }

    /// Takes requests from a source. What [`event_filter`](Self::event_filter) says does not hold for it.
    pub fn source(mut self, source: impl Source<R>) -> Self {
        self.sources.push(Box::new(|_| Some(Arc::new(source))));
        self
    }

    /// Only events of watched kinds for which `filter` holds, too, whatever their kind. Predicates of a single kind stand in its
    /// [`Watch`].
    pub fn event_filter(mut self, filter: impl Fn(&GenericEvent) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Sets what differs from the defaults of the manager.
    pub fn with_options(mut self, options: ControllerOptions<R>) -> Self {
        self.options = options;
        self
    }

    /// Shares the requests with the other replicas of the program: each is worked on by one of them, as [`ShardGroup`] says, and all of
    /// them run the controller, whoever leads.
    ///
    /// A request whose key belongs elsewhere is dropped before the reconciler is called. When keys come here, because another replica went or
    /// keys were shared anew, the objects of all watched kinds are looked at again as far as their requests came here, and so are requests
    /// that two replicas left to each other while the keys moved. The [`Context`] has a client whose writes are not sent once the
    /// lease is uncertain ([`is_fenced`](crate::WriteError::is_fenced)), and [`owned`](Context::owned) for writes elsewhere.
    /// The member of the group is a part of the manager, which needs the permissions of [`ShardGroup`].
    ///
    /// ```no_run
    /// # async fn example(client: informer_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use informer_runtime::{Controller, Manager, Outcome, ShardGroup};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let controller = Controller::new::<ConfigMap>("shouter").sharded(ShardGroup::new("shouter")).reconcile(
    ///     |request, ctx| async move {
    ///         let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
    ///         let mut edited = map.edit();
    ///         edited.data.iter_mut().flat_map(|data| data.values_mut()).for_each(|text| text.make_ascii_uppercase());
    ///         // Bound to the uid and the version that were read, and not sent if another replica may act on the key by now.
    ///         ctx.client.update(&edited).await?;
    ///         Ok(Outcome::Done)
    ///     },
    /// );
    /// Manager::new(client).controller(controller).run_until(std::future::pending::<()>()).await?;
    /// # Ok(()) }
    /// ```
    pub fn sharded(self, group: ShardGroup) -> Self {
        self.sharded_by(group, R::to_string)
    }

    /// As [`sharded`](Self::sharded), by a key of your choice: requests with one key, such as their namespace, are worked on by one replica.
    ///
    /// `key_of` runs in the workers, under no lock, and should be quick. A panic of it counts as one of the reconcile: nobody can say
    /// whose the request is, so that every replica that has it tells of the panic and tries it again.
    ///
    /// ```
    /// use informer_runtime::{Controller, Outcome, Request, ShardGroup};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let namespace = |request: &Request| request.namespace().unwrap_or_default().to_owned();
    /// let builder = Controller::new::<ConfigMap>("tenants").sharded_by(ShardGroup::new("tenants"), namespace);
    /// let controller = builder.reconcile(|_, _| async { Ok(Outcome::Done) });
    /// # let _ = controller;
    /// ```
    pub fn sharded_by(
        mut self,
        group: ShardGroup,
        key_of: impl Fn(&R) -> String + Send + Sync + 'static,
    ) -> Self {
        self.sharded = Some((group, Arc::new(key_of)));
        self
    }

    /// Completes the controller with an async closure.
    ///
    /// ```
    /// use informer_runtime::{Controller, Outcome};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// let controller = Controller::new::<ConfigMap>("greeter").reconcile(|request, ctx| async move {
    ///     println!("{} {}", ctx.reconcile_id(), request.key);
    ///     Ok(Outcome::Done)
    /// });
    /// # let _ = controller;
    /// ```
    pub fn reconcile<F, Fut>(self, reconcile: F) -> Controller<R>
    where
        F: Fn(R, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        self.reconciler(reconcile)
    }

    /// Completes the controller with a [`Reconciler`].
    pub fn reconciler(self, reconciler: impl Reconciler<R>) -> Controller<R> {
        Controller { builder: self, reconciler: Box::new(reconciler) }
    }

    /// Returns the given name, or that of the reconciled kind. Fails if it cannot be the field owner of the
    /// controller's writes.
    pub(super) fn final_name(&self) -> Result<String, BuildError> {
        let of_kind = || self.kind.as_ref().map(|kind| kind.gvk().kind.to_lowercase());
        let name = self.name.clone().or_else(of_kind).filter(|name| !name.is_empty());
        let name = name.ok_or(BuildError::NoName)?;
        match field_owner_problem(&name) {
            None => Ok(name),
            Some(problem) => Err(BuildError::InvalidName { controller: name, problem }),
        }
    }

    /// The sources, or what is wrong with the description.
    pub(super) fn take_sources(&mut self, name: &str) -> Result<Vec<Arc<dyn Source<R>>>, BuildError> {
        let controller = name.to_owned();
        if self.for_twice {
            return Err(BuildError::ForTwice { controller });
        }
        if self.owns && self.kind.is_none() {
            return Err(BuildError::OwnsWithoutFor { controller });
        }
        let frame = Frame { owner: self.kind.clone(), filter: self.filter.clone() };
        let deferred = std::mem::take(&mut self.sources);
        let mut sources: Vec<_> = deferred.into_iter().filter_map(|make| make(&frame)).collect();
        sources.extend(self.handle.take_early());
        if sources.is_empty() {
            return Err(BuildError::NothingWatched { controller });
        }
        Ok(sources)
    }
}

impl ControllerBuilder<Request> {
    /// Says which kind is reconciled: each change of an object of it is looked at.
    pub fn for_<K: KubeKind>(self) -> Self {
        self.for_with(watch::<K>())
    }

    /// As [`for_`](Self::for_), in a form of your choice and with predicates.
    pub fn for_with<O: Representation>(mut self, watch: Watch<O>) -> Self {
        self.for_twice |= self.kind.is_some();
        self.kind = Some(watch.kind.clone());
        self.watches_with(watch, enqueue_object())
    }

    /// Watches objects that the reconciled kind owns: when one changes, the owner that manages it is looked at.
    pub fn owns<K: KubeKind>(self) -> Self {
        self.owns_with(watch::<K>())
    }

    /// As [`owns`](Self::owns), in a form of your choice and with predicates.
    pub fn owns_with<O: Representation>(mut self, watch: Watch<O>) -> Self {
        self.owns = true;
        self.sources.push(Box::new(|frame| {
            let owner = enqueue_owner_of(frame.owner.as_ref()?);
            let every = watch.every_owner;
            Some(frame.source(watch, if every { owner } else { owner.only_controller() }))
        }));
        self
    }
}

impl Frame {
    fn source<O, R>(&self, mut watch: Watch<O>, handler: impl Handler<O, R>) -> Arc<dyn Source<R>>
    where
        O: Representation,
        R: ReconcileRequest,
    {
        if let Some(filter) = self.filter.clone() {
            let passes = move |event: &Event<O>| filter(&GenericEvent::from(event.clone()));
            let holds = move |trigger: &Trigger<O>| match trigger {
                Trigger::Event(event) => passes(event),
                Trigger::Generic(_) => true,
            };
            // Before the predicates of the watch, as upstream has it.
            watch.predicates.insert(0, Box::new(holds));
        }
        Arc::new(kind(watch, handler))
    }
}

impl<R: ReconcileRequest> fmt::Debug for ControllerBuilder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("sources", &self.sources.len())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<R: ReconcileRequest> fmt::Debug for Controller<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller").field(&self.builder).finish()
    }
}
