use informer_apiserver::ApiServer;
use informer_client::Client;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

use crate::console::WatchSnapshot;
use crate::{Controller, Manager, ManagerStatus, Outcome, Request, source};

/// Returns the role, the resource and the informers of each source.
fn described(watches: &[WatchSnapshot]) -> Vec<(&str, &str, &[String])> {
    watches.iter().map(|one| (&*one.role, &*one.resource, &*one.informers)).collect()
}

#[tokio::test(start_paused = true)]
async fn sources_of_a_controller_have_a_role_and_the_informers_that_they_started() {
    let server = ApiServer::builder().build();
    let controller = Controller::new::<Secret>("rotate")
        .owns::<ConfigMap>()
        .watches_mapped::<Pod>(|_| None::<Request>)
        .source(source::function("timer", |_| async { Ok(()) }))
        .reconcile(|_, _| async { Ok(Outcome::Done) });
    let manager = Manager::new(Client::from_service(server.service(), "default")).controller(controller);
    let (data, handle) = (manager.console_data(), manager.handle());
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    handle.status().wait_for(|status| *status == ManagerStatus::Running).await.expect("it runs");
    while data.snapshot().controllers[0].phase != "Running" {
        tokio::task::yield_now().await;
    }
    let snapshot = data.snapshot();
    assert_eq!(
        described(&snapshot.controllers[0].watches),
        [
            ("for", "secrets/v1", &["secrets.v1".to_owned()][..]),
            ("owns", "configmaps/v1", &["configmaps.v1".to_owned()][..]),
            ("watches", "pods/v1", &["pods.v1".to_owned()][..]),
            ("source", "", &[][..]),
        ]
    );
    handle.stop();
    task.await.expect("no panic").expect("a clean stop");
}
