use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use informer::Gvr;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Api, ApiError};

/// Writers at once. A kube-apiserver on two cores is busy with a few dozen; an HTTP/2 connection carries 100.
const WRITERS: usize = 48;

/// What a bulk of creations took.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Objects that were created.
    pub objects: usize,
    /// In this time.
    pub took: Duration,
}

/// Creates many objects, with many writers.
///
/// # Errors
///
/// The first that the server refuses.
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
