//! Waits of tests until an object on the test server has an expected state.

mod report;

use std::panic::Location;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select;
use informer_client::StaticResource;
use informer_core::deadline::MAX_WAIT;
use informer_core::{Gvr, ObjectKey};
use k8s_openapi::serde::de::DeserializeOwned;
use kube_core::Resource;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::failures::Managers;
use super::{Expectation, TestServer, gvr};

/// The default timeout of [`TestServer::eventually`], in the time of tokio's clock. In paused time, the wait
/// takes no real time.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of changes of the object that [`TestServer::consistently`] evaluates each time it runs.
/// If more writes occur before the task of the test runs again, the oldest ones are not evaluated.
const MAX_CHANGES: usize = 1000;

impl TestServer {
    /// Returns a handle of the same server with another timeout for [`eventually`](Self::eventually).
    pub fn within(&self, timeout: Duration) -> Self {
        Self { wait_timeout: timeout, ..self.clone() }
    }

    /// Waits until the object with this key has the expected state, and returns it. The key is
    /// `NAMESPACE/NAME`, or `NAME` for a cluster-scoped kind.
    ///
    /// The wait evaluates the current state now and after each write to the server. It sends no request, so
    /// faults do not affect it and [`requests`](Self::requests) does not contain it. A state that another
    /// write replaces before this task runs may be missed.
    ///
    /// ```
    /// use informer::testing::{TestServer, absent, has_condition, has_field, pod};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = TestServer::start().await;
    /// server.create(&pod("default/web-0")).await?;
    /// let pod = server.eventually("default/web-0", |pod: &Pod| pod.metadata.uid.is_some()).await;
    /// server.eventually("default/web-0", has_field::<Pod>("spec.restartPolicy", "Always")).await;
    /// server.eventually("default/web-1", absent::<Pod>()).await;
    /// # assert_eq!(pod.metadata.name.as_deref(), Some("web-0"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics after the timeout: [`WAIT_TIMEOUT`], or that of [`within`](Self::within). The message has the
    /// expected and the last state of the object, its last changes, the last events about it, and the last
    /// requests with their status codes. If the object is missing, it has the keys that are most similar.
    /// Also panics if the key is invalid, and as soon as a manager that this server [runs](Self::run) has
    /// failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect, because this method only waits.
    #[track_caller]
    pub fn eventually<K, E>(&self, key: &str, expectation: E) -> impl Future<Output = E::Output>
    where
        K: StaticResource + DeserializeOwned,
        E: Expectation<K>,
    {
        let wait = Wait::new::<K>(self, key, expectation.description());
        async move {
            let mut notified = Notified::of(&wait.server);
            let deadline = wait.begin + wait.server.wait_timeout.min(MAX_WAIT);
            loop {
                notified.mark_unchanged();
                wait.check_managers("wait for");
                let problem = match wait.evaluate(&expectation, wait.current()) {
                    Ok(output) => return output,
                    Err(problem) => problem,
                };
                let is_late = Instant::now() >= deadline;
                if is_late || timeout_at(deadline, notified.changed()).await.is_err() {
                    let headline = format!("not reached within {:?}", wait.server.wait_timeout);
                    panic!("{}", wait.report("wait for", &headline, &problem));
                }
            }
        }
    }

    /// Checks that the object with this key has the expected state now and after each of its changes for a
    /// duration, and returns the last state.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use informer::testing::{TestServer, absent};
    /// use k8s_openapi::api::core::v1::Secret;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let server = TestServer::start().await;
    /// server.consistently("default/unwanted", absent::<Secret>(), Duration::from_secs(30)).await;
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics as soon as the object does not have the state. The message is like that of
    /// [`eventually`](Self::eventually). Also panics if the key is invalid, and as soon as a manager that
    /// this server [runs](Self::run) has failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect, because this method only waits.
    #[track_caller]
    pub fn consistently<K, E>(
        &self,
        key: &str,
        expectation: E,
        duration: Duration,
    ) -> impl Future<Output = E::Output>
    where
        K: StaticResource + DeserializeOwned,
        E: Expectation<K>,
    {
        let wait = Wait::new::<K>(self, key, expectation.description());
        async move {
            let server = wait.server.server();
            let mut notified = Notified::of(&wait.server);
            let deadline = wait.begin + duration.min(MAX_WAIT);
            let mut seen = server.version();
            let mut states = vec![wait.current()];
            loop {
                wait.check_managers("check the state of");
                let mut last = None;
                for state in states {
                    let evaluated = wait.evaluate(&expectation, state).unwrap_or_else(|problem| {
                        let headline = format!("violated after {:?}", wait.begin.elapsed());
                        panic!("{}", wait.report("check the state of", &headline, &problem))
                    });
                    last = Some(evaluated);
                }
                let is_late = Instant::now() >= deadline;
                if (is_late || timeout_at(deadline, notified.changed()).await.is_err())
                    && let Some(last) = last
                {
                    return last;
                }
                // The version of the server is read before the history of the object. A write between the two
                // reads is therefore evaluated twice, but no write is missed.
                notified.mark_unchanged();
                let version = server.version();
                states = wait.states_after(seen);
                seen = version;
            }
        }
    }
}

