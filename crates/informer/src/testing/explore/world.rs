//! The interface through which the scenario of an exploration sends the requests of users and waits for the
//! program.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use informer_client::StaticResource;
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use kube_core::{Resource, ResourceExt};
use tokio::time::{Instant, sleep, timeout};

use super::rollout::Rollout;
use super::transport::Shared;
use crate::testing::{TestServer, TestServerError};

/// The shortest pause before the scenario checks again whether the program has settled.
const POLL: Duration = Duration::from_millis(50);

/// The argument of the scenario of an [`Explore`](super::Explore). A scenario uses it to send the requests of
/// users to the server of the run, and to wait until the program has processed them.
///
/// No fault affects the requests of users. [`eventually`](TestServer::eventually) has the timeout
/// [`settle_within`](super::Explore::settle_within). Each create, edit and delete of a user adds a line to
/// the trace.
#[derive(Clone)]
pub struct World {
    pub(super) server: TestServer,
    pub(super) shared: Arc<Shared>,
    pub(super) rollout: Arc<Rollout>,
    /// The maximum time for which [`World::settled`] waits.
    pub(super) timeout: Duration,
    /// The program counts as settled if it sends no write for this time.
    pub(super) quiet: Duration,
}

impl World {
    /// Creates an object, like [`TestServer::create`].
    ///
    /// # Panics
    ///
    /// If the server rejects the object.
    pub async fn create<K: StaticResource + Serialize>(&self, object: &K) {
        self.line("create", &K::plural(&()), &key_of(object));
        expect(self.server.create(object).await);
    }

    /// Reads an object, changes it with the closure `edit`, and writes it to the server. Fields that the
    /// closure does not change keep their values.
    ///
    /// # Panics
    ///
    /// If the object does not exist, or the server rejects the change.
    pub async fn edit<K>(&self, key: &str, edit: impl FnOnce(&mut K))
    where
        K: StaticResource + Serialize + DeserializeOwned,
    {
        self.line("edit", &K::plural(&()), key);
        let mut object: K = expect(self.server.get(key).await);
        edit(&mut object);
        expect(self.server.update(&object).await);
    }

    /// Deletes an object. If it has finalizers, it is only marked as deleted.
    ///
    /// # Panics
    ///
    /// If the object does not exist.
    pub async fn delete<K: StaticResource>(&self, key: &str) {
        self.line("delete", &K::plural(&()), key);
        expect(self.server.delete::<K>(key).await);
    }

    /// Waits until the program has sent no write for some time: 10 s, or 40 s with leader election.
    ///
    /// Returns after [`settle_within`](super::Explore::settle_within) in any case.
    pub async fn settled(&self) {
        let begin = Instant::now();
        loop {
            let last_write = self.shared.record.lock().last_write.max(begin);
            if last_write.elapsed() >= self.quiet || begin.elapsed() >= self.timeout {
                break;
            }
            sleep(self.quiet.saturating_sub(last_write.elapsed()).max(POLL)).await;
        }
        self.server.server().controllers_idle().await;
    }

    /// Stops all processes of the program gracefully, and then starts the program of
    /// [`restart_with`](super::Explore::restart_with). Without one, or if it runs already, starts the same
    /// program again.
    ///
    /// Returns when the old processes have ended, at the latest after
    /// [`settle_within`](super::Explore::settle_within). The new ones start a second later.
    pub async fn restart(&self) {
        self.shared.line("user: restart the program");
        if timeout(self.timeout, self.rollout.restart()).await.is_err() {
            self.shared.line(format_args!("the old processes have not ended within {:?}", self.timeout));
        }
    }

    /// Waits for a duration of simulated time, which takes no real time.
    pub async fn advance_time(&self, duration: Duration) {
        sleep(duration).await;
    }

    fn line(&self, verb: &str, resource: &str, key: &str) {
        self.shared.line(format_args!("user: {verb} {resource} {key}"));
    }
}

/// Gives access to the methods of the [`TestServer`] of the run.
impl Deref for World {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("server", &self.server).finish_non_exhaustive()
    }
}

fn key_of<K: Resource<DynamicType = ()>>(object: &K) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

#[track_caller]
fn expect<T>(result: Result<T, TestServerError>) -> T {
    result.unwrap_or_else(|error| panic!("the scenario failed: {error}"))
}
