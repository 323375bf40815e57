use super::ManagerHandle;
#[cfg(feature = "webhook")]
use crate::webhook::WebhookServer;
use crate::{BoxError, Controller, ReconcileRequest, Runnable};

/// Creates a [`Runnable`] with the services of a manager: its client, health checks and metrics. Every
/// [`Runnable`] implements this trait.
#[diagnostic::on_unimplemented(
    message = "a manager cannot run `{Self}`",
    label = "not a controller or another runnable",
    note = "complete a controller with its reconciler: \
            `Controller::new::<Pod>(\"pods\").reconcile(|request, ctx| async move {{ .. }})`",
    note = "wrap an async function: `runnable(\"sweeper\", |stop| async move {{ .. }})`"
)]
pub trait IntoRunnable {
    /// Creates the runnable with the services of `manager`.
    ///
    /// # Errors
    ///
    /// Returns an error if the runnable cannot run in this manager, for example because a name is already in
    /// use or options conflict. The manager then does not start.
    fn into_runnable(self, manager: &ManagerHandle) -> Result<Box<dyn Runnable>, BoxError>;
}

impl<R: Runnable> IntoRunnable for R {
    fn into_runnable(self, _: &ManagerHandle) -> Result<Box<dyn Runnable>, BoxError> {
        Ok(Box::new(self))
    }
}

impl<R: ReconcileRequest> IntoRunnable for Controller<R> {
    fn into_runnable(self, manager: &ManagerHandle) -> Result<Box<dyn Runnable>, BoxError> {
        let mut runnable = self.assemble(manager.environment())?;
        if let Some(name) = runnable.unique_name() {
            manager.claim_name(name)?;
        }
        if let Some(member) = runnable.take_member() {
            manager.observe_lease(&member.health());
            manager.add(member)?;
        }
        Ok(Box::new(runnable))
    }
}

#[cfg(feature = "webhook")]
impl IntoRunnable for WebhookServer {
    #[cfg_attr(not(feature = "prometheus"), expect(unused_variables, reason = "the manager has no metrics"))]
    fn into_runnable(self, manager: &ManagerHandle) -> Result<Box<dyn Runnable>, BoxError> {
        #[cfg(feature = "prometheus")]
        let this = self.counted(manager.webhook_metrics(), manager.certificate_metrics());
        #[cfg(not(feature = "prometheus"))]
        let this = self;
        Ok(Box::new(this.into_server()?))
    }
}
