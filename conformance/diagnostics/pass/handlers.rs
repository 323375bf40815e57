//! Handlers of informers: the closures have no annotations.

use std::time::Duration;

use informer::cache::handler_funcs;
use informer::k8s_openapi::api::core::v1::Pod;
use informer::prelude::*;

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
    let callbacks = handler_funcs()
        .on_add(|object, initial| println!("+ {object:?} {initial}"))
        .on_update(|_, new| println!("~ {new:?}"))
        .on_delete(|last| println!("- {last:?}"));
    pods.add_handler(callbacks)?;
    Ok(())
}

fn main() {
    let _ = handlers;
}
