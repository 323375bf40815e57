//! Runs one target on mutated seeds until its time is over or a check fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::{Target, mutate, seeds, shrink};

/// The maximum number of mutated inputs that are kept for further mutation.
const MAX_KEPT: usize = 256;

/// One target, and how long it runs.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The target.
    pub target: Target,
    /// The seed of the mutations.
    pub seed: u64,
    /// The duration of the mutations.
    pub lasts: Duration,
    /// The maximum duration of shrinking. A target that starts a server for each input would otherwise take
    /// an hour.
    pub shrinks_for: Duration,
}

/// The result of a campaign.
#[derive(Debug)]
pub struct CampaignResult {
    /// Number of tested inputs, without those of shrinking.
    pub executions: u64,
    /// The failure that ended the campaign early, if any.
    pub crash: Option<Crash>,
}

/// A failed check.
#[derive(Debug)]
pub struct Crash {
    /// The smallest failing input.
    pub input: Vec<u8>,
    /// The message of the first failure.
    pub message: String,
}

impl Campaign {
    /// Runs the seeds and then mutations of them. Calls `begin` with each input before running it.
    ///
    /// # Panics
    ///
    /// When the seeds cannot be read.
    pub fn run(&self, mut begin: impl FnMut(&[u8])) -> CampaignResult {
        let (seeds, mut rng) = (seeds(self.target), StdRng::seed_from_u64(self.seed));
        let (mut inputs, mut executions) = (seeds.clone(), 0);
        let deadline = Instant::now() + self.lasts;
        for input in seeds {
            executions += 1;
            if let Some(crash) = self.attempt(&input, &mut begin) {
                return CampaignResult { executions, crash: Some(crash) };
            }
        }
        // Reading the clock costs as much as a short run.
        while executions % 64 != 0 || Instant::now() < deadline {
            let mut input = match inputs.len() {
                0 => Vec::new(),
                count => inputs[rng.random_range(0..count)].clone(),
            };
            mutate(&mut input, &inputs, self.target.words, &mut rng);
            executions += 1;
            if let Some(crash) = self.attempt(&input, &mut begin) {
                return CampaignResult { executions, crash: Some(crash) };
            }
            keep(&mut inputs, input, &mut rng);
        }
        CampaignResult { executions, crash: None }
    }

    fn attempt(&self, input: &[u8], begin: &mut impl FnMut(&[u8])) -> Option<Crash> {
        begin(input);
        let message = self.outcome(input).err()?;
        let until = Instant::now() + self.shrinks_for;
        let input = shrink(input, |input| {
            begin(input);
            Instant::now() < until && self.outcome(input).is_err()
        });
        Some(Crash { input, message })
    }

    fn outcome(&self, input: &[u8]) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| (self.target.run)(input))).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned())).unwrap_or_default()
        })
    }
}

/// Keeps one input in a thousand, so that changes accumulate without drifting away from the seeds.
fn keep(inputs: &mut Vec<Vec<u8>>, input: Vec<u8>, rng: &mut StdRng) {
    if rng.random_ratio(1, 1000) && inputs.len() < MAX_KEPT {
        inputs.push(input);
    }
}
