//! Managers, caches and controllers, re-exported from the crate [`informer_runtime`].
//!
//! | for | see |
//! |---|---|
//! | the parts of a program, started and stopped in order | [`Manager`], [`Runnable`], [`LeaderElection`] |
//! | controllers | [`Controller`], [`Reconciler`], [`source`], [`handler`], [`predicate`] |
//! | reads from a cache, and writes | [`client`], [`Cache`] |
//! | status conditions and waits | [`conditions`], [`wait`] |

#[cfg(all(feature = "certificates", any(feature = "ring", feature = "aws-lc-rs")))]
pub use informer_runtime::ManagedCertificates;
pub use informer_runtime::{
    AddError, BODY_LEASE, BodyReference, BoxError, BuildError, Cache, CacheBuilder, CacheInformer,
    CacheRegistration, CachedClient, CancellationToken, CauseObject, Causes, ChangedFields, ChangedPart,
    CleanupError, ClientBuilder, ClientMetrics, Context, Controller, ControllerBuilder, ControllerDefaults,
    ControllerError, ControllerHandle, ControllerOptions, ControllerPhase, ControllerState, Coordination,
    DeleteOptions, DynamicClient, DynamicSubresource, Edited, ElectionConfigError, EventRecorder, EventSink,
    EventSubject, EventType, Fence, Fetched, FieldValidation, Finalization, FinalizeError, Finalized,
    Finalizers, FnRunnable, GetOptions, HealthChecks, Heartbeat, HttpServer, InformerOptions, InformerScope,
    Intercept, IntoRunnable, KubeObject, LabelSelectorError, LeaderElection, LeaderElector, LeaderLost,
    Leadership, ListOptions, LiveReader, LookupError, MAX_BODY_FETCHES, MAX_BODY_LEASES,
    MAX_CONFLICT_ATTEMPTS, Manager, ManagerError, ManagerHandle, ManagerStatus, MaybeConflict,
    MetadataClient, MissingInformer, Next, NotOwned, ObjectStream, Operation, OperationResult, OperationVerb,
    Outcome, OwnedKey, Owner, OwnerError, Page, Patch, Probe, Propagation, ReadError, ReconcileCause,
    ReconcileCounts, ReconcileError, ReconcileId, ReconcilePanic, ReconcileRequest, ReconcileTimeout,
    Reconciler, RecordedEvent, ReferenceSet, Referenced, ReferencedState, Request, ResourceKind, Runnable,
    RunnableError, RunnableGroup, ScopedInformer, ServerTls, Services, ShardConfigError, ShardFence,
    ShardGroup, ShardMember, ShardState, ShardView, Sharding, StaticKind, StaticResource, Subresource,
    TerminalError, Tls, TlsError, TlsOptions, TlsOptionsError, TlsVersion, Trigger, TypedIndex, WaitError,
    WriteError, add_finalizer, contains_finalizer, ctrl_c, has_controller_reference, has_owner_reference,
    label_selector, remove_controller_reference, remove_finalizer, remove_owner_reference, retry_on_conflict,
    runnable, set_controller_reference, set_owner_reference, typed,
};

/// The clients of programs, which read from a cache and write to the API server; see
/// [`informer_runtime::client`].
pub mod client {
    pub use informer_runtime::client::{
        CachedClient, ClientBuilder, ClientMetrics, DeleteOptions, DynamicClient, DynamicSubresource, Edited,
        Fetched, FieldValidation, GetOptions, Intercept, LiveReader, MAX_CONFLICT_ATTEMPTS, MaybeConflict,
        MetadataClient, Next, ObjectStream, Operation, OperationResult, OperationVerb, Page, Patch,
        Propagation, Subresource, WaitError, WriteError, retry_on_conflict,
    };

    /// The metrics of the requests of a client; see [`informer_runtime::client::metrics`].
    pub mod metrics {
        pub use informer_runtime::client::metrics::ClientMetrics;

