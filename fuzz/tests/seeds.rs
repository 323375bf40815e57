//! Runs the targets on their seeds, and tests the harness.

use std::time::Duration;

use informer_fuzz::{Campaign, TARGETS, Target, mutate, seeds, shrink};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Mutated inputs per target: enough to check that the target runs, not to find bugs.
const MUTATED: usize = 300;

#[test]
fn every_target_passes_on_its_seeds_and_on_mutations() {
    for target in TARGETS {
        let inputs = seeds(*target);
        assert!(!inputs.is_empty(), "{} has no seeds", target.name);
        let mut rng = StdRng::seed_from_u64(1);
        for input in &inputs {
            (target.run)(input);
        }
        for index in 0..MUTATED {
            let mut input = inputs[index % inputs.len()].clone();
            mutate(&mut input, &inputs, target.words, &mut rng);
            (target.run)(&input);
        }
    }
}

#[test]
fn a_failing_input_is_shrunk_to_the_failing_part() {
    let fails = |input: &[u8]| input.windows(2).any(|pair| pair == b"}{");
    assert_eq!(shrink(b"{\"a\":[1,2,3]}{\"b\":{}}", fails), b"}{");
}

#[test]
fn mutations_are_reproducible_from_the_seed() {
    let one = |mut rng: StdRng| {
        let mut input = b"{\"items\":[]}".to_vec();
        mutate(&mut input, &[b"other".to_vec()], &["word"], &mut rng);
        input
    };
    assert_eq!(one(StdRng::seed_from_u64(7)), one(StdRng::seed_from_u64(7)));
}

/// Returns a campaign with the seeds of `keys`, without mutations unless it has time.
fn campaign(run: fn(&[u8]), lasts: Duration, shrinks_for: Duration) -> Campaign {
    Campaign { target: Target { name: "keys", run, words: &["<word>"] }, seed: 1, lasts, shrinks_for }
}

#[test]
fn a_failing_seed_ends_the_campaign_with_the_smallest_input() {
    let run = |input: &[u8]| assert!(!input.contains(&b'/'), "a slash");
    let found = campaign(run, Duration::ZERO, Duration::from_secs(3600)).run(|_| {});
    let crash = found.crash.expect("a seed contains a slash");
    assert_eq!((&*crash.input, &*crash.message), (&b"/"[..], "a slash"));
}

#[test]
fn a_failing_mutation_ends_the_campaign_with_the_smallest_input() {
    let run = |input: &[u8]| assert!(!input.windows(6).any(|piece| piece == b"<word>"), "a word");
    let found = campaign(run, Duration::from_secs(3600), Duration::from_secs(3600)).run(|_| {});
    let crash = found.crash.expect("mutations insert words");
    assert_eq!((&*crash.input, &*crash.message), (&b"<word>"[..], "a word"));
    assert!(found.executions > 4, "no seed contains the word");
}

#[test]
fn an_input_is_reported_unshrunk_if_the_time_for_shrinking_is_zero() {
    let run = |input: &[u8]| assert!(!input.contains(&b'/'), "a slash");
    let mut last = Vec::new();
    let crash = campaign(run, Duration::ZERO, Duration::ZERO).run(|input| {
        if input.contains(&b'/') && last.is_empty() {
            input.clone_into(&mut last);
        }
    });
    let crash = crash.crash.expect("a seed contains a slash");
    assert_eq!(crash.input, last);
}

#[test]
fn the_callback_also_receives_the_inputs_of_shrinking() {
    let run = |input: &[u8]| assert!(!input.contains(&b'/'), "a slash");
    let mut heard = 0;
    let found = campaign(run, Duration::ZERO, Duration::from_secs(3600)).run(|_| heard += 1);
    assert!(heard > found.executions, "{heard} of {}", found.executions);
}
