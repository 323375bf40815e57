//! The targets over their seeds, and the tools of the harness.

use informer_fuzz::{TARGETS, mutate, seeds, shrink};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Mutated inputs for each target: enough to see that the target runs, not to find much.
const MUTATED: usize = 300;

#[test]
fn every_target_holds_over_its_seeds_and_their_neighbours() {
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
fn a_failing_input_is_shrunk_to_what_fails() {
    let fails = |input: &[u8]| input.windows(2).any(|pair| pair == b"}{");
    assert_eq!(shrink(b"{\"a\":[1,2,3]}{\"b\":{}}", fails), b"}{");
}

#[test]
fn mutations_of_a_seed_are_the_same_again() {
    let one = |mut rng: StdRng| {
        let mut input = b"{\"items\":[]}".to_vec();
        mutate(&mut input, &[b"other".to_vec()], &["word"], &mut rng);
        input
    };
    assert_eq!(one(StdRng::seed_from_u64(7)), one(StdRng::seed_from_u64(7)));
}
