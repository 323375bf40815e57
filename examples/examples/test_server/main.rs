//! A test of a program that reads a cache, with the paused clock of tokio. See `README.md` in this folder.

use informer::Object;
use informer::testing::{TestServer, list, pod, watch};
use informer_examples::Result;
use k8s_openapi::api::core::v1::Pod;

/// Demonstrates the test server with an informer of pods.
#[tokio::main(flavor = "current_thread", start_paused = true)]
pub async fn main() -> Result {
    let server = TestServer::start().await;
    let pods = server.informer::<Pod>().await;

    // Inject a fault: the resourceVersion from which the first watch starts has expired (410). The informer
    // then lists again.
    server.faults().on(watch::<Pod>()).nth(1).expire();
    server.create(&pod("default/web-0")).await?;
    pods.wait_until(|cache| cache.contains("default/web-0")).await?;
    let lists = server.requests(list::<Pod>()).count();
    println!("{}", if lists == 2 { "two lists: one for the 410" } else { "not as many lists as expected" });

    // Change an object with the methods of the server, as another client of the cluster would do.
    let mut changed: Pod = server.get("default/web-0").await?;
    changed.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    server.update(&changed).await?;
    pods.wait_until(|cache| cache.get("default/web-0").is_some_and(|pod| pod.labels().get("app").is_some()))
        .await?;
    server.delete::<Pod>("default/web-0").await?;
    pods.wait_until(|cache| cache.is_empty()).await?;
    println!("the informer observed the deletion of web-0: {}", pods.indexer().is_empty());

    // A wait whose condition is never fulfilled ends after simulated seconds, with an error that describes
    // the state of the informer.
    if let Err(error) = pods.wait_until(|cache| cache.contains("default/nobody")).await {
        println!("{error}");
    }
    pods.stop().await;
    Ok(())
}
