use std::fmt;
use std::sync::Arc;

use informer_cache::{Event, GenericEvent};
use informer_client::{Lazy, Representation};

use super::options::ControllerOptions;
use super::reconciler::DynReconciler;
use super::sharded::KeyOf;
use super::trace_links::{LinkedReconciler, TraceOf, trace_of_object};
use super::{BuildError, Context, ControllerHandle, Outcome, ReconcileError, Reconciler};
use crate::client::field_owner_problem;
use crate::handler::{Handler, Mapper, enqueue_object, enqueue_owner_of, map};
use crate::source::{Source, Watch, WatchRole, kind, watch};
use crate::{KubeObject, ReconcileRequest, Request, ResourceKind, ShardGroup, Trigger};

type EventFilter = Arc<dyn Fn(&GenericEvent) -> bool + Send + Sync>;

pub(super) struct SourceContext {
    owner: Option<ResourceKind>,
    filter: Option<EventFilter>,
}

type Deferred<R> = Box<dyn FnOnce(&SourceContext) -> Option<Arc<dyn Source<R>>> + Send>;

/// A controller: its sources and its reconciler. Pass it to a [`Manager`](crate::Manager).
///
/// An invalid configuration (two reconciled kinds, no source) is reported when the controller is added to the
/// manager.
#[must_use = "add it to a manager"]
pub struct Controller<R: ReconcileRequest = Request> {
    pub(super) builder: ControllerBuilder<R>,
    pub(super) reconciler: Box<dyn DynReconciler<R>>,
}

impl Controller {
    /// Returns a builder of a controller named `name` that reconciles `K`: short for
    /// [`builder`](Self::builder), [`named`](ControllerBuilder::named) and [`for_`](ControllerBuilder::for_).
    #[expect(clippy::new_ret_no_self, reason = "the start of most controllers; `reconcile` completes it")]
    pub fn new<K: KubeObject>(name: impl Into<String>) -> ControllerBuilder {
        Self::builder().named(name).for_::<K>()
    }

    /// Returns a builder. The default name is that of the reconciled kind, in lower case.
    pub fn builder() -> ControllerBuilder {
        ControllerBuilder::empty()
    }

    /// Returns a builder of a controller with a custom request type. Add sources with
    /// [`watches`](ControllerBuilder::watches) and [`source`](ControllerBuilder::source).
    pub fn of_requests<R: ReconcileRequest>(name: impl Into<String>) -> ControllerBuilder<R> {
        ControllerBuilder::empty().named(name)
    }
}

impl<R: ReconcileRequest> Controller<R> {
    /// Returns a handle of the controller, which adds sources and reads the state before and while the
    /// controller runs.
    pub fn handle(&self) -> ControllerHandle<R> {
        self.builder.handle.clone()
    }
}

