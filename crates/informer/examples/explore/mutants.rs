//! Mutants of the sample controller. Each function returns a reconcile function with one defect, which an
//! exploration must find.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use informer::kube_core::ResourceExt;
use informer::prelude::*;
use informer::runtime::Fetched;
use k8s_openapi::api::apps::v1::Deployment;
use parking_lot::Mutex;

use super::sample::{
    self, FINALIZER, Reconciler, Website, deployment_for, scale, with_finalizer, without_finalizer,
    write_status,
};

/// A mutant of the sample controller: a description of its defect, and the function that returns its
/// reconcile function.
pub(crate) type Mutant = (&'static str, fn() -> Reconciler);

/// All mutants of the sample controller. The exploration of each must find a fault script under which a check
/// fails.
pub(crate) const MUTANTS: [Mutant; 5] = [
    ("the status marks that the deployment was created", status_is_the_marker),
    ("the status is written before the deployment", status_first),
    ("the error of the removal of a finalizer is ignored", error_ignored),
    ("the process remembers a write before it succeeds", remembered_too_early),
    ("an error makes the controller poll forever", polls_after_an_error),
];

/// The part of a reconcile that handles the finalizer of a website; the mutants share it with no change from
/// the correct controller. It adds a missing finalizer, and removes the finalizer of a deleted website.
/// Returns the website if the mutant must still reconcile its Deployment, and `None` if the reconcile is
/// complete.
async fn begin(request: &Request, ctx: &Context) -> Result<Option<Fetched<Website>>, ReconcileError> {
    let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(None) };
    if site.metadata.deletion_timestamp.is_some() {
        without_finalizer(&site, ctx).await?;
        return Ok(None);
    }
    if !site.finalizers().iter().any(|name| name == FINALIZER) {
        with_finalizer(&site, ctx).await?;
        return Ok(None);
    }
    Ok(Some(site))
}

/// Creates the Deployment of a website, or scales the existing one to the website's number of replicas. The
/// correct controller does the same; the mutants whose defect is elsewhere call this function.
async fn write_deployment(site: &Fetched<Website>, ctx: &Context) -> Result<(), ReconcileError> {
    match ctx.get::<Deployment>(&format!("default/{}", site.name_any())).await? {
        None => drop(ctx.client.create(&deployment_for(site)?).await?),
        Some(have) => scale(&have, site, ctx).await?,
    }
    Ok(())
}

/// A controller that decides by the website's status, not by the Deployment itself, whether the Deployment
/// must be created. After a crash between the create and the status update, each later reconcile creates the
/// Deployment again and fails with 409.
fn status_is_the_marker() -> Reconciler {
    Arc::new(|request, ctx| {
        Box::pin(async move {
            let Some(site) = begin(&request, &ctx).await? else { return Ok(Outcome::Done) };
            if site.status.is_none() {
                ctx.client.create(&deployment_for(&site)?).await?;
            } else if let Some(have) = ctx.get::<Deployment>(&request.key).await? {
                scale(&have, &site, &ctx).await?;
            }
            write_status(&site, &ctx).await?;
            Ok(Outcome::Done)
        })
    })
}

/// A controller with the defect that it writes the status of the website before the Deployment. A crash
/// between the two writes leaves a website with a complete status and without a Deployment.
fn status_first() -> Reconciler {
    Arc::new(|request, ctx| {
        Box::pin(async move {
            let Some(site) = begin(&request, &ctx).await? else { return Ok(Outcome::Done) };
            if site.status.as_ref().is_some_and(|status| status.replicas == site.spec.replicas) {
                return Ok(Outcome::Done);
            }
            write_status(&site, &ctx).await?;
            write_deployment(&site, &ctx).await?;
            Ok(Outcome::Done)
        })
    })
}

/// A controller with the defect that it ignores an error of the update that removes the finalizer. The failed
/// update causes no event, so the finalizer is never removed.
fn error_ignored() -> Reconciler {
    Arc::new(|request, ctx| {
        Box::pin(async move {
            let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
            if site.metadata.deletion_timestamp.is_some() {
                drop(without_finalizer(&site, &ctx).await);
                return Ok(Outcome::Done);
            }
            sample::reconcile(request, ctx).await
        })
    })
}

/// A controller that records in memory that it has created a Deployment, before the create request succeeds.
/// If the request fails, the process never sends it again, so the Deployment is missing.
fn remembered_too_early() -> Reconciler {
    let created: Arc<Mutex<HashSet<String>>> = Arc::default();
    Arc::new(move |request, ctx| {
        let created = Arc::clone(&created);
        Box::pin(async move {
            let Some(site) = begin(&request, &ctx).await? else { return Ok(Outcome::Done) };
            let is_new = created.lock().insert(request.key.to_string());
            match ctx.get::<Deployment>(&request.key).await? {
                None if is_new => drop(ctx.client.create(&deployment_for(&site)?).await?),
                None => {}
                Some(have) => scale(&have, &site, &ctx).await?,
            }
            write_status(&site, &ctx).await?;
            Ok(Outcome::Done)
        })
    })
}

/// A controller that sets a flag after an error and never resets it. After the first error, it reads the
/// website every 10 ms forever.
fn polls_after_an_error() -> Reconciler {
    let failed: Arc<AtomicBool> = Arc::default();
    Arc::new(move |request, ctx| {
        let failed = Arc::clone(&failed);
        Box::pin(async move {
            let Some(site) = begin(&request, &ctx).await? else { return Ok(Outcome::Done) };
            let written = write_deployment(&site, &ctx).await;
            failed.fetch_or(written.is_err(), Ordering::SeqCst);
            written?;
            write_status(&site, &ctx).await?;
            if failed.load(Ordering::SeqCst) {
                drop(ctx.client.live().get::<Website>(&request.key).await?);
                return Ok(Outcome::requeue_after(Duration::from_millis(10)));
            }
            Ok(Outcome::Done)
        })
    })
}
