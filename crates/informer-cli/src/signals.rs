//! Waits for termination signals, on which a command shuts down gracefully.

use crate::failure::Failure;

/// Handlers for Ctrl-C and SIGTERM, which are installed when this value is created. A command must create it
/// before it reports that it is ready. A signal without a handler would end the process before its state is
/// saved.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let on = |kind| signal(kind).map_err(|error| Failure::io("wait for signals", error));
            Ok(Self { interrupt: on(SignalKind::interrupt())?, terminate: on(SignalKind::terminate())? })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Waits for Ctrl-C or, on Unix, SIGTERM.
    pub(crate) async fn told_to_end(&mut self) -> Result<(), Failure> {
        #[cfg(unix)]
        {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.terminate.recv() => {}
            }
            Ok(())
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await.map_err(|error| Failure::io("wait for signals", error))
    }
}
