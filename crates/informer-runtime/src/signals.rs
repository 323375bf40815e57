#[cfg(all(test, unix))]
mod tests;

use std::future::poll_fn;
use std::task::Poll;

/// The exit code after a second signal, as upstream's.
const SECOND_SIGNAL: i32 = 1;

/// Resolves at the first SIGINT or SIGTERM (Ctrl-C elsewhere). A second one then ends the process at once, with exit code 1: for
/// people who do not want to wait for what does not stop.
///
/// The signals are listened to from the call on, not from the first poll. Needs a tokio runtime.
///
/// Upstream: [`signals.SetupSignalHandler`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/manager/signals#SetupSignalHandler).
///
/// # Panics
///
/// Outside of a tokio runtime, and where the system does not let signals be listened to.
#[track_caller]
pub fn ctrl_c() -> impl Future<Output = ()> + Send + 'static {
    let mut signals = Signals::new();
    async move {
        signals.next().await;
        tracing::info!("stopping; a second signal ends the process at once");
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(SECOND_SIGNAL);
        });
    }
}

#[cfg(unix)]
struct Signals([tokio::signal::unix::Signal; 2]);

#[cfg(unix)]
impl Signals {
    #[track_caller]
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).expect("the system lets a process listen to its signals");
        Self([listen(SignalKind::interrupt()), listen(SignalKind::terminate())])
    }

    async fn next(&mut self) {
        poll_fn(|context| {
            let came =
                self.0.iter_mut().any(|signal| matches!(signal.poll_recv(context), Poll::Ready(Some(()))));
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        let _ = poll_fn::<(), fn(&mut std::task::Context<'_>) -> Poll<()>>;
        Self
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
