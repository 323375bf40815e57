//! Sends the requests for the bodies of a kind, and reports their results to the state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use informer_cache::source::{SourceError, SourceErrorKind};
use informer_client::Lazy;
use informer_core::Object;
use informer_core::panics::panic_text;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::state::{FetchResult, FetchStart, Version};
use super::{Bodies, BodySource, Transform};
use crate::KubeObject;
use crate::cache::task::CacheTask;
use crate::clock::{now, sleep_until};

/// The longest wait that a `Retry-After` of the server can cause.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// The bodies of a kind, without the type of their objects.
pub(in crate::cache) trait ErasedBodies: Send + Sync {
    /// Starts the driver on a runtime.
    fn start(&self, runtime: &Handle) -> CacheTask;
    /// Returns whether there are references, leases or reads, or more than `owned` handles.
    fn is_held(&self, owned: usize) -> bool;
    /// Stops observing the metadata.
    fn close(&self);
}

impl<K: KubeObject> ErasedBodies for Arc<Bodies<K>> {
    fn start(&self, runtime: &Handle) -> CacheTask {
        let bodies = Self::clone(self);
        CacheTask::spawn(runtime, |stop| run(bodies, stop))
    }

    fn is_held(&self, owned: usize) -> bool {
        Arc::strong_count(self) > owned || !self.inner.lock().state.is_empty()
    }

    fn close(&self) {
        if let Some(registration) = self.registration.get() {
            registration.remove();
        }
    }
}

async fn run<K: KubeObject>(bodies: Arc<Bodies<K>>, stop: CancellationToken) {
    let mut rng = SmallRng::seed_from_u64(crate::random::jitter().to_bits());
    let mut in_flight = FuturesUnordered::new();
    loop {
        let (starts, deadline) = bodies.step();
        in_flight.extend(starts.into_iter().map(|start| fetch(&bodies, start)));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = bodies.metadata.removed() => return,
            Some((start, result)) = in_flight.next() => bodies.finish(&start, result, &mut rng),
            () = bodies.work.notified() => {}
            () = sleep_until(deadline) => {}
        }
    }
}

type FetchedBody<K> = FetchResult<Arc<Lazy<K>>, Arc<SourceError>>;

impl<K: KubeObject> Bodies<K> {
    /// Returns the requests to send now, and the time of the next step.
    fn step(&self) -> (Vec<FetchStart>, Option<std::time::Instant>) {
        let mut inner = self.inner.lock();
        inner.state.enter_epoch(self.metadata_epoch());
        inner.state.tick(now());
        let starts = std::iter::from_fn(|| inner.state.next_fetch()).collect();
        (starts, inner.state.next_deadline())
    }

    fn finish(&self, start: &FetchStart, result: FetchedBody<K>, rng: &mut SmallRng) {
        if let FetchResult::Failed(error, _) = &result {
            tracing::warn!(kind = %self.kind, key = %start.key, %error, "the body of an object cannot be fetched");
        }
        let mut inner = self.inner.lock();
        inner.state.finished(start, result, now(), rng);
        inner.wake(&start.key);
    }

    fn source_of(&self, start: &FetchStart) -> Option<&BodySource<K>> {
        let scope = &self.metadata.scoped_informer(start.key.namespace())?.scope;
        self.sources.iter().find(|source| source.scope == *scope)
    }
}

async fn fetch<K: KubeObject>(bodies: &Bodies<K>, start: FetchStart) -> (FetchStart, FetchedBody<K>) {
    let result = match bodies.source_of(&start) {
        Some(source) => match source.source.get(&start.key).await {
            Ok(Some(body)) => transformed(source.transform.as_deref(), body),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        },
        None => Ok(None),
    };
    let fetched = match result {
        Ok(Some(body)) => {
            let version = Version { uid: body.uid().into(), version: body.resource_version().clone() };
            FetchResult::Found(version, body)
        }
        Ok(None) => FetchResult::Missing,
        Err(error) => {
            let retry_after = error.retry_after().map(|wait| wait.min(MAX_RETRY_AFTER));
            FetchResult::Failed(Arc::new(error), retry_after)
        }
    };
    (start, fetched)
}

/// Applies the transform of the program. If it panics, only this object fails.
fn transformed<K: KubeObject>(
    transform: Option<&Transform<Lazy<K>>>,
    body: Arc<Lazy<K>>,
) -> Result<Option<Arc<Lazy<K>>>, SourceError> {
    let Some(transform) = transform else { return Ok(Some(body)) };
    let key = body.key().clone();
    let failed = |text: String| {
        let text = format!("transform {key}: {text}; the transform must not fail");
        SourceError::new(SourceErrorKind::Other, text)
    };
    match catch_unwind(AssertUnwindSafe(|| transform(body))) {
        Ok(Ok(body)) => Ok(Some(body)),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(panic) => Err(failed(format!("it panicked: {}", panic_text(&*panic)))),
    }
}
