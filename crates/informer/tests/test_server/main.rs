//! Tests of `informer::testing::TestServer`, imported from the `informer` crate as programs do it.
#![cfg(feature = "testing")]

#[cfg(feature = "schema")]
mod install;
#[cfg(feature = "runtime")]
mod manager;
mod requests;
#[cfg(all(feature = "webhook", feature = "schema"))]
mod webhooks;

use informer::Object;
use informer::cache::Event;
use informer::kube_client::config::{KubeConfigOptions, Kubeconfig};
use informer::kube_client::{Api, Client, Config};
use informer::testing::{TestServer, list, pod, watch};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};

#[tokio::test(start_paused = true)]
async fn a_410_on_the_first_watch_costs_exactly_one_relist() {
    let server = TestServer::start().await;
    let pods = server.informer::<Pod>().await;
    server.faults().on(watch::<Pod>()).nth(1).expire();
    server.create(&pod("default/web-0")).await.unwrap();
    pods.wait_until(|p| p.contains("default/web-0")).await.unwrap();
    assert_eq!(server.requests(list::<Pod>()).count(), 2);
    assert_eq!(pods.state().reflector.relists.total(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_comes_after_the_watch_has_begun_spoils_it_all_the_same() {
    let server = TestServer::start().await;
    let pods = server.informer::<Pod>().await;
    while server.requests(watch::<Pod>()).count() == 0 {
        tokio::task::yield_now().await;
    }
    let cut = server.faults().on(watch::<Pod>()).nth(1).cut_after(1);
    for name in ["default/a", "default/b"] {
        server.create(&pod(name)).await.unwrap();
    }
    pods.wait_until(|p| p.len() == 2).await.unwrap();
    assert_eq!(
        (cut.fired(), server.requests(watch::<Pod>()).count()),
        (1, 2),
        "the watch resumes where it was cut"
    );
    assert_eq!(server.requests(list::<Pod>()).count(), 1, "a clean close causes no relist");
}

#[tokio::test(start_paused = true)]
async fn objects_are_written_read_and_deleted_by_type_and_key() {
    let server = TestServer::start().await;
    let pods = server.informer::<Pod>().await;
    let mut events = pods.events();
    server.create(&pod("ns/a")).await.unwrap();
    let Some(Event::Added { object, initial: false }) = events.next().await else { panic!("a new pod") };
    assert_eq!(object.key(), "ns/a");
    let mut read: Pod = server.get("ns/a").await.unwrap();
    read.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    server.update(&read).await.unwrap();
    let Some(Event::Updated { new, .. }) = events.next().await else { panic!("a changed pod") };
    assert_eq!(new.labels().get("app"), Some("web"));
    server.delete::<Pod>("ns/a").await.unwrap();
    // A deletion of a Pod causes two events: the server first sets a deletion timestamp, and then removes the
    // Pod.
    let Some(Event::Updated { new, .. }) = events.next().await else { panic!("a marked pod") };
    assert!(new.deletion_timestamp().is_some());
    assert!(events.next().await.unwrap().is_deleted());
    let error = server.get::<ConfigMap>("ns/none").await.unwrap_err().to_string();
    assert_eq!(error, "cannot read an object of configmaps.v1 on the test server");
}

/// This test runs in real time. It connects to the server over a socket, whose events do not follow tokio's
/// paused time.
#[tokio::test]
async fn its_kubeconfig_leads_other_programs_to_it() {
    let server = TestServer::start().await;
    server.create(&pod("default/web-0")).await.unwrap();
    let listening = server.listen().await.unwrap();
    let config = Kubeconfig::from_yaml(&listening.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config).unwrap());
    let seen = pods.get("web-0").await.unwrap();
    assert_eq!(seen, server.get("default/web-0").await.unwrap());
    assert!(listening.kubeconfig().contains(&listening.url()));
}
