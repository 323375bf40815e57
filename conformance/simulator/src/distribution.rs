use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

/// How many values are in each of the ranges `0..width`, `width..2 * width` and so on. Ranges without values
/// take no memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution(BTreeMap<u64, u64>);

impl Distribution {
    /// Adds `count` values to the range with this index, which is the value divided by the width.
    pub fn add(&mut self, range: u64, count: u64) {
        *self.0.entry(range).or_default() += count;
    }

    /// Returns the distribution with its name and the width of its ranges, as it is written to JSON.
    pub fn named(self, name: &'static str, width: u64) -> NamedDistribution {
        NamedDistribution { name, width, counts: self.0 }
    }
}

impl AddAssign<&Distribution> for Distribution {
    fn add_assign(&mut self, other: &Distribution) {
        other.0.iter().for_each(|(range, count)| self.add(*range, *count));
    }
}

/// A distribution in the JSON output of a simulator. `cargo xtask simulate --report` draws it.
#[derive(Debug, Clone, Serialize)]
pub struct NamedDistribution {
    name: &'static str,
    width: u64,
    counts: BTreeMap<u64, u64>,
}
