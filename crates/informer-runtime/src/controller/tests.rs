mod build;
mod lifecycle;
mod logs;
mod metrics;
mod panics;
mod results;
mod sources;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use informer_apiserver::ApiServer;
use informer_client::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::run::Environment;
use super::*;
use crate::{BoxError, Request, Runnable, Services, source};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn environment() -> Environment {
    let server = ApiServer::builder().build();
    let client = Client::from_service(server.service(), "default");
    let (_, recorder) = crate::events::EventSender::new(client.clone());
    let services = Services::new(crate::CachedClient::new(&crate::Cache::new(client)), recorder);
    Environment { services, defaults: ControllerDefaults::default(), metrics: None }
}

fn key(text: &str) -> Request {
    text.parse().unwrap()
}

fn of(keys: &'static [(&'static str, i32)]) -> impl source::Source<Request> {
    source::function("keys", move |enqueuer| async move {
        for (text, priority) in keys {
            enqueuer.enqueue(*priority).add(key(text));
        }
        Ok(())
    })
}

/// Records which keys were reconciled and when, relative to the beginning of the test.
#[derive(Clone)]
struct Calls {
    begin: Instant,
    list: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Calls {
    fn new() -> Self {
        Self { begin: Instant::now(), list: Arc::default() }
    }

    /// Records a reconcile of the request, and returns the number of earlier reconciles of its key.
    fn note(&self, request: &Request) -> usize {
        let mut list = self.list.lock();
        let before = list.iter().filter(|(key, _)| *key == request.to_string()).count();
        list.push((request.to_string(), self.begin.elapsed()));
        before
    }

    fn keys(&self) -> Vec<String> {
        self.list.lock().iter().map(|(key, _)| key.clone()).collect()
    }

    fn times(&self, key: &str) -> Vec<Duration> {
        self.list.lock().iter().filter(|(other, _)| other == key).map(|(_, at)| *at).collect()
    }

    /// Returns the intervals between the reconciles of a key, in milliseconds.
    fn pauses(&self, key: &str) -> Vec<u128> {
        self.times(key).windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect()
    }
}

struct Running {
    handle: ControllerHandle,
    stop: CancellationToken,
    task: JoinHandle<Result<(), BoxError>>,
}

impl Running {
    fn start(controller: Controller) -> Self {
        Self::start_in(environment(), controller)
    }

    fn start_in(environment: Environment, controller: Controller) -> Self {
        let handle = controller.handle();
        let runnable = controller.assemble(environment).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(Box::new(runnable).run(stop.clone()));
        Self { handle, stop, task }
    }

    fn state(&self) -> ControllerState {
        self.handle.state().unwrap()
    }

    async fn stop(self) -> Result<(), String> {
        self.stop.cancel();
        self.ended().await
    }

    async fn ended(self) -> Result<(), String> {
        self.task.await.unwrap().map_err(|error| error.to_string())
    }
}

/// Returns a controller that reconciles the given keys. Each reconcile calls the function `script` with the
/// key and the number of earlier reconciles of this key.
fn scripted(
    keys: &'static [(&'static str, i32)],
    calls: &Calls,
    script: impl Fn(&str, usize) -> Result<Outcome, ReconcileError> + Send + Sync + 'static,
) -> Controller {
    let (calls, script) = (calls.clone(), Arc::new(script));
    Controller::builder().named("test").source(of(keys)).reconcile(move |request: Request, _| {
        let (calls, script) = (calls.clone(), Arc::clone(&script));
        async move {
            let before = calls.note(&request);
            script(&request.to_string(), before)
        }
    })
}