/// A state of the object on the server: its JSON, or `None` if it does not exist. The error is a problem
/// because of which the state is unknown, such as a missing CRD.
type ObjectState = Result<Option<Value>, String>;

/// Notifies a wait of writes to the server, and of failed managers.
struct Notified {
    writes: watch::Receiver<u64>,
    failures: watch::Receiver<Managers>,
}

impl Notified {
    fn of(server: &TestServer) -> Self {
        Self { writes: server.server.watch_version(), failures: server.failures.subscribe() }
    }

    fn mark_unchanged(&mut self) {
        self.writes.mark_unchanged();
        self.failures.mark_unchanged();
    }

    async fn changed(&mut self) {
        let (writes, failures) = (self.writes.changed(), self.failures.changed());
        // The senders exist as long as the server of the wait, so `changed` does not fail.
        select(pin!(writes), pin!(failures)).await;
    }
}

/// A wait of a test for the expected state of one object.
struct Wait {
    server: TestServer,
    gvr: Gvr,
    kind: String,
    key: ObjectKey,
    expected: String,
    caller: &'static Location<'static>,
    begin: Instant,
}

impl Wait {
    #[track_caller]
    fn new<K: Resource<DynamicType = ()>>(server: &TestServer, key: &str, expected: String) -> Self {
        let kind = K::kind(&()).into_owned();
        let key = key.parse().unwrap_or_else(|error| panic!("wait for {kind} {key:?}: {error}"));
        let (gvr, caller) = (gvr::<K>(), Location::caller());
        Self { server: server.clone(), gvr, kind, key, expected, caller, begin: Instant::now() }
    }

    /// Panics if a manager that the test runs has failed.
    fn check_managers(&self, operation: &str) {
        if let Some(failure) = self.server.failures.first() {
            panic!("{}", self.report(operation, "a manager of the test failed", &failure));
        }
    }

    fn namespace(&self) -> &str {
        self.key.namespace().unwrap_or_default()
    }

    fn current(&self) -> ObjectState {
        let server = self.server.server();
        match server.get(&self.gvr, self.namespace(), self.key.name()) {
            Ok(object) => Ok(Some(object)),
            Err(_) if server.versions(&self.gvr).is_ok() => Ok(None),
            Err(_) => Err(format!("the server does not serve {}; load its CRD", self.gvr)),
        }
    }

    /// Returns the states that the object had after this resourceVersion of the server, oldest first. If the
    /// history contains none, returns only the current state.
    fn states_after(&self, version: u64) -> Vec<ObjectState> {
        let server = self.server.server();
        let changes = server.changes(&self.gvr, self.namespace(), self.key.name(), MAX_CHANGES);
        let mut states: Vec<ObjectState> = changes
            .into_iter()
            .flatten()
            .filter(|change| change.version > version)
            .map(|change| Ok(change.after))
            .collect();
        if states.is_empty() {
            states.push(self.current());
        }
        states
    }

    fn evaluate<K: DeserializeOwned, E: Expectation<K>>(
        &self,
        expectation: &E,
        state: ObjectState,
    ) -> Result<E::Output, String> {
        let Some(json) = state? else { return expectation.evaluate(None) };
        let object = K::deserialize(&json)
            .map_err(|error| format!("it cannot be decoded as {}: {error}", self.kind))?;
        expectation.evaluate(Some((object, &json)))
    }
}
