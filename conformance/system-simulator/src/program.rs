//! A program under test: a client with its cache, and the views (informers) of its kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informer_cache::reflector::ReflectorConfig;
use informer_client::{Dynamic, Encodings, Lazy, Metadata, Packed, ReadOptions, StreamingLists, Typed};
use informer_core::{FieldSelector, LabelSelector};
use informer_runtime::{Cache, CachedClient, InformerOptions, Next, Operation, ResourceKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::Value;

use crate::actor::{Actor, TypedActor};
use crate::check::Checks;
use crate::cluster::{Cluster, PROGRAM_AGENT};
use crate::intent::Intents;
use crate::sample::{Fruit, Sample};
use crate::scenario::{KindSetup, ProgramSetup, Representation, Scope, Selected};
use crate::trace::Trace;
use crate::view::{Content, Selection, TRANSFORMED, TypedView, View};

/// How long a read waits for the informer to sync, and how long stopping a cache waits for its tasks.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) cluster: Cluster,
    pub(crate) trace: Trace,
    pub(crate) checks: Checks,
    pub(crate) intents: Intents,
}

pub(crate) struct KindOfProgram {
    pub(crate) view: Arc<dyn View>,
    pub(crate) actor: Arc<dyn Actor>,
}

pub(crate) struct Program {
    pub(crate) cache: Cache,
    pub(crate) kinds: Vec<KindOfProgram>,
}

impl Program {
    pub(crate) fn start(index: usize, setup: &ProgramSetup, shared: &Shared) -> Self {
        let agent = format!("{PROGRAM_AGENT}-{index}");
        let api = informer_client::Client::from_service(shared.cluster.transport(&agent), "a");
        let [config_map, pod, deployment, fruit] = &setup.kinds;
        let mut builder = Cache::builder(api).read_timeout(READ_TIMEOUT);
        if let Scope::Namespaces(count) = setup.scope {
            builder = builder.namespaces(crate::sample::NAMESPACES[..count].iter().copied());
        }
        builder = configured::<ConfigMap>(builder, config_map, setup);
        builder = configured::<Pod>(builder, pod, setup);
        builder = configured::<Deployment>(builder, deployment, setup);
        builder = configured::<Fruit>(builder, fruit, setup);
        let cache = builder.build();
        let mut client = CachedClient::builder(&cache).cache_dynamic(true).build();
        if setup.intercepted {
            client = client.intercept(|operation: Operation, next: Next| next.run(operation));
        }
        let opening = Opening { agent, cache: cache.clone(), client, shared, setup };
        let kinds = vec![
            opening.kind::<ConfigMap>(config_map),
            opening.kind::<Pod>(pod),
            opening.kind::<Deployment>(deployment),
            opening.kind::<Fruit>(fruit),
        ];
        cache.start();
        Self { cache, kinds }
    }
}

fn configured<K: Sample>(
    builder: informer_runtime::CacheBuilder,
    kind: &KindSetup,
    setup: &ProgramSetup,
) -> informer_runtime::CacheBuilder {
    let resource = ResourceKind::of::<K>();
    let (labels, fields) = selectors::<K>(kind);
    let mut reflector = ReflectorConfig::default();
    reflector.page_size = setup.page_size;
    reflector.seed = Some(setup.seed);
    if setup.hook_panics {
        let errors = AtomicU64::new(0);
        reflector.on_error = Some(Arc::new(move |_| {
            let count = errors.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(!count.is_multiple_of(3), "simulated: the handler of watch errors panics");
        }));
    }
    let read = ReadOptions {
        encodings: if setup.json { Encodings::Json } else { Encodings::default() },
        ..ReadOptions::default()
    };
    let options = InformerOptions::default()
        .labels(labels)
        .fields(fields)
        .read_options(read)
        .reflector(reflector)
        .streaming_lists(if setup.streaming { StreamingLists::Auto } else { StreamingLists::Off });
    let options = match setup.resync_seconds {
        0 => options,
        seconds => options.resync(Duration::from_secs(seconds)),
    };
    let options = if setup.transformed { options.transform(transformed::<K>) } else { options };
    let builder = builder.kind_of(&resource, options);
    match kind.representation {
        Representation::Typed => builder.pin_representation::<Typed<K>>(&resource),
        Representation::Packed => builder.pin_representation::<Packed<K>>(&resource),
        _ => builder,
    }
}

/// The transform of lazy objects. It counts in an annotation how often it has processed the object; the count
/// must be 1.
fn transformed<K: Sample>(object: Arc<Lazy<K>>) -> Result<Arc<Lazy<K>>, informer_runtime::BoxError> {
    let mut value: Value = serde_json::from_str(&object.json()?)?;
    let annotations = &mut value["metadata"]["annotations"];
    let count: u64 = annotations[TRANSFORMED].as_str().map_or(Ok(0), str::parse)?;
    annotations[TRANSFORMED] = Value::from((count + 1).to_string());
    Ok(Arc::new(Lazy::from_json(&value.to_string())?))
}

fn selectors<K: Sample>(kind: &KindSetup) -> (LabelSelector, FieldSelector) {
    let labels = |text: &str| text.parse().expect("the selector is well formed");
    match (kind.selected, K::field_selector()) {
        (Selected::Labels, _) => (labels("app=web"), FieldSelector::default()),
        (Selected::Fields, Some(fields)) => {
            (LabelSelector::default(), fields.parse().expect("the selector is well formed"))
        }
        _ => (LabelSelector::default(), FieldSelector::default()),
    }
}

struct Opening<'a> {
    agent: String,
    cache: Cache,
    client: CachedClient,
    shared: &'a Shared,
    setup: &'a ProgramSetup,
}

impl Opening<'_> {
    fn kind<K: Sample>(&self, kind: &KindSetup) -> KindOfProgram {
        let view: Arc<dyn View> = match kind.representation {
            Representation::Lazy => self.view::<K, Lazy<K>>(kind),
            Representation::Typed => self.view::<K, Typed<K>>(kind),
            Representation::Packed => self.view::<K, Packed<K>>(kind),
            Representation::Dynamic => self.view::<K, Dynamic>(kind),
            Representation::Metadata => self.view::<K, Metadata<K>>(kind),
        };
        let actor = TypedActor::<K>::new(
            (self.agent.clone(), kind.representation),
            self.client.clone(),
            self.shared.clone(),
            view.selection().clone(),
        );
        KindOfProgram { view, actor: Arc::new(actor) }
    }

    fn view<K: Sample, O: Content<K>>(&self, kind: &KindSetup) -> Arc<dyn View> {
        let (labels, fields) = selectors::<K>(kind);
        let namespaces = match self.setup.scope {
            Scope::All => Vec::new(),
            Scope::Namespaces(count) => {
                crate::sample::NAMESPACES[..count].iter().map(|&name| name.to_owned()).collect()
            }
        };
        let transformed = self.setup.transformed && kind.representation == Representation::Lazy;
        let selection = Selection { namespaces, labels, fields, transformed };
        let name = format!("{} {:?} {}", self.agent, kind.representation, K::plural(&()));
        let informer = self.cache.informer_of::<O>(ResourceKind::of::<K>());
        Arc::new(TypedView::<K, O>::new(name, informer, selection, &self.shared.checks))
    }
}
