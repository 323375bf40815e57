//! Repeats writes that conflict with other writes.

use std::time::Duration;

use informer_client::CallError;

use super::WriteError;
use crate::random::jitter;

/// The maximum number of attempts of [`retry_on_conflict`], and of updates of one edit, as in client-go's
/// `retry.DefaultRetry`. An object that others write more often than this should be changed with a patch or
/// by server-side apply.
pub const MAX_CONFLICT_ATTEMPTS: u32 = 5;

/// The delay before the second attempt. It doubles with each conflict, and is multiplied by a random factor
/// from 0.5 to 1.5, so that conflicting clients do not retry at the same time.
const FIRST_DELAY: Duration = Duration::from_millis(10);

/// Calls `attempt` until it does not fail with a conflict (409), at most [`MAX_CONFLICT_ATTEMPTS`] times.
/// `attempt` reads the object, changes it and writes it. It should read from the API server, because a cache
/// may not have received the conflicting write yet.
///
/// The delays between the attempts are 10, 20, 40 and 80 ms, each varied by up to a half.
/// [`CachedClient::edit`](crate::CachedClient::edit) does all of this for one object, with a cached read
/// first.
///
/// ```no_run
/// # async fn example(client: informer_runtime::CachedClient) -> Result<(), informer_runtime::WriteError> {
/// use informer_runtime::retry_on_conflict;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// retry_on_conflict(|| async {
///     let Some(map) = client.live().get::<ConfigMap>("default/counter").await? else { return Ok(()) };
///     let mut edited = map.edit();
///     edited.data.get_or_insert_default().insert("seen".to_owned(), "true".to_owned());
///     client.update(&edited).await.map(drop)
/// })
/// .await
/// # }
/// ```
///
/// # Errors
///
/// Returns the error of the last attempt: one that is not a conflict, or the conflict of the last attempt.
///
/// # Cancel safety
///
/// Dropping the future drops the future of the attempt.
///
/// Upstream: [`retry.RetryOnConflict`](https://pkg.go.dev/k8s.io/client-go/util/retry#RetryOnConflict).
pub async fn retry_on_conflict<T, E: MaybeConflict, R: Future<Output = Result<T, E>>>(
    mut attempt: impl FnMut() -> R,
) -> Result<T, E> {
    let mut number = 1;
    loop {
        match attempt().await {
            Err(error) if error.is_conflict() && number < MAX_CONFLICT_ATTEMPTS => {
                tokio::time::sleep(delay_after(number)).await;
                number += 1;
            }
            result => return result,
        }
    }
}

/// An error of which [`retry_on_conflict`] knows whether it is a conflict.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether it is a conflict",
    label = "not an error of `retry_on_conflict`",
    note = "return `WriteError`, `CallError` or `ReconcileError`, or implement `MaybeConflict`"
)]
pub trait MaybeConflict {
    /// Returns true if the write conflicts with another one, so that a new attempt on the new state may
    /// succeed.
    fn is_conflict(&self) -> bool;
}

impl MaybeConflict for WriteError {
    fn is_conflict(&self) -> bool {
        Self::is_conflict(self)
    }
}

impl MaybeConflict for CallError {
    fn is_conflict(&self) -> bool {
        Self::is_conflict(self)
    }
}

/// Returns the delay after the conflict of an attempt, which is counted from 1.
pub(super) fn delay_after(attempt: u32) -> Duration {
    (FIRST_DELAY * 2_u32.pow(attempt - 1)).mul_f64(0.5 + jitter())
}

/// Updates an object until the update does not conflict, as [`CachedClient::edit`](crate::CachedClient::edit)
/// describes. `read` is the first state of the object, and `reread` reads it from the API server.
pub(super) async fn edit_until_stored<O, U, R>(
    mut read: Option<O>,
    is_subresource: bool,
    mut update: impl FnMut(O) -> U,
    reread: impl Fn() -> R,
) -> Result<Option<O>, WriteError>
where
    U: Future<Output = Result<O, WriteError>>,
    R: Future<Output = Result<Option<O>, WriteError>>,
{
    let mut attempt = 1;
    while let Some(object) = read {
        match update(object).await {
            Ok(updated) => return Ok(Some(updated)),
            Err(error) if error.is_conflict() && attempt < MAX_CONFLICT_ATTEMPTS => {
                tokio::time::sleep(delay_after(attempt)).await;
                attempt += 1;
                read = reread().await?;
            }
            Err(error) if error.is_not_found() => {
                // The object was deleted since it was read, and possibly created again. If it exists and
                // the update is one of a subresource, its kind does not have that subresource.
                read = reread().await?;
                let is_retried = !is_subresource && attempt < MAX_CONFLICT_ATTEMPTS;
                if read.is_some() && !is_retried {
                    return Err(error);
                }
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use informer_cache::source::ServerStatus;

    use super::*;

    fn rejected(code: u16) -> WriteError {
        CallError::refused("update", ServerStatus { code, ..ServerStatus::default() }).into()
    }

    #[test]
    fn delays_double_and_vary_by_half() {
        for (attempt, milliseconds) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
            let middle = Duration::from_millis(milliseconds);
            let delay = delay_after(attempt);
            assert!((middle.mul_f64(0.5)..=middle.mul_f64(1.5)).contains(&delay), "{delay:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_conflicts_are_retried_and_at_most_five_times() {
        for (codes, attempts, last) in [
            (vec![409, 409], 3, Ok(())),
            (vec![409; 4], 5, Ok(())),
            (vec![409; 9], 5, Err(409)),
            (vec![409, 422, 409], 2, Err(422)),
            (vec![], 1, Ok(())),
        ] {
            let (mut codes, mut count) = (codes.into_iter(), 0);
            let ended = retry_on_conflict(|| {
                count += 1;
                std::future::ready(codes.next().map_or(Ok(()), |code| Err(rejected(code))))
            });
            let ended = ended.await.map_err(|error| error.call().unwrap().status().unwrap().code);
            assert_eq!((ended, count), (last, attempts));
        }
    }
}
