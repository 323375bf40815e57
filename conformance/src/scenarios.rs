//! The scenarios of the suite, one module for each topic.

mod caches;
mod clients;
mod controllers;
mod credentials;
mod custom;
mod cuts;
mod elections;
mod errors;
mod forms;
mod handlers;
mod history;
mod indexes;
mod lifecycle;
mod managers;
mod scale;
mod selection;
mod streams;
mod sync;

use crate::Scenario;

type Topic = (&'static str, fn() -> Vec<Scenario>);

/// Returns all scenarios, sorted by topic.
pub fn all() -> Vec<Scenario> {
    let topics: [Topic; 18] = [
        ("sync", sync::all),
        ("forms", forms::all),
        ("selection", selection::all),
        ("handlers", handlers::all),
        ("indexes", indexes::all),
        ("life cycle", lifecycle::all),
        ("cuts", cuts::all),
        ("history", history::all),
        ("errors", errors::all),
        ("custom resources", custom::all),
        ("credentials", credentials::all),
        ("clients", clients::all),
        ("streams", streams::all),
        ("caches", caches::all),
        ("managers", managers::all),
        ("elections", elections::all),
        ("controllers", controllers::all),
        ("scale", scale::all),
    ];
    let topic = |(topic, scenarios): Topic| {
        scenarios().into_iter().map(move |scenario| Scenario { topic, ..scenario })
    };
    topics.into_iter().flat_map(topic).collect()
}
