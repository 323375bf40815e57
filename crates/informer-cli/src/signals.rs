//! Being told to end.

use crate::failure::Failure;

/// Ctrl-C and SIGTERM. They are listened for from the moment this is made, which is before anybody is told that the program
/// is ready: one that comes early would end it without its state being kept.
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

    /// Waits for one of them.
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
