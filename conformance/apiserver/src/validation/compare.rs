//! The comparison of two responses, and its figures per kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::describe;
use super::generate::Change;
use super::send::Response;

/// The number of examples that are kept for each difference.
const EXAMPLES: usize = 3;

/// The responses of both servers to one generated object.
#[derive(Debug)]
pub struct Comparison {
    kind: &'static str,
    seed: u64,
    method: &'static str,
    changes: Vec<Change>,
    real: Response,
    embedded: Response,
}

impl Comparison {
    pub(super) fn new(
        kind: &'static str,
        seed: u64,
        method: &'static str,
        changes: Vec<Change>,
        real: Response,
        embedded: Response,
    ) -> Self {
        Self { kind, seed, method, changes, real, embedded }
    }

    /// Returns true if both servers accepted the object, or both rejected it.
    fn same_verdict(&self) -> bool {
        (self.real.status < 400) == (self.embedded.status < 400)
    }

    /// Returns true if status, reason, and the fields and reasons of all causes are equal.
    fn same_causes(&self) -> bool {
        let parts = |response: &Response| (response.status, response.reason.clone(), response.causes.clone());
        parts(&self.real) == parts(&self.embedded)
    }

    /// Returns the difference without values and indexes, so that equal differences are counted together.
    fn signature(&self) -> String {
        let only = |one: &Response, other: &Response| {
            let mut causes: Vec<String> = one
                .causes
                .iter()
                .filter(|cause| !other.causes.contains(cause))
                .map(|(field, reason)| format!("{} {reason}", without_indexes(field)))
                .collect();
            causes.sort_unstable();
            causes.dedup();
            causes.join(", ")
        };
        let (real, embedded) = (&self.real, &self.embedded);
        let fields: Vec<String> = self.changes.iter().map(|change| without_indexes(&change.path)).collect();
        let causes = if real.causes.is_empty() && embedded.causes.is_empty() {
            fields.join(" and ")
        } else {
            format!("real only [{}], embedded only [{}]", only(real, embedded), only(embedded, real))
        };
        format!("{} {} instead of {}: {causes}", self.method, embedded.status, real.status)
    }
}

fn without_indexes(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut inside = false;
    for character in path.chars() {
        match character {
            '[' => {
                inside = true;
                out.push_str("[]");
            }
            ']' => inside = false,
            _ if inside => {}
            character => out.push(character),
        }
    }
    out
}

/// A difference between the servers that was found more than once, with examples.
#[derive(Debug, Default, Serialize)]
pub struct Mismatch {
    /// The number of objects with this difference.
    pub count: u64,
    /// The verdicts differ: one server accepted the object.
    pub verdict: bool,
    /// The seed, the changes and both responses of some objects.
    pub examples: Vec<String>,
}

/// The response of the real server to one generated object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The seed from which the object is generated.
    pub seed: u64,
    /// The HTTP status.
    pub status: u16,
    /// The reason of the status; empty if the object was accepted.
    pub reason: String,
    /// The field and the reason of each cause, sorted.
    pub causes: Vec<(String, String)>,
}

impl Verdict {
    pub(super) fn new(seed: u64, response: Response) -> Self {
        let Response { status, reason, causes, .. } = response;
        Self { seed, status, reason, causes }
    }
}

/// The figures of one kind.
#[derive(Debug, Default, Serialize)]
pub struct KindFigures {
    /// The number of compared objects.
    pub objects: u64,
    /// The number of objects that the real server rejected.
    pub rejected: u64,
    /// The number of objects that both servers accepted, or both rejected.
    pub same_verdict: u64,
    /// The number of objects with equal status, reason, and fields and reasons of all causes.
    pub same_causes: u64,
    /// The responses to the objects for which the servers agree.
    #[serde(skip)]
    pub agreed: Vec<Verdict>,
    /// The differences, by their description.
    pub mismatches: BTreeMap<String, Mismatch>,
}

impl KindFigures {
    pub(super) fn add(&mut self, comparison: Comparison) {
        self.objects += 1;
        self.rejected += u64::from(comparison.real.status >= 400);
        self.same_verdict += u64::from(comparison.same_verdict());
        if comparison.same_causes() {
            self.same_causes += 1;
            self.agreed.push(Verdict::new(comparison.seed, comparison.real));
            return;
        }
        let verdict = !comparison.same_verdict();
        let mismatch = self.mismatches.entry(comparison.signature()).or_default();
        mismatch.count += 1;
        mismatch.verdict |= verdict;
        if mismatch.examples.len() < EXAMPLES {
            let Comparison { kind, seed, changes, real, embedded, .. } = &comparison;
            mismatch.examples.push(format!(
                "{kind} seed {seed}: {}\n  real     {real}\n  embedded {embedded}",
                describe(changes)
            ));
        }
    }
}
