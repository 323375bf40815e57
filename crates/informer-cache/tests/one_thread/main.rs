//! Deterministic simulation of an informer: the real reflector, queue, pump, store and two listener buffers
//! run against a faulty model of an API server, on one thread and in simulated time, without a runtime. This
//! shows that these parts need no clock, task or lock. A seed determines the whole run. A failed test prints
//! the seed, and `INFORMER_SEED=n` runs only that seed.

mod connection;
mod server;
mod world;

use crate::world::World;

const SEEDS: u64 = 1000;

fn run(seed: u64) -> world::Tally {
    let outcome = std::panic::catch_unwind(|| World::new(seed).run());
    outcome.unwrap_or_else(|_| panic!("seed {seed} failed; run it alone with INFORMER_SEED={seed}"))
}

#[test]
fn after_any_faults_cache_and_handlers_equal_the_server_and_every_history_is_legal() {
    if let Ok(seed) = std::env::var("INFORMER_SEED") {
        run(seed.parse().expect("INFORMER_SEED is a number"));
        return;
    }
    let mut tally = world::Tally::default();
    for seed in 0..SEEDS {
        tally += run(seed);
    }
    // The test is useful only if the runs of all seeds together reach each rare case, such as a restore from
    // a backup, often enough.
    assert!(tally.lists > 2 * SEEDS, "lists: {}", tally.lists);
    assert!(tally.rewound > SEEDS / 50, "restores: {}", tally.rewound);
    assert!(tally.stale_lists > 10, "lists of lagging replicas: {}", tally.stale_lists);
    assert!(tally.fallbacks > SEEDS / 50, "replaced streaming lists: {}", tally.fallbacks);
    assert!(tally.streamed > SEEDS / 50, "streaming lists: {}", tally.streamed);
    assert!(tally.silent > 10, "silent watches: {}", tally.silent);
    assert!(tally.undecodable > SEEDS / 10, "undecodable objects: {}", tally.undecodable);
    assert!(tally.coalesced > SEEDS, "merged events: {}", tally.coalesced);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 17, 99] {
        assert_eq!(run(seed), run(seed));
    }
}
