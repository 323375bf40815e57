use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use informer::Gvr;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Api, ApiError};

/// Number of concurrent writers. A few dozen saturate a kube-apiserver on two cores. The number is below 100,
/// the number of streams that one HTTP/2 connection carries.
const WRITERS: usize = 48;

/// The result of [`load`]: the number of created objects and the time that it took.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of created objects.
    pub objects: usize,
    /// Total time for creating the objects.
    pub took: Duration,
}

/// Creates many objects with concurrent writers.
///
/// # Errors
///
/// Returns the first error of a request.
pub async fn load(
    api: &Api,
    gvr: &Gvr,
    count: usize,
    object: impl Fn(usize) -> (String, Value),
) -> Result<Load, ApiError> {
    let began = Instant::now();
    let created = stream::iter((0..count).map(object)).map(Ok::<_, ApiError>);
    created
        .try_for_each_concurrent(WRITERS, |(namespace, object)| async move {
            api.create(gvr, &namespace, &object).await.map(drop)
        })
        .await?;
    Ok(Load { objects: count, took: began.elapsed() })
}
