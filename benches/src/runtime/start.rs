//! Measures the start of a manager with controllers of twenty kinds, and of the same informers without a
//! manager.

use std::sync::Arc;
use std::time::Duration;

use informer::cache::SharedInformerFactory;
use informer::cache::handler::on_event;
use informer::client::Client;
use informer::runtime::{Controller, KubeObject, Manager, Outcome, ResourceKind};
use informer_apiserver::ApiServer;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
    ServiceAccount,
};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout};

use crate::{Failure, Figures};

const OBJECTS: usize = 500;
/// The number of rounds of the two measurements, which alternate. The median of each measurement is reported.
const ROUNDS: usize = 9;
const PATIENCE: Duration = Duration::from_secs(30);

macro_rules! each_kind {
    ($do:ident, $($argument:expr),*) => {
        each_kind!(@ $do, ($($argument),*), ConfigMap, CronJob, DaemonSet, Deployment, Endpoints, Ingress, Job, Namespace,
            NetworkPolicy, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicaSet, Role, RoleBinding, Secret, Service,
            ServiceAccount, StatefulSet)
    };
    (@ $do:ident, $arguments:tt, $($kind:ty),+) => {
        [$(each_kind!(# $do, $kind, $arguments)),+]
    };
    (# $do:ident, $kind:ty, ($($argument:expr),*)) => {
        $do::<$kind>($($argument),*)
    };
}

pub(crate) async fn measure() -> Result<Figures, Failure> {
    let server = ApiServer::builder().build();
    for loaded in each_kind!(load, &server) {
        loaded?;
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(informers(&server).await?);
        with.push(manager(&server).await?);
    }
    let (with, without) = (median(with), median(without));
    let figures = [
        ("manager start, controllers of 20 kinds, ms", with),
        ("20 informers started together, ms", without),
        ("manager start / the same 20 informers", with / without),
    ];
    Ok(figures.map(|(case, figure)| (case.to_owned(), figure.into())).into_iter().collect())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn load<K: KubeObject>(server: &ApiServer) -> Result<usize, Failure> {
    let kind = ResourceKind::of::<K>();
    let object = |number| {
        let mut object =
            json!({"metadata": {"name": format!("object-{number}"), "labels": {"app": "bench"}}});
        if !kind.is_cluster_scoped() {
            object["metadata"]["namespace"] = json!("default");
        }
        object
    };
    Ok(server.raw().load(&kind.gvr(), (0..OBJECTS).map(object))?)
}

fn client(server: &ApiServer) -> Client {
    Client::from_service(server.service(), "default")
}

/// Starts an informer of each kind without a manager. Returns the milliseconds from the start until every
/// handler has received every object.
async fn informers(server: &ApiServer) -> Result<f64, Failure> {
    let factory = SharedInformerFactory::new(client(server));
    let begin = Instant::now();
    let registrations = each_kind!(informer, &factory);
    factory.start();
    factory.wait_for_cache_sync(PATIENCE).await?;
    for registration in registrations {
        registration?.wait_for_sync(PATIENCE).await?;
    }
    let took = begin.elapsed();
    factory.shutdown().await;
    Ok(took.as_secs_f64() * 1e3)
}

/// The registration of a handler with an informer of any kind: a future that completes when the handler is
/// synced.
struct Registration(futures_util::future::BoxFuture<'static, Result<(), Failure>>);

impl Registration {
    async fn wait_for_sync(self, _: Duration) -> Result<(), Failure> {
        self.0.await
    }
}

fn informer<K: KubeObject>(factory: &SharedInformerFactory) -> Result<Registration, Failure> {
    let informer = factory.informer::<K>();
    let registration = informer.add_handler(on_event(|event| {
        std::hint::black_box(event.key());
    }))?;
    Ok(Registration(Box::pin(async move { Ok(registration.wait_for_sync(PATIENCE).await?) })))
}

/// Starts a manager with a controller of each kind. Returns the milliseconds from the start until every
/// controller reconciles. Each reconcile blocks until then, because the work of controllers is not part of
/// their start.
async fn manager(server: &ApiServer) -> Result<f64, Failure> {
    let begin = Instant::now();
    let mut manager = Manager::new(client(server));
    let (works, mut working) = unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let controllers = each_kind!(controller, &works, &gate);
    let kinds = controllers.len();
    for controller in controllers {
        manager = manager.controller(controller);
    }
    let stop = manager.handle();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    for _ in 0..kinds {
        timeout(PATIENCE, working.recv()).await?.ok_or("the manager ended")?;
    }
    let took = begin.elapsed();
    gate.close();
    stop.stop();
    running.await??;
    Ok(took.as_secs_f64() * 1e3)
}

/// Returns a controller that reports its first reconcile through `works`. The reconcile then blocks until the
/// semaphore `gate` is closed.
fn controller<K: KubeObject>(works: &UnboundedSender<()>, gate: &Arc<Semaphore>) -> Controller {
    let name = ResourceKind::of::<K>().gvk().kind.to_lowercase();
    let (works, gate) = (works.clone(), Arc::clone(gate));
    Controller::new::<K>(name).reconcile(move |_, _| {
        let _ = works.send(());
        let gate = Arc::clone(&gate);
        async move {
            let _ = gate.acquire().await;
            Ok(Outcome::Done)
        }
    })
}
