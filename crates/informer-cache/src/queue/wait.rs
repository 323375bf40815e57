use tokio::sync::Notify;

/// Resolves with the first answer of `check`, which is asked at once and after every
/// [`notify_waiters`](Notify::notify_waiters).
///
/// Cancel safe: nothing is taken before `check` answers, and its answer is returned without another await.
pub(super) async fn wait_until<T>(changed: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        // Created before the check: it hears every notification from here on, so none falls between the two.
        let notified = changed.notified();
        if let Some(answer) = check() {
            return answer;
        }
        notified.await;
    }
}
