//! Managers, caches and controllers for Kubernetes, on shared informers.
//!
//! What controller-runtime is to client-go, this crate is to the informers of this project: a program that starts caches,
//! then controllers, in order, and that stops cleanly.

mod leader;
mod manager;
mod runnable;
mod signals;

pub use leader::{ElectionConfigError, Fence, LeaderElection, LeaderElector, LeaderLost, Leadership};
pub use manager::{AddError, Manager, ManagerError, ManagerHandle, ManagerStatus, PartError};
pub use runnable::{BoxError, FnRunnable, IntoRunnable, Runnable, RunnableGroup, runnable};
pub use signals::ctrl_c;
/// Ends what a manager runs.
pub use tokio_util::sync::CancellationToken;
