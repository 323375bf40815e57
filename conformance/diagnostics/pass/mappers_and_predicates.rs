//! Handlers, mappers, predicates and sources of controllers. Closures of methods of the builder and of a
//! watch need no types; those of `map` and `object` name the type of their object.

use std::time::Duration;

use informer::k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use informer::prelude::*;
use informer::runtime::handler::{enqueue_object, enqueue_owner, map};
use informer::runtime::predicate::{funcs, generation_changed, labels_changed, object, or};
use informer::runtime::{Manager, RunnableGroup, runnable, source};

fn controller() -> Controller {
    let name = |secret: &Lazy<Secret>| Some(Request::new(secret.key().clone()));
    let labeled = object(|secret: &Lazy<Secret>| secret.labels().get("app").is_some());
    let tick = source::function("minutes", |enqueuer| async move {
        enqueuer.enqueue(0).add("default/all".parse::<Request>()?);
        Ok(())
    });
    Controller::builder()
        .named("maps")
        .for_with(source::watch::<ConfigMap>().filter(or(generation_changed(), labels_changed())))
        .watches::<Secret>(map(name))
        .watches_mapped::<Secret>(|secret| Some(Request::new(secret.key().clone())))
        .watches_mapped::<Secret>(|secret| {
            let names = secret.labels().get("maps").unwrap_or_default();
            names.split('.').filter_map(|name| name.parse().ok()).collect::<Vec<Request>>()
        })
        .watches::<Pod>(enqueue_owner::<ConfigMap>().only_controller())
        .watches::<Pod>(enqueue_object())
        .watches_with(source::watch::<Secret>().filter(labeled), map(name))
        .watches_with(source::watch::<Secret>().filter(funcs().deleted(|_| false)), map(name))
        .watches_with(
            source::watch::<Secret>().filter_object(|secret| secret.labels().get("app").is_some()),
            map(name),
        )
        .event_filter(|event| event.key().namespace() != Some("kube-system"))
        .source(tick)
        .reconcile(|_, _| async { Ok(Outcome::Done) })
}

fn manager(client: Client) -> Manager {
    let sweeper = runnable("sweeper", |stop| async move {
        while !stop.is_cancelled() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    });
    Manager::new(client).controller(controller()).add(sweeper.group(RunnableGroup::Others))
}

fn main() {
    let _ = manager;
}
