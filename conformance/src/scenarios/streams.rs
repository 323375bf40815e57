use futures_util::{StreamExt, TryStreamExt};
use informer::Object;
use informer::cache::Change;
use informer::client::WatchChanges;
use informer_runtime::ListOptions;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent};

use super::clients::cached;
use super::history::{Happening, events, forget, happen};
use super::sync::event;
use crate::bench::{Map, maps};
use crate::request_log::RequestLog;
use crate::scenario::scenario;
use crate::watched::PATIENCE;
use crate::{Bench, Failure, InitialRead, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        scenario!(a_stream_of_changes_resumes_after_a_cut),
        scenario!(a_stream_of_changes_lists_again_after_a_compaction).alone(),
        scenario!(a_streamed_list_shows_one_version_in_several_pages),
        scenario!(a_streamed_list_continues_after_a_compaction).alone(),
    ]
}

/// Returns the next change of an object or of all objects, without bookmarks, as the name of the change and
/// the names of the objects in this namespace.
async fn next<O: Object>(
    bench: &Bench,
    changes: &mut WatchChanges<O>,
) -> Result<(&'static str, Vec<String>), Failure> {
    loop {
        let change = tokio::time::timeout(PATIENCE, changes.next()).await;
        let change = change.map_err(|_| format!("no change; the stream is {:?}", changes.status()))?;
        let change = change.ok_or("the stream has ended")?;
        let (what, keys) = match &change {
            Change::Bookmark(_) => continue,
            Change::Replaced(list) => {
                ("replaced", list.items.iter().map(|item| item.object().key().clone()).collect())
            }
            Change::Added(object) => ("added", vec![object.key().clone()]),
            Change::Updated(object) => ("updated", vec![object.key().clone()]),
            Change::Deleted(tombstone) => ("deleted", vec![tombstone.key().clone()]),
            other => return Err(format!("unexpected change of {:?}", other.key()).into()),
        };
        let here = keys.iter().filter(|key| key.namespace() == Some(&*bench.namespace));
        let mut names: Vec<String> = here.map(|key| key.name().to_owned()).collect();
        names.sort_unstable();
        return Ok((what, names));
    }
}

fn change(what: &'static str, names: &[&str]) -> (&'static str, Vec<String>) {
    (what, names.iter().map(|name| (*name).to_owned()).collect())
}

async fn a_stream_of_changes_resumes_after_a_cut(bench: Bench) -> Result<(), Failure> {
    for way in [InitialRead::List, InitialRead::Stream] {
        let (cable, client) = bench.cable().await?;
        bench.create("a").await?;
        let mut changes = WatchChanges::new(bench.source::<Map>(&client, way));
        assert_eq!(next(&bench, &mut changes).await?, change("replaced", &["a"]));
        bench.create("b").await?;
        assert_eq!(next(&bench, &mut changes).await?, change("added", &["b"]));
        let before = changes.status();
        cable.unplug().await;
        bench.change("a", "1").await?;
        bench.delete("b").await?;
        bench.create("c").await?;
        cable.plug();
        assert_eq!(next(&bench, &mut changes).await?, change("updated", &["a"]));
        assert_eq!(next(&bench, &mut changes).await?, change("deleted", &["b"]));
        assert_eq!(next(&bench, &mut changes).await?, change("added", &["c"]));
        let after = changes.status();
        assert!(after.watches_opened > before.watches_opened);
        assert_eq!((after.relists.total(), after.list_requests), (0, before.list_requests), "{way:?}");
        drop(changes);
        bench.delete("a").await?;
        bench.delete("c").await?;
        bench.visible(&maps()).await?;
    }
    Ok(())
}

async fn a_stream_of_changes_lists_again_after_a_compaction(bench: Bench) -> Result<(), Failure> {
    let (cable, client) = bench.cable().await?;
    happen(&bench, "kept").await?;
    happen(&bench, "lost").await?;
    bench.visible(&events()).await?;
    let mut changes = client.watch::<Happening>();
    assert_eq!(next(&bench, &mut changes).await?, change("replaced", &["kept", "lost"]));
    happen(&bench, "seen").await?;
    // Managers of other scenarios have written events to other namespaces.
    while next(&bench, &mut changes).await? != change("added", &["seen"]) {}
    cable.unplug().await;
    bench.api.delete(&events(), &bench.namespace, "lost").await?;
    forget(&bench).await?;
    cable.plug();
    let (what, names) = next(&bench, &mut changes).await?;
    let names: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !name.starts_with("after-")).collect();
    assert_eq!((what, names), ("replaced", vec!["kept", "seen"]), "an object that is not listed was deleted");
    happen(&bench, "last").await?;
    while next(&bench, &mut changes).await? != change("added", &["last"]) {}
    Ok(())
}

async fn a_streamed_list_shows_one_version_in_several_pages(bench: Bench) -> Result<(), Failure> {
    bench.create_many("map", 25).await?;
    let (client, requests) = RequestLog::of(bench.client());
    let client = cached(&bench, client);
    let options = ListOptions::default().namespace(&*bench.namespace).limit(10);
    let mut stream = client.live().stream::<ConfigMap>(&options);
    let first = stream.try_next().await?.ok_or("the list is empty")?;
    let collection = maps().path(Some(&bench.namespace));
    assert_eq!(requests.count(|request| request.is_list(&collection)), 1, "pages are requested when needed");
    // These changes are later than the version of the first page. `map-9` and `z` sort after that page.
    bench.create("a").await?;
    bench.create("z").await?;
    bench.delete("map-9").await?;
    let rest: Vec<_> = stream.try_collect().await?;
    let listed = std::iter::once(&first).chain(&rest);
    let names: Vec<_> = listed.filter_map(|map| map.metadata.name.clone()).collect();
    let mut expected: Vec<_> = (0..25).map(|number| format!("map-{number}")).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(requests.count(|request| request.is_list(&collection)), 3);
    Ok(())
}

async fn a_streamed_list_continues_after_a_compaction(bench: Bench) -> Result<(), Failure> {
    let namespace = bench.namespace.clone();
    let object = |number: usize| (namespace.clone(), event(&namespace, &format!("event-{number}")));
    crate::load(&bench.api, &events(), 25, object).await?;
    let client = cached(&bench, bench.client());
    let options = ListOptions::default().namespace(&*bench.namespace).limit(10);
    let mut stream = client.live().stream::<CoreEvent>(&options);
    let first = stream.try_next().await?.ok_or("the list is empty")?;
    happen(&bench, "z").await?;
    bench.api.delete(&events(), &bench.namespace, "event-9").await?;
    forget(&bench).await?;
    let rest: Vec<_> = stream.try_collect().await?;
    let listed = std::iter::once(&first).chain(&rest);
    let names: Vec<_> = listed.filter_map(|event| event.metadata.name.clone()).collect();
    let mut expected: Vec<_> = (0..25).map(|number| format!("event-{number}")).collect();
    expected.sort_unstable();
    expected.retain(|name| name != "event-9");
    expected.push("z".to_owned());
    assert_eq!(names, expected, "later pages show the newest state, and no object is listed twice");
    Ok(())
}
