//! The cases of informers. The responses of the API server are recorded before they are counted; see
//! [`replay`](crate::replay).

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use informer::Object;
use informer::cache::{HandlerRegistration, InformerRun, SharedInformer, label, on_event};
use informer::client::{Client, Dynamic, KubeListWatch, Lazy, Representation, ResourceKind};
use informer_apiserver::{ApiServer, Controllers, FaultMatch};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::arguments::Kind;
use crate::count::{Counter, WorkCount};
use crate::replay::{Recorder, Replay};
use crate::server::{SEED, api_server};
use crate::{Failure, objects};

/// The number of objects on the server.
const OBJECTS: usize = 500;
const EVENTS: usize = 400;
const LOOKUPS: usize = 100_000;
const INDEX_READS: usize = 10_000;
/// The label that all pods of a workload have in common, and no others.
const TEMPLATE: &str = "pod-template-hash";
/// The timeout of a sync, in the paused time of the runtime.
const MAX_SYNC: Duration = Duration::from_secs(60);
/// A time within which an informer processes everything that it has received, and repeats requests that
/// failed. Paused time advances only when all tasks wait, so this takes no real time.
const SETTLE: Duration = Duration::from_secs(30);

pub(crate) fn sync_protobuf(counter: &Counter) -> Result<WorkCount, Failure> {
    sync::<Lazy<Pod>>(counter, &pods())
}

pub(crate) fn sync_json(counter: &Counter) -> Result<WorkCount, Failure> {
    sync::<Dynamic>(counter, &ResourceKind::new(objects::GROUP, "v1", "Widget", "widgets"))
}

fn sync<O: Representation>(counter: &Counter, kind: &ResourceKind) -> Result<WorkCount, Failure> {
    let replay = counter.set_up(record::<O>(kind, async |_, _| Ok(())))?;
    let observed = Observed::<O>::new(&replay, kind)?;
    let (run, count) = counter.count(OBJECTS, async {
        let run = observed.informer.start();
        observed.registration.wait_for_sync(MAX_SYNC).await.map(|()| run)
    });
    counter.set_up(run?.stop());
    observed.check_events(OBJECTS)?;
    Ok(count)
}

pub(crate) fn relist(counter: &Counter) -> Result<WorkCount, Failure> {
    let replay = counter.set_up(record::<Lazy<Pod>>(&pods(), async |api, _| {
        api.faults().on(FaultMatch::watch("pods")).times(1).expire();
        api.disconnect_watchers();
        tokio::time::sleep(SETTLE).await;
        Ok(())
    }))?;
    let (observed, run) = counter.set_up(synced(&replay))?;
    let lists = || observed.informer.reflector_status().relists.total();
    let before = lists();
    let ((), count) = counter.count(OBJECTS, async {
        replay.release(OBJECTS);
        tokio::time::sleep(SETTLE).await;
    });
    if lists() != before + 1 {
        return Err(format!("{} relists instead of one", lists() - before).into());
    }
    counter.set_up(run.stop());
    observed.check_events(0)?;
    Ok(count)
}

pub(crate) fn event(counter: &Counter) -> Result<WorkCount, Failure> {
    let replay = counter.set_up(record(&pods(), async |api, observed: &Observed<Lazy<Pod>>| {
        let gvr = pods().gvr();
        for n in 0..EVENTS {
            let namespace = objects::namespace_of(Kind::Pod, n);
            let mut pod = api.get(&gvr, &namespace, &objects::name_of(n))?;
            pod["metadata"]["labels"]["bench-sent"] = format!("n{n:07}").into();
            api.raw().update(&gvr, &namespace, pod)?;
            observed.heard.acquire().await?.forget();
        }
        Ok(())
    }))?;
    let (observed, run) = counter.set_up(synced(&replay))?;
    let (done, count) = counter.count(EVENTS, async {
        for _ in 0..EVENTS {
            replay.release(1);
            observed.heard.acquire().await?.forget();
        }
        Ok::<_, Failure>(())
    });
    done?;
    counter.set_up(run.stop());
    observed.check_events(0)?;
    Ok(count)
}

pub(crate) fn lookup(counter: &Counter) -> Result<WorkCount, Failure> {
    let replay = counter.set_up(record::<Lazy<Pod>>(&pods(), async |_, _| Ok(())))?;
    let (observed, _run) = counter.set_up(synced(&replay))?;
    let keys: Vec<_> = (0..OBJECTS).map(|n| objects::key(Kind::Pod, n)).collect();
    let lister = observed.informer.lister();
    let (found, count) = counter.count(LOOKUPS, async {
        keys.iter().cycle().take(LOOKUPS).filter(|key| black_box(lister.get(*key)).is_ok()).count()
    });
    if found != LOOKUPS {
        return Err(format!("{found} of {LOOKUPS} keys found").into());
    }
    Ok(count)
}

