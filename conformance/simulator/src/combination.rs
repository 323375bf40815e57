//! Combinations: rounds of steps in the order that a rare defect needs. Random steps seldom have that order.

use std::ops::Range;

use crate::fault::Fault;
use crate::random::Random;
use crate::script::{Setup, Step, Verb};
use crate::theme::Theme;

/// Verbs in order, each with the range from which the number of its repetitions is drawn.
type VerbSequence = &'static [(Verb, Range<usize>)];

/// A kind of schedule that repeats a round of steps. Random faults replace some of the steps.
pub(crate) struct Combination {
    /// The theme of the random faults.
    pub(crate) theme: Theme,
    /// Adjusts the random setup, so that the round can have an effect.
    pub(crate) prepare: fn(&mut Setup),
    /// The first steps of the schedule.
    opening: VerbSequence,
    /// The steps that are repeated until the end of the schedule.
    round: VerbSequence,
    /// The number of random faults. They replace steps, and many of them would interrupt most rounds.
    pub(crate) faults: Range<usize>,
}

/// One of this many consecutive seeds runs a combination. The schedules of the other seeds do not depend on
/// the combinations.
const COMBINATION_INTERVAL: u64 = 8;

const COMBINATIONS: [Combination; 3] = [
    // A restore of the server moves its versions back, and an object to an undecodable state. A later write
    // gives other content the version that the informer's store has for this object. A watch, or a list that
    // reuses known objects, delivers that content.
    Combination {
        theme: Theme::Restores,
        prepare: |setup| setup.few_keys = 2,
        opening: &[],
        round: &[
            (Verb::Reflect, 8..16),
            (Verb::Fault(Fault::Unreadable), 1..2),
            (Verb::BackUp, 1..2),
            (Verb::Write, 1..2),
            (Verb::Reflect, 4..9),
            (Verb::Pump, 2..5),
            (Verb::Fault(Fault::Rewind), 1..2),
            (Verb::Fault(Fault::RelistRequested), 1..2),
            (Verb::Wait, 2..5),
            (Verb::Reflect, 8..16),
            (Verb::Pump, 2..5),
            (Verb::Write, 1..2),
            (Verb::Fault(Fault::InformerRestarts), 0..2),
        ],
        faults: 0..3,
    },
    // The server rejects a page of a list with status 429, mostly with `Retry-After`, and a relist is
    // requested during the wait.
    Combination {
        theme: Theme::Requests,
        prepare: |setup| (setup.paging, setup.page, setup.streaming_wish) = (2, 3, 4),
        opening: &[],
        round: &[
            (Verb::Fault(Fault::InformerRestarts), 1..2),
            (Verb::Reflect, 3..6),
            (Verb::Fault(Fault::TooMany), 1..2),
            (Verb::Reflect, 1..4),
            (Verb::Fault(Fault::RelistRequested), 1..2),
            (Verb::Reflect, 2..6),
            (Verb::Wait, 0..3),
            (Verb::Pump, 0..3),
        ],
        faults: 0..5,
    },
    // A key is added again while a worker processes it and the other workers wait for a key. The opening lets
    // the workers process all keys, because otherwise they do not wait.
    Combination {
        theme: Theme::Users,
        prepare: |setup| (setup.few_keys, setup.workers) = (2, 3),
        opening: &[(Verb::Reflect, 6..8), (Verb::Pump, 2..4), (Verb::Handle, 24..32), (Verb::Work, 28..40)],
        round: &[
            (Verb::Write, 1..2),
            (Verb::Reflect, 1..4),
            (Verb::Pump, 1..3),
            (Verb::Handle, 2..6),
            (Verb::Work, 1..6),
        ],
        faults: 4..9,
    },
];

impl Combination {
    /// Returns the combination that a seed runs, or `None` for a random schedule.
    pub(crate) fn of_seed(seed: u64) -> Option<&'static Self> {
        let nth = (seed / COMBINATION_INTERVAL) as usize % COMBINATIONS.len();
        (seed % COMBINATION_INTERVAL == COMBINATION_INTERVAL - 1).then_some(&COMBINATIONS[nth])
    }

    /// Returns the opening, followed by `count` steps of repeated rounds. The first round is cut off, not the
    /// last: states are compared at the end, and an incomplete last round can hide the effect of an earlier
    /// one.
    pub(crate) fn steps(&self, count: usize, random: &mut Random) -> Vec<Step> {
        let mut steps = draw_steps(self.opening, random);
        let mut rounds = Vec::new();
        while rounds.len() < count {
            rounds.extend(draw_steps(self.round, random));
        }
        steps.extend(rounds.split_off(rounds.len() - count));
        steps
    }
}

fn draw_steps(verbs: VerbSequence, random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    for (verb, times) in verbs {
        let times = random.between(times.start, times.end);
        steps.extend((0..times).map(|_| Step { verb: *verb, chance: random.draw() as u16 }));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_in_eight_runs_a_combination_and_all_combinations_occur() {
        let selected: Vec<_> = (0..240).filter_map(Combination::of_seed).collect();
        assert_eq!(selected.len(), 30);
        for combination in &COMBINATIONS {
            assert_eq!(selected.iter().filter(|other| std::ptr::eq(**other, combination)).count(), 10);
        }
    }
}
