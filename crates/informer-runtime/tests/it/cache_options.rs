use informer_client::{MemoryBudget, Metadata, ResourceKind};
use informer_core::Object;
use informer_runtime::{InformerOptions, ListOptions};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::fixture::{Server, gvr};

#[tokio::test(start_paused = true)]
async fn default_transform_and_tweak_apply_unless_a_more_specific_option_is_set() {
    let server = Server::start();
    server.labelled("default/web-0", "app=web");
    server.labelled("default/web-1", "app=api");
    let all = InformerOptions::default()
        .default_transform(|object| match object.downcast_ref::<Metadata<Pod>>() {
            Some(_) => Err("no metadata".into()),
            None => Ok(object),
        })
        .tweak_list_options(|gvr, options| {
            if gvr.resource == "pods" {
                options.labels = "app=web".parse().unwrap();
            }
        });
    let cache = server.cache().options(all.clone()).build();
    cache.start();
    let names: Vec<_> = cache.list::<Pod>(&ListOptions::default()).await.unwrap();
    assert_eq!(names.iter().map(|pod| pod.key().name()).collect::<Vec<_>>(), ["web-0"]);
    let metadata = cache.ready::<Metadata<Pod>>(ResourceKind::of::<Pod>()).await.unwrap();
    assert_eq!((metadata.len(), metadata.undecodable().len()), (0, 1));
    assert!(cache.states().iter().all(|state| state.name.contains("labels=app=web")));

    let own = InformerOptions::default().transform::<Metadata<Pod>>(Ok);
    let cache = server.cache().options(all).kind::<Pod>(own).build();
    cache.start();
    assert_eq!(cache.ready::<Metadata<Pod>>(ResourceKind::of::<Pod>()).await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn informers_stay_below_the_memory_limit_and_reads_are_complete() {
    let server = Server::start();
    for number in 0..100 {
        let note = format!("the note of web-{number}; ").repeat(200);
        let metadata = json!({"name": format!("web-{number}"), "annotations": {"note": note}});
        let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "web", "image": "web"}]}});
        server.api.create(&gvr("pods"), "default", pod).unwrap();
    }
    let unlimited = server.cache().memory_limit(usize::MAX).build();
    unlimited.start();
    let plain = unlimited.list::<Pod>(&ListOptions::default()).await.unwrap();
    let used = unlimited.memory().unwrap().used;
    assert_eq!(used, plain.iter().map(|pod| pod.held_bytes()).sum::<usize>());
    let budget = MemoryBudget::new(used);
    let caches = [0, 1].map(|_| server.cache().memory_budget(budget.clone()).build());
    for cache in &caches {
        cache.start();
        let pods = cache.list::<Pod>(&ListOptions::default()).await.unwrap();
        assert_eq!(pods.len(), 100);
        for pod in &pods {
            let same = plain.iter().find(|plain| plain.key() == pod.key()).unwrap();
            assert_eq!(pod.get().unwrap(), same.get().unwrap());
        }
    }
    let state = caches[0].memory().unwrap();
    assert_eq!(state.sources.iter().map(|source| source.objects).collect::<Vec<_>>(), [100, 100]);
    assert!(state.sources.iter().all(|source| source.is_compressed), "{state:?}");
    assert!(state.used <= state.limit, "{state:?}");
    assert_eq!(state, caches[1].memory().unwrap(), "the caches share the budget");
}
