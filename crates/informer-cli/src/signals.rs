//! Being told to end.

use crate::failure::Failure;

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn told_to_end() -> Result<(), Failure> {
    let failed = |error| Failure::io("wait for signals", error);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result.map_err(failed),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.map_err(failed)
}
