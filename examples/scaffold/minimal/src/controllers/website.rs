//! Keeps a Deployment for each Website.

use std::sync::Arc;
use std::time::Duration;

use informer::k8s_openapi::api::apps::v1::Deployment;
use informer::kube_core::{Resource, ResourceExt};
use informer::prelude::*;
use serde_json::json;

use crate::api::website::{Website, WebsiteStatus};

/// The values that all reconciles share. Add settings and clients of other services here.
pub struct State {
    /// Reconciles again after this time without a change, in case an event was lost.
    pub resync: Duration,
}

/// Builds the controller: it watches websites and the Deployments that they own.
pub fn controller() -> Controller {
    let state = State {
        resync: Duration::from_secs(600),
    };
    Controller::new::<Website>("website")
        .owns::<Deployment>()
        .reconcile_with(state, reconcile)
}

/// Compares the desired with the current state of one Website, and writes the difference.
///
/// The function is called again after an error, after a restart and after each change. So it
/// does not depend on the change that caused the call.
async fn reconcile(
    request: Request,
    ctx: Context,
    state: Arc<State>,
) -> Result<Outcome, ReconcileError> {
    let Some(object) = ctx.get::<Website>(&request.key).await? else {
        return Ok(Outcome::Done); // The garbage collector deletes the Deployment.
    };
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(Outcome::Done);
    }
    let deployment = ctx.client.apply(&deployment_for(&object)?).await?;

    let available = deployment
        .status
        .as_ref()
        .and_then(|status| status.available_replicas);
    let status = WebsiteStatus {
        available_replicas: available.unwrap_or(0),
    };
    if object.status.as_ref() != Some(&status) {
        let (available, wanted) = (status.available_replicas, object.spec.replicas);
        let note = format!("{available} of {wanted} replicas are available");
        let mut edited = object.edit();
        edited.status = Some(status);
        ctx.client.status().update(&edited).await?;
        ctx.recorder
            .normal(&object, "ReplicasChanged", "Reconcile", note);
    }
    Ok(Outcome::requeue_after(state.resync))
}

/// Returns the desired Deployment. The object owns it, so that it is deleted with the object.
fn deployment_for(object: &Website) -> Result<Deployment, ReconcileError> {
    let owner = object
        .controller_owner_ref(&())
        .ok_or("the Website has no uid")?;
    let labels = json!({
        "app.kubernetes.io/name": "website",
        "app.kubernetes.io/instance": object.name_any(),
    });
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": format!("{}-website", object.name_any()),
            "namespace": object.namespace(),
            "ownerReferences": [owner],
        },
        "spec": {
            "replicas": object.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": object.spec.image}]},
            },
        },
    }))?)
}

#[cfg(test)]
mod tests {
    use informer::testing::{FakeClient, TestContext};

    use super::*;
    use crate::api::website::{WebsiteSpec, crd};

    fn shop() -> Website {
        let spec = WebsiteSpec {
            image: "registry.example.com/shop:1".to_owned(),
            replicas: 2,
        };
        let mut object = Website::new("shop", spec);
        object.metadata.namespace = Some("default".to_owned());
        object
    }

    #[tokio::test(start_paused = true)]
    async fn reconcile_writes_the_deployment_and_the_status_and_records_an_event() {
        let client = FakeClient::builder().object(&crd()).object(&shop());
        let client = client.build().await.expect("valid objects");
        let test = TestContext::builder(&client).watches::<Website>();
        let test = test.build().await.expect("the CRD is served");
        let request = test.request("default/shop");
        let resync = Duration::from_secs(60);
        let state = Arc::new(State { resync });

        let outcome = reconcile(request.clone(), test.context(), state.clone()).await;
        assert_eq!(outcome.ok(), Some(Outcome::requeue_after(resync)));
        let deployment = client.server().get("default/shop-website").await;
        let deployment: Deployment = deployment.expect("it is created");
        assert_eq!(deployment.spec.replicas, Some(2));
        let events = test.take_events();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].reason, "ReplicasChanged");
        assert_eq!(events[0].note, "0 of 2 replicas are available");

        let again = reconcile(request, test.context(), state).await;
        assert_eq!(again.ok(), Some(Outcome::requeue_after(resync)));
        assert_eq!(test.take_events(), [], "the status has not changed");
    }
}
