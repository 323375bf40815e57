//! A typical controller of kube-rs: a derived kind that owns Deployments, with status, finalizer, server-side
//! apply and events. The program prints its results. Nothing in it depends on whether the server is the
//! embedded one or a real one.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, finalizer, watcher};
use kube::{Api, Client, Config, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Timeout of a step that waits for the server or the controller. kube-controller-manager discovers new kinds
/// every 30 s, and collects the objects that they own after that.
const PATIENCE: Duration = Duration::from_secs(90);
const MANAGER: &str = "gardens-controller";
const FINALIZER: &str = "kube-rs.example.com/garden";

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// The spec of a `Garden` object: the desired state.
#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "kube-rs.example.com", version = "v1", kind = "Garden", namespaced, status = "GardenStatus")]
#[kube(shortname = "gdn", printcolumn(name = "Plants", type_ = "integer", json_path = ".spec.plants"))]
#[kube(selectable = ".spec.soil")]
struct GardenSpec {
    #[schemars(range(min = 0, max = 100))]
    plants: i32,
    #[serde(default = "clay")]
    soil: String,
}

fn clay() -> String {
    "clay".to_owned()
}

/// The status of a `Garden` object: the actual state.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct GardenStatus {
    planted: i32,
    observed_generation: i64,
}

struct Context {
    client: Client,
    recorder: Recorder,
    /// The names of the gardens whose cleanup ran. A cleanup can run more than once, since the controller may
    /// reconcile a garden again before its watch shows the deletion.
    cleaned: Mutex<BTreeSet<String>>,
}

#[derive(Debug, thiserror::Error)]
enum ReconcileError {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error(transparent)]
    Finalizer(#[from] Box<finalizer::Error<ReconcileError>>),
}

async fn reconcile(garden: Arc<Garden>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    let api: Api<Garden> = Api::namespaced(context.client.clone(), &garden.namespace().unwrap_or_default());
    let work = async |event| match event {
        finalizer::Event::Apply(garden) => apply(&garden, &context).await,
        finalizer::Event::Cleanup(garden) => {
            context.cleaned.lock().unwrap_or_else(PoisonError::into_inner).insert(garden.name_any());
            Ok(Action::await_change())
        }
    };
    finalizer(&api, FINALIZER, garden, work).await.map_err(|error| Box::new(error).into())
}

async fn apply(garden: &Garden, context: &Context) -> Result<Action, ReconcileError> {
    let namespace = garden.namespace().unwrap_or_default();
    let name = garden.name_any();
    let labels = json!({"garden": name});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "ownerReferences": [garden.controller_owner_ref(&())]},
        "spec": {
            "replicas": garden.spec.plants,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "plant", "image": "registry.example.com/plant:1"}]},
            },
        },
    });
    let deployments: Api<Deployment> = Api::namespaced(context.client.clone(), &namespace);
    deployments.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&deployment)).await?;
    let planted = garden.status.as_ref().is_some_and(|status| status.planted == garden.spec.plants);
    if !planted {
        let event = Event {
            type_: EventType::Normal,
            reason: "Planted".to_owned(),
            note: Some(format!("{} plants", garden.spec.plants)),
            action: "Planting".to_owned(),
            secondary: None,
        };
        context.recorder.publish(&event, &garden.object_ref(&())).await?;
    }
    let status = GardenStatus {
        planted: garden.spec.plants,
        observed_generation: garden.metadata.generation.unwrap_or_default(),
    };
    let gardens: Api<Garden> = Api::namespaced(context.client.clone(), &namespace);
    let patch = Patch::Merge(json!({"status": status}));
    gardens.patch_status(&name, &PatchParams::default(), &patch).await?;
    Ok(Action::requeue(Duration::from_secs(300)))
}

struct User {
    client: Client,
    namespace: String,
    gardens: Api<Garden>,
    deployments: Api<Deployment>,
    definitions: Api<CustomResourceDefinition>,
    context: Arc<Context>,
}