pub(crate) fn index(counter: &Counter) -> Result<WorkCount, Failure> {
    let replay = counter.set_up(record::<Lazy<Pod>>(&pods(), async |_, _| Ok(())))?;
    let (observed, _run) = counter.set_up(synced(&replay))?;
    let informer = observed.informer.index("template", label(TEMPLATE));
    let pods = informer.snapshot().list();
    let mut values: Vec<_> = pods.iter().filter_map(|pod| pod.labels().get(TEMPLATE)).collect();
    values.sort_unstable();
    values.dedup();
    let (found, count) = counter.count(INDEX_READS, async {
        let values = values.iter().cycle().take(INDEX_READS);
        values
            .filter_map(|value| black_box(informer.by_index("template", value)).ok())
            .map(|pods| pods.len())
            .sum::<usize>()
    });
    let expected = INDEX_READS * OBJECTS / values.len();
    if found != expected {
        return Err(format!("{found} pods found in the index instead of {expected}").into());
    }
    Ok(count)
}

fn pods() -> ResourceKind {
    ResourceKind::new("", "v1", "Pod", "pods")
}

/// Returns an object of the kind, with the body of a pod.
fn object(kind: &ResourceKind, n: usize) -> Value {
    let mut object = objects::object(Kind::Pod, SEED, n);
    object["apiVersion"] = kind.gvk().api_version().into();
    object["kind"] = kind.kind().into();
    object
}

/// Records an informer's initial sync, and then the responses that it receives while `after` runs. The latter
/// are replayed on demand.
async fn record<O: Representation>(
    kind: &ResourceKind,
    after: impl AsyncFnOnce(&ApiServer, &Observed<O>) -> Result<(), Failure>,
) -> Result<Replay, Failure> {
    // The garbage collector would delete the pods, because their owners do not exist.
    let api = api_server(Controllers::NONE)?;
    api.raw().load(&kind.gvr(), (0..OBJECTS).map(|n| object(kind, n)))?;
    let recorder = Recorder::new(api.service());
    let observed = Observed::<O>::of(&Client::from_service(recorder.clone(), "default"), kind)?;
    let run = observed.sync().await?;
    recorder.mark();
    after(&api, &observed).await?;
    run.stop().await;
    observed.check_events(0)?;
    Ok(recorder.replay())
}

/// Returns an informer of pods that has processed the replayed initial sync.
async fn synced(replay: &Replay) -> Result<(Observed<Lazy<Pod>>, InformerRun), Failure> {
    let observed = Observed::new(replay, &pods())?;
    let run = observed.sync().await?;
    Ok((observed, run))
}

/// An informer with one handler, which counts events.
struct Observed<O: Representation> {
    informer: SharedInformer<O>,
    registration: HandlerRegistration<O>,
    /// Has a permit for each event of the handler.
    heard: Arc<Semaphore>,
}

impl<O: Representation> Observed<O> {
    fn new(replay: &Replay, kind: &ResourceKind) -> Result<Self, Failure> {
        Self::of(&Client::from_service(replay.clone(), "default"), kind)
    }

    fn of(client: &Client, kind: &ResourceKind) -> Result<Self, Failure> {
        let informer = SharedInformer::new(KubeListWatch::<O>::of(client, kind.clone()));
        let heard = Arc::new(Semaphore::new(0));
        let handler = on_event({
            let heard = Arc::clone(&heard);
            move |event| {
                black_box(event.key());
                heard.add_permits(1);
            }
        });
        let registration = informer.add_handler(handler)?;
        Ok(Self { informer, registration, heard })
    }

    /// Starts the informer, and waits until its handler has received all objects and the watch is open.
    async fn sync(&self) -> Result<InformerRun, Failure> {
        let run = self.informer.start();
        self.registration.wait_for_sync(MAX_SYNC).await?;
        tokio::time::sleep(SETTLE).await;
        self.check_events(OBJECTS)?;
        Ok(run)
    }

    /// Returns an error if the handler has not received this number of events since the last call.
    fn check_events(&self, expected: usize) -> Result<(), Failure> {
        let events = self.heard.forget_permits(usize::MAX);
        if events == expected { Ok(()) } else { Err(format!("{events} events instead of {expected}").into()) }
    }
}