/// Builds a [`Controller`]: sets its name, sources and options.
#[must_use = "call `reconcile` or `reconciler` to create the controller"]
pub struct ControllerBuilder<R: ReconcileRequest = Request> {
    name: Option<String>,
    pub(super) kind: Option<ResourceKind>,
    pub(super) options: ControllerOptions<R>,
    pub(super) handle: ControllerHandle<R>,
    pub(super) sharded: Option<(ShardGroup, KeyOf<R>)>,
    sources: Vec<Deferred<R>>,
    filter: Option<EventFilter>,
    for_twice: bool,
    owns: bool,
    trace_of: Option<TraceOf<R>>,
    links_traces: bool,
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
            trace_of: None,
            links_traces: false,
        }
    }

    /// Sets the name of the controller, which is unique within the manager. It appears in logs, metrics and
    /// events, and is the [field owner](crate::CachedClient::field_owner) of the controller's writes. A name
    /// has 1 to 128 bytes of printable characters.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Watches a kind other than the reconciled one. `handler` maps each event of the kind to the requests
    /// that it enqueues.
    pub fn watches<K: KubeObject>(self, handler: impl Handler<Lazy<K>, R>) -> Self {
        self.watches_with(watch::<K>(), handler)
    }

    /// Watches a kind other than the reconciled one, as [`watches`](Self::watches) does, in a chosen
    /// representation and with predicates.
    pub fn watches_with<O: Representation>(self, watch: Watch<O>, handler: impl Handler<O, R>) -> Self {
        self.push_source(watch, handler, WatchRole::Watches)
    }

    fn push_source<O: Representation>(
        mut self,
        watch: Watch<O>,
        handler: impl Handler<O, R>,
        role: WatchRole,
    ) -> Self {
        self.sources.push(Box::new(move |context| Some(context.source(watch, handler, role))));
        self
    }

    /// Watches a kind other than the reconciled one. `mapper` returns the requests for an object; after an
    /// update, those for its old and its new state are enqueued, as with [`map`].
    ///
    /// ```
    /// use informer_core::Object as _;
    /// use informer_runtime::{Controller, Outcome, Request};
    /// use k8s_openapi::api::core::v1::{ConfigMap, Node};
    ///
    /// let controller = Controller::new::<ConfigMap>("settings")
    ///     .watches_mapped::<Node>(|node| node.labels().get("zone")?.parse::<Request>().ok())
    ///     .reconcile(|_, _| async { Ok(Outcome::Done) });
    /// # let _ = controller;
    /// ```
    pub fn watches_mapped<K: KubeObject>(self, mapper: impl Mapper<Lazy<K>, R>) -> Self {
        self.watches::<K>(map(mapper))
    }

    /// Adds a source of requests, for example [`kind_in`](crate::source::kind_in) to watch a kind of another
    /// cache. The predicates of [`event_filter`](Self::event_filter) do not apply to it.
    pub fn source(mut self, source: impl Source<R>) -> Self {
        self.sources.push(Box::new(|_| Some(Arc::new(source))));
        self
    }

    /// Filters the events of all watched kinds. To filter a single kind, add predicates to its [`Watch`].
    pub fn event_filter(mut self, filter: impl Fn(&GenericEvent) -> bool + Send + Sync + 'static) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Sets the options of the controller. They override the defaults of the manager.
    pub fn with_options(mut self, options: ControllerOptions<R>) -> Self {
        self.options = options;
        self
    }

    /// Shards the requests over the replicas of the program, as described at [`ShardGroup`]: each request is
    /// reconciled by one replica, and all replicas run the controller without leader election.
    ///
    /// A request whose key belongs to another replica is dropped before the reconciler is called. When this
    /// replica gains keys, because a replica joined or left, it reconciles the existing objects of all
    /// watched kinds with these keys, and requests that both the former and the new owner rejected while the
    /// keys moved. The [`Context`] has a client that does not send writes once the lease is uncertain
    /// ([`is_fenced`](crate::WriteError::is_fenced)), and [`owned_key`](Context::owned_key) for other writes.
    /// The member of the group is a runnable of the manager and needs the permissions of [`ShardGroup`].
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
    ///         // Has the uid and version as preconditions; not sent if another replica may own the key.
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

    /// Shards the requests by a custom key: requests with the same key, for example their namespace, are
    /// reconciled by the same replica.
    ///
    /// `key_of` runs in the workers, under no lock, and should be fast. A panic of `key_of` counts as a panic
    /// of the reconcile. The owner of the request is then unknown, so every replica that has the request
    /// reports the panic and retries it.
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

    /// Completes the controller with an async closure or function as its reconciler. To share a state between
    /// reconciles, such as settings, use [`reconcile_with`](Self::reconcile_with).
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

    /// Completes the controller with an async closure or function as its reconciler, which also receives a
    /// shared state, such as settings or a client of another service.
    ///
    /// All reconciles share the state, and reconciles of different requests run concurrently.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// use informer_runtime::{Context, Controller, Outcome, ReconcileError, Request};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// struct State {
    ///     region: String,
    ///     reconciles: AtomicUsize,
    /// }
    ///
    /// async fn reconcile(request: Request, _: Context, state: Arc<State>) -> Result<Outcome, ReconcileError> {
    ///     state.reconciles.fetch_add(1, Ordering::Relaxed);
    ///     println!("{} in {}", request.key, state.region);
    ///     Ok(Outcome::Done)
    /// }
    ///
    /// let state = State { region: "eu-1".to_owned(), reconciles: AtomicUsize::new(0) };
    /// let controller = Controller::new::<ConfigMap>("greeter").reconcile_with(state, reconcile);
    /// # let _ = controller;
    /// ```
    pub fn reconcile_with<S, F, Fut>(self, state: S, reconcile: F) -> Controller<R>
    where
        S: Send + Sync + 'static,
        F: Fn(R, Context, Arc<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        let state = Arc::new(state);
        self.reconciler(move |request, context| reconcile(request, context, Arc::clone(&state)))
    }

    /// Completes the controller with a [`Reconciler`] implementation.
    pub fn reconciler(self, reconciler: impl Reconciler<R>) -> Controller<R> {
        Controller { builder: self, reconciler: Box::new(reconciler) }
    }

    /// Returns the name of the controller: the configured one, or that of the reconciled kind. Returns an
    /// error if the name is not a valid field owner.
    pub(super) fn final_name(&self) -> Result<String, BuildError> {
        let of_kind = || self.kind.as_ref().map(|kind| kind.gvk().kind.to_lowercase());
        let name = self.name.clone().or_else(of_kind).filter(|name| !name.is_empty());
        let name = name.ok_or(BuildError::NoName)?;
        match field_owner_problem(&name) {
            None => Ok(name),
            Some(problem) => Err(BuildError::InvalidName { controller: name, problem }),
        }
    }

    /// Returns a reconciler that links its spans to traces, if the builder enables that.
    pub(super) fn linked(&mut self, reconciler: Box<dyn DynReconciler<R>>) -> Box<dyn DynReconciler<R>> {
        match self.trace_of.take().filter(|_| self.links_traces) {
            Some(trace_of) => Box::new(LinkedReconciler { reconciler, trace_of }),
            None => reconciler,
        }
    }

    pub(super) fn take_sources(&mut self, name: &str) -> Result<Vec<Arc<dyn Source<R>>>, BuildError> {
        let controller = name.to_owned();
        if self.for_twice {
            return Err(BuildError::ForTwice { controller });
        }
        if self.owns && self.kind.is_none() {
            return Err(BuildError::OwnsWithoutFor { controller });
        }
        let context = SourceContext { owner: self.kind.clone(), filter: self.filter.clone() };
        let deferred = std::mem::take(&mut self.sources);
        let mut sources: Vec<_> = deferred.into_iter().filter_map(|make| make(&context)).collect();
        sources.extend(self.handle.take_early());
        if sources.is_empty() {
            return Err(BuildError::NothingWatched { controller });
        }
        Ok(sources)
    }
}