#[tokio::main]
async fn main() -> Outcome {
    let path = std::env::args().nth(1).ok_or("the argument with the kubeconfig is missing")?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?;
    let user = User::new(Client::try_from(config)?);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut verdict = Verdict::default();
    verdict.step("a derived CRD is created by server-side apply", user.define()).await;
    let running = tokio::spawn({
        let controller = Controller::new(user.gardens.clone(), watcher::Config::default())
            .owns(user.deployments.clone(), watcher::Config::default())
            .graceful_shutdown_on(async { drop(stopped.await) });
        let policy = |_: Arc<Garden>, _: &ReconcileError, _: Arc<Context>| Action::requeue(Duration::from_secs(1));
        let outcomes = controller.run(reconcile, policy, Arc::clone(&user.context));
        outcomes.filter_map(async |outcome| outcome.err().map(|error| error.to_string())).collect::<Vec<String>>()
    });
    verdict.step("a garden gets a deployment, a finalizer and a status", user.create()).await;
    verdict.step("a deleted or changed deployment is restored", user.repair()).await;
    verdict.step("a garden is scaled", user.scale()).await;
    verdict.step("an invalid garden is rejected", user.refused()).await;
    verdict.step("field and label selectors work", user.select()).await;
    verdict.step("an event was recorded", user.recorded()).await;
    verdict.step("a deleted garden is finalized, and its deployment is garbage collected", user.delete()).await;
    verdict
        .step("the controller stops, and reported only conflicts and missing objects", async {
            let _ = stop.send(());
            let errors = tokio::time::timeout(PATIENCE, running).await??;
            // Only these errors are expected: two writers of one object conflict, and a deleted object may
            // still be in the queue.
            let expected = ["Conflict", "NotFound", "not found in local store"];
            let odd = errors.into_iter().find(|error| !expected.iter().any(|part| error.contains(part)));
            odd.map_or(Ok(()), |error| Err(error.into()))
        })
        .await;
    verdict.step("CRD and namespace are deleted", user.leave()).await;
    println!("{}", serde_json::to_string(&verdict)?);
    Ok(())
}

