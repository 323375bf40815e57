use informer::Object;
use informer::cache::{Indexers, SharedInformer, field, label};
use serde_json::json;

use crate::bench::{Map, maps};
use crate::scenario::scenario;
use crate::{Bench, Failure, InitialRead, Scenario, Watched};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(an_index_follows_the_objects),
        scenario!(an_index_added_later_covers_cached_objects),
        scenario!(namespaces_are_indexed),
        scenario!(a_snapshot_does_not_change),
        scenario!(listers_select_without_requests),
    ]
}

async fn an_index_follows_the_objects(bench: Bench) -> Result<(), Failure> {
    let informer = bench.maps(InitialRead::List).index("value", field("data.value"));
    bench.create_many("map", 4).await?;
    let watched = Watched::synced(informer).await?;
    assert_eq!(watched.informer.by_index("value", "0")?.len(), 4);
    bench.change("map-1", "other").await?;
    bench.delete("map-2").await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(watched.informer.by_index("value", "0")?.len(), 2);
    let other = watched.informer.by_index("value", "other")?;
    assert_eq!(other.iter().map(|map| map.key().name()).collect::<Vec<_>>(), ["map-1"]);
    let mut values = watched.informer.indexer().index_values("value");
    values.sort();
    assert_eq!(values.iter().map(|value| &**value).collect::<Vec<_>>(), ["0", "other"]);
    Ok(())
}

async fn an_index_added_later_covers_cached_objects(bench: Bench) -> Result<(), Failure> {
    let map = json!({"metadata": {"name": "a", "labels": {"app": "web"}}});
    bench.api.create(&maps(), &bench.namespace, &map).await?;
    let watched = Watched::synced(bench.maps(InitialRead::Stream)).await?;
    watched.informer.add_indexers(Indexers::new().index("app", label("app")))?;
    assert_eq!(watched.informer.by_index("app", "web")?.len(), 1);
    assert!(
        watched.informer.add_indexers(Indexers::new().index("app", label("app"))).is_err(),
        "the index name is already used"
    );
    assert!(watched.informer.by_index("absent", "x").is_err());
    Ok(())
}

async fn namespaces_are_indexed(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 3).await?;
    let informer: SharedInformer<Map> =
        SharedInformer::new(informer::client::KubeListWatch::all(bench.client()));
    let watched = Watched::synced(informer).await?;
    watched
        .until(|cache| cache.by_index("namespace", &bench.namespace).is_ok_and(|maps| maps.len() == 3))
        .await?;
    let lister = watched.informer.lister().namespace(&*bench.namespace);
    assert_eq!(lister.list(&"".parse()?).len(), 3);
    assert!(lister.get("map-1").is_ok());
    assert!(lister.get("absent").is_err());
    Ok(())
}

async fn a_snapshot_does_not_change(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 5).await?;
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let before = watched.informer.snapshot();
    let version = before.get(&bench.key("map-0")).ok_or("map-0 is missing")?.resource_version().clone();
    bench.change("map-0", "1").await?;
    bench.delete("map-1").await?;
    bench.settled(&watched, &maps()).await?;
    assert_eq!(before.len(), 5);
    assert_eq!(before.get(&bench.key("map-0")).map(|map| map.resource_version().clone()), Some(version));
    assert_eq!(watched.informer.snapshot().len(), 4);
    assert!(before.version() < watched.informer.snapshot().version());
    Ok(())
}

async fn listers_select_without_requests(bench: Bench) -> Result<(), Failure> {
    for (name, app) in [("a", "web"), ("b", "api"), ("c", "web")] {
        let map = json!({"metadata": {"name": name, "labels": {"app": app}}});
        bench.api.create(&maps(), &bench.namespace, &map).await?;
    }
    bench.visible(&maps()).await?;
    let watched = Watched::synced(bench.maps(InitialRead::List)).await?;
    let requests = watched.informer.state().reflector.list_requests;
    let lister = watched.informer.lister();
    assert_eq!(lister.list(&"app=web".parse()?).len(), 2);
    assert_eq!(lister.list(&"app notin (web)".parse()?).len(), 1);
    assert_eq!(watched.informer.state().reflector.list_requests, requests);
    Ok(())
}
