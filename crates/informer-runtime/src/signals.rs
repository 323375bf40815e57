#[cfg(all(test, unix))]
mod tests;

use std::future::poll_fn;
use std::task::Poll;

/// The exit code of the process after a second SIGINT or SIGTERM, as in controller-runtime.
const SECOND_SIGNAL: i32 = 1;

/// Resolves at the first SIGINT or SIGTERM (Ctrl-C on other systems). A second signal exits the process
/// immediately with code 1, in case the graceful stop takes too long.
///
/// Signal handlers are registered when the function is called, not at the first poll. Requires a tokio
/// runtime.
///
/// Upstream:
/// [`signals.SetupSignalHandler`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/manager/signals#SetupSignalHandler).
///
/// # Panics
///
/// Panics outside of a tokio runtime, or if the system does not allow the process to register signal
/// handlers.
#[track_caller]
pub fn ctrl_c() -> impl Future<Output = ()> + Send + 'static {
    let mut signals = Signals::new();
    async move {
        signals.next().await;
        tracing::info!("received a signal, stopping; a second signal exits the process at once");
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
        let listen = |kind| signal(kind).expect("signal handlers can be registered");
        Self([listen(SignalKind::interrupt()), listen(SignalKind::terminate())])
    }

    async fn next(&mut self) {
        poll_fn(|context| {
            let received =
                self.0.iter_mut().any(|signal| matches!(signal.poll_recv(context), Poll::Ready(Some(()))));
            if received { Poll::Ready(()) } else { Poll::Pending }
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
