//! The custom controller pattern of client-go: handlers add keys to a queue, and workers reconcile them.
//! See `README.md` in this folder.

use informer::cache::{SharedInformer, SharedInformerFactory, label};
use informer::client::Lazy;
use informer::workqueue::{WorkOutcome, WorkQueue, Workers};
use informer::{Object, ObjectKey};
use informer_examples::{Error, PATIENCE, Result, connect};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;

/// The maximum number of retries of a key whose reconcile fails.
const MAX_RETRIES: u32 = 3;

#[derive(Clone)]
struct Controller {
    deployments: SharedInformer<Lazy<Deployment>>,
    pods: SharedInformer<Lazy<Pod>>,
}

impl Controller {
    /// Compares one Deployment with its pods. The function is idempotent and reads only the cache, so its
    /// result does not depend on the events that caused the call.
    async fn reconcile(self, key: ObjectKey) -> Result<WorkOutcome> {
        let Some(deployment) = self.deployments.indexer().get(&key) else {
            println!("  {key} is deleted");
            return Ok(WorkOutcome::Done);
        };
        let want = deployment.get()?.spec.replicas.unwrap_or(1);
        let pods = self.pods.by_index("app", key.name())?;
        let have = pods.iter().filter(|pod| pod.key().namespace() == key.namespace()).count();
        if key.name() == "db" {
            // Simulate an error that persists for one Deployment. After the first attempt and `MAX_RETRIES`
            // retries, the workers give up its key until the object changes again.
            return Err(Error::from("the database operator cannot be reached"));
        }
        println!("  {key} wants {want} pods and has {have}");
        Ok(WorkOutcome::Done)
    }
}

/// Runs the controller while the example changes pods, and until the queue contains no more keys.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let (client, cluster) = connect().await?;
    let factory = SharedInformerFactory::new(client);
    let deployments = factory.informer::<Deployment>();
    let pods = factory.informer::<Pod>().index("app", label("app"));
    let controller = Controller { deployments: deployments.clone(), pods: pods.clone() };

    // The handlers only add keys to the queue: the key of a changed Deployment, or of the Deployment that a
    // changed pod belongs to.
    let queue = WorkQueue::<ObjectKey>::new();
    let keys = queue.clone();
    deployments.on_event(move |event| {
        keys.add(event.key().clone());
    })?;
    let keys = queue.clone();
    let owners = pods.on_event(move |event| {
        let (pod, namespace) = (event.object(), event.key().namespace().unwrap_or_default());
        let owner = pod.labels().get("app").and_then(|app| ObjectKey::new(namespace, app).ok());
        if let Some(owner) = owner {
            keys.add(owner);
        }
    })?;

    // The workers start after the caches are synced. With an empty cache, every object would seem deleted.
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;
    owners.wait_for_sync(PATIENCE).await?;
    let workers = Workers::new(queue.clone())
        .count(2)
        .max_retries(MAX_RETRIES)
        .on_failure(|key, failure| println!("  {key}: {failure}"))
        .run_until(cluster.change_for_a_while(), move |key| controller.clone().reconcile(key));
    let report = workers.await;
    println!("{} done, {} retried, {} given up", report.done, report.retried, report.given_up);
    factory.shutdown().await;
    Ok(())
}
