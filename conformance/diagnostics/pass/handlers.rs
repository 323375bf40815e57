//! Handlers of informers: the closures have no annotations. The closures of the methods `on_event` and
//! `on_event_async` also read the object.

use std::time::Duration;

use informer::cache::handler_funcs;
use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;
use informer::runtime::Cache;

fn handlers(pods: &SharedInformer<Lazy<Pod>>) -> Result<(), Box<dyn std::error::Error>> {
    let mut count = 0;
    pods.add_handler(on_event(move |event| {
        count += 1;
        println!("{count}: {event} {}", event.key());
    }))?;
    pods.add_handler(on_event_async(|event| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        println!("{event}");
    }))?;
    pods.on_event(|event| println!("{:?}", event.object().labels().get("app")))?;
    pods.on_event_async(|event| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        println!("{:?}", event.object().labels().get("app"));
    })?;
    let callbacks = handler_funcs()
        .on_add(|object, initial| println!("+ {object:?} {initial}"))
        .on_update(|_, new| println!("~ {new:?}"))
        .on_delete(|last| println!("- {last:?}"));
    pods.add_handler(callbacks)?;
    Ok(())
}

fn of_a_cache(cache: &Cache) -> Result<(), Box<dyn std::error::Error>> {
    cache.informer::<Pod>().on_event(|event| println!("{}", event.object().resource_version()))?;
    let images = cache.informer::<Pod>().on_event_async(|event| async move {
        let image =
            event.object().get().ok().and_then(|pod| pod.spec.as_ref()?.containers.first()?.image.clone());
        println!("{image:?}");
    })?;
    images.remove();
    Ok(())
}

fn main() {
    let _ = (handlers, of_a_cache);
}
