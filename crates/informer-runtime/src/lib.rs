//! Managers, caches and controllers for Kubernetes, on shared informers.
//!
//! What controller-runtime is to client-go, this crate is to the informers of this project: a program that starts caches,
//! then controllers, in order, and that stops cleanly.

mod runnable;

pub use runnable::{BoxError, Runnable, RunnableGroup};
/// Ends what a manager runs.
pub use tokio_util::sync::CancellationToken;