impl User {
    fn new(client: Client) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let namespace = format!("kube-rs-{:x}", now.as_micros() & 0xff_ffff);
        let reporter = Reporter { controller: MANAGER.to_owned(), instance: None };
        let recorder = Recorder::new(client.clone(), reporter);
        Self {
            gardens: Api::namespaced(client.clone(), &namespace),
            deployments: Api::namespaced(client.clone(), &namespace),
            definitions: Api::all(client.clone()),
            context: Arc::new(Context { client: client.clone(), recorder, cleaned: Mutex::default() }),
            client,
            namespace,
        }
    }

    async fn define(&self) -> Outcome {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": self.namespace}}))?;
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await?;
        let (name, patch) = (Garden::crd_name(), Patch::Apply(Garden::crd()));
        self.definitions.patch(name, &PatchParams::apply(MANAGER), &patch).await?;
        let established = await_condition(self.definitions.clone(), name, conditions::is_crd_established());
        tokio::time::timeout(PATIENCE, established).await??;
        Ok(())
    }

    async fn create(&self) -> Outcome {
        let garden: Garden = serde_json::from_value(json!({
            "apiVersion": Garden::api_version(&()), "kind": Garden::kind(&()),
            "metadata": {"name": "front", "labels": {"made": "by-hand"}}, "spec": {"plants": 2},
        }))?;
        let made = self.gardens.create(&PostParams::default(), &garden).await?;
        want("a default of the schema", &*made.spec.soil, "clay")?;
        until(async || {
            let deployment = self.deployments.get("front").await?;
            want("replicas", replicas(&deployment), Some(2))?;
            let garden = self.gardens.get("front").await?;
            want("finalizers", garden.finalizers(), &[FINALIZER.to_owned()])?;
            want("owner", deployment.owner_references().first().map(|owner| &owner.uid), garden.metadata.uid.as_ref())?;
            let status = garden.status.unwrap_or_default();
            want("status", (status.planted, status.observed_generation), (2, 1))
        })
        .await
    }

    async fn repair(&self) -> Outcome {
        let uid = self.deployments.get("front").await?.uid();
        self.deployments.delete("front", &DeleteParams::background()).await?;
        until(async || {
            let again = self.deployments.get("front").await?;
            want("a new uid", again.uid() != uid, true)
        })
        .await?;
        let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
        self.deployments.patch("front", &PatchParams::default(), &patch).await?;
        until(async || want("replicas", replicas(&self.deployments.get("front").await?), Some(2))).await
    }

    async fn scale(&self) -> Outcome {
        let mut garden = self.gardens.get("front").await?;
        garden.spec.plants = 3;
        // The controller may have changed the object in the meantime, so each attempt starts from the newest
        // state.
        until(async || {
            let mut fresh = self.gardens.get("front").await?;
            fresh.spec.plants = garden.spec.plants;
            self.gardens.replace("front", &PostParams::default(), &fresh).await?;
            Ok(())
        })
        .await?;
        until(async || {
            want("replicas", replicas(&self.deployments.get("front").await?), Some(3))?;
            let garden = self.gardens.get("front").await?;
            let (generation, status) = (garden.metadata.generation, garden.status.unwrap_or_default());
            want("status", (status.planted, Some(status.observed_generation)), (3, generation))
        })
        .await
    }

    async fn refused(&self) -> Outcome {
        let garden = Garden::new("huge", GardenSpec { plants: 1000, soil: clay() });
        let refused = self.gardens.create(&PostParams::default(), &garden).await;
        let code = |error| match error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        };
        want("status of a garden of 1000", refused.err().map(code), Some(422))?;
        want("status of a missing garden", self.gardens.get("nobody").await.err().map(code), Some(404))
    }

    async fn select(&self) -> Outcome {
        let sandy = Garden::new("back", GardenSpec { plants: 0, soil: "sand".to_owned() });
        self.gardens.create(&PostParams::default(), &sandy).await?;
        for (parameters, name) in [
            (ListParams::default().labels("made in (by-hand)"), "front"),
            (ListParams::default().fields("spec.soil=sand"), "back"),
        ] {
            let found = self.gardens.list(&parameters).await?;
            want("gardens", found.iter().map(ResourceExt::name_any).collect(), vec![name.to_owned()])?;
        }
        let metadata = self.gardens.list_metadata(&ListParams::default().limit(1)).await?;
        want("more pages", (metadata.items.len(), metadata.metadata.continue_.is_some()), (1, true))
    }

    async fn recorded(&self) -> Outcome {
        use k8s_openapi::api::events::v1::Event;
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        until(async || {
            let found = events.list(&ListParams::default()).await?;
            let ours = |event: &&Event| {
                event.reason.as_deref() == Some("Planted") && event.reporting_controller.as_deref() == Some(MANAGER)
            };
            want("events", found.iter().find(ours).is_some(), true)
        })
        .await
    }

    async fn delete(&self) -> Outcome {
        for name in ["front", "back"] {
            self.gardens.delete(name, &DeleteParams::default()).await?;
        }
        until(async || {
            for name in ["front", "back"] {
                want("gardens", self.gardens.get_opt(name).await?.map(|garden| garden.name_any()), None)?;
                want("deployments", self.deployments.get_opt(name).await?.map(|left| left.name_any()), None)?;
            }
            Ok(())
        })
        .await?;
        let cleaned = self.context.cleaned.lock().unwrap_or_else(PoisonError::into_inner).clone();
        want("cleaned up", cleaned, ["back", "front"].map(str::to_owned).into())
    }

    async fn leave(&self) -> Outcome {
        self.definitions.delete(Garden::crd_name(), &DeleteParams::default()).await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let uid = namespaces.get(&self.namespace).await?.uid().unwrap_or_default();
        namespaces.delete(&self.namespace, &DeleteParams::default()).await?;
        let gone = await_condition(namespaces, &self.namespace, conditions::is_deleted(&uid));
        tokio::time::timeout(PATIENCE, gone).await??;
        Ok(())
    }
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.replicas
}

fn want<T: PartialEq + std::fmt::Debug>(what: &str, have: T, want: T) -> Outcome {
    if have == want { Ok(()) } else { Err(format!("{what}: {have:?} instead of {want:?}").into()) }
}

/// Repeats a request until it succeeds. Fails with the last error when the timeout of a step has passed.
async fn until(ask: impl AsyncFn() -> Outcome) -> Outcome {
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > PATIENCE => return Err(format!("not successful within {PATIENCE:?}: {error}").into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

#[derive(Default, Serialize)]
struct Verdict {
    steps: Vec<Value>,
    figures: Value,
}

impl Verdict {
    async fn step(&mut self, name: &str, work: impl Future<Output = Outcome>) {
        let began = Instant::now();
        let failure = work.await.err().map(|error| error.to_string());
        self.steps.push(json!({"name": name, "failure": failure, "seconds": began.elapsed().as_secs_f64()}));
    }
}