        /// The metrics of a client with prometheus-client; see
        /// [`informer_runtime::client::metrics::prometheus`].
        #[cfg(feature = "prometheus")]
        pub mod prometheus {
            pub use informer_runtime::client::metrics::prometheus::PrometheusClient;
        }
    }
}

/// Status conditions of objects; see [`informer_runtime::conditions`].
pub mod conditions {
    pub use informer_runtime::conditions::{
        ConditionStatus, NewCondition, find, is_false, is_true, remove, set,
    };
}

/// The console, a page in the browser that shows the parts of a manager live; see
/// [`informer_runtime::console`].
#[cfg(feature = "console")]
pub mod console {
    pub use informer_runtime::console::{
        ActionsSnapshot, ClientSnapshot, Console, ConsoleData, ConsoleEvent, ConsoleEvents, ConsoleSnapshot,
        ControllerHistory, ControllerSnapshot, HandlerSnapshot, InformerSnapshot, KeyHistory, LatencyBucket,
        LeaseSnapshot, ObjectContent, ObjectEntry, ObjectList, OmittedParts, ProcessSnapshot,
        QueueDepthSnapshot, QueueSnapshot, QueuedCauses, ReconcileResults, ReconcileSnapshot, RequestTotals,
        ShardSnapshot, WatchSnapshot, WriteSnapshot, page_file,
    };
}

/// Event handlers, which map a changed object to requests; see [`informer_runtime::handler`].
pub mod handler {
    pub use informer_runtime::handler::{
        Enqueue, EnqueueObject, EnqueueOwner, Handler, Map, Mapper, enqueue_object, enqueue_owner,
        enqueue_owner_of, map,
    };
}

/// Controllers of objects in many clusters; see [`informer_runtime::multicluster`].
pub mod multicluster {
    pub use informer_runtime::multicluster::{
        Cluster, ClusterHandler, ClusterName, ClusterRequest, Clusters, EngageError, WatchIn, enqueue_in,
        watch_in,
    };
}

/// Predicates, which decide whether a changed object reaches a handler; see [`informer_runtime::predicate`].
pub mod predicate {
    pub use informer_runtime::predicate::{
        And, AnnotationChanged, AnnotationsChanged, GenerationChanged, LabelsChanged, Not, ObjectPredicate,
        Or, Predicate, PredicateFuncs, ResourceVersionChanged, and, annotation_changed, annotations_changed,
        funcs, generation_changed, labels_changed, namespaces, not, object, or, resource_version_changed,
        selects,
    };
}

/// Sources, which add requests to the queue of a controller; see [`informer_runtime::source`].
pub mod source {
    #[cfg(feature = "packed")]
    pub use informer_runtime::source::watch_packed;
    pub use informer_runtime::source::{
        Enqueuer, Function, Informer, Kind, Source, Stream, Watch, WatchedKind, channel, function, informer,
        kind, kind_in, stream, watch, watch_metadata, watch_of, watch_typed,
    };
}

/// Contexts for unit tests of reconcilers; see [`informer_runtime::testing`].
#[cfg(feature = "testing")]
pub mod testing {
    pub use informer_runtime::testing::{EventLog, RecordedEvent, TestContext, TestContextBuilder};
}

/// Conditions of objects, for waits; see [`informer_runtime::wait`].
pub mod wait {
    pub use informer_runtime::wait::{
        IsDeleted, WaitCondition, daemon_set_rolled_out, deployment_rolled_out, has_condition,
        is_crd_established, is_deleted, is_job_completed, is_pod_ready, is_pod_running,
        stateful_set_rolled_out,
    };
}

/// Admission and conversion webhooks; see [`informer_runtime::webhook`].
#[cfg(feature = "webhook")]
pub mod webhook {
    pub use informer_runtime::webhook::{
        AdmissionOperation, AdmissionRequest, AdmissionUser, Allowed, Conversion, Defaulter, Denied,
        FailurePolicy, RegisteredWebhook, UndecodableObject, Validator, WebhookConfigurations,
        WebhookOptions, WebhookServer,
    };
}