impl ControllerBuilder<Request> {
    /// Sets the reconciled kind. Every change of an object of this kind enqueues a request for it.
    pub fn for_<K: KubeObject>(self) -> Self {
        self.for_with(watch::<K>())
    }

    /// Sets the reconciled kind, as [`for_`](Self::for_) does, in a chosen representation and with
    /// predicates.
    pub fn for_with<O: Representation>(mut self, watch: Watch<O>) -> Self {
        self.for_twice |= self.kind.is_some();
        self.kind = Some(watch.kind.clone());
        self.trace_of = Some(trace_of_object::<O>(watch.kind.clone()));
        self.push_source(watch, enqueue_object(), WatchRole::For)
    }

    /// Links the span of each reconcile to the trace in which its object was written, if the object has the
    /// annotation [`TRACE_ANNOTATION`](informer_client::TRACE_ANNOTATION). Retries and later reconciles of
    /// the object are linked, too, until the annotation changes. This needs a client with
    /// [`trace_propagation`](informer_client::Client::trace_propagation). The writer of the object sets the
    /// annotation with [`TraceContext::annotate`](informer_client::TraceContext::annotate).
    ///
    /// A reconcile is a span of its own trace, because it merges several changes, and is repeated. The
    /// requests of the reconcile belong to this trace.
    pub fn link_traces(mut self) -> Self {
        self.links_traces = true;
        self
    }

    /// Watches objects that the reconciled kind owns; a change of such an object enqueues its controller
    /// owner.
    pub fn owns<K: KubeObject>(self) -> Self {
        self.owns_with(watch::<K>())
    }

    /// Watches objects that the reconciled kind owns, as [`owns`](Self::owns) does, in a chosen
    /// representation and with predicates.
    pub fn owns_with<O: Representation>(mut self, watch: Watch<O>) -> Self {
        self.owns = true;
        self.sources.push(Box::new(|context| {
            let owner = enqueue_owner_of(context.owner.as_ref()?);
            let every = watch.every_owner;
            let owner = if every { owner } else { owner.only_controller() };
            Some(context.source(watch, owner, WatchRole::Owns))
        }));
        self
    }
}

impl SourceContext {
    fn source<O, R>(
        &self,
        mut watch: Watch<O>,
        handler: impl Handler<O, R>,
        role: WatchRole,
    ) -> Arc<dyn Source<R>>
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
            // The filter of all watched kinds runs before the predicates of a single watch, as in
            // controller-runtime.
            watch.predicates.insert(0, Box::new(holds));
        }
        Arc::new(kind(watch, handler).with_role(role))
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
