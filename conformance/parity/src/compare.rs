//! Compares the lines in the traces of client-go and of this library.

use std::collections::{BTreeMap, BTreeSet};

use similar::{ChangeTag, TextDiff};

/// The lines of the trace of one run, by stream. A stream contains the lines of one kind, for example the
/// requests, the reads of the store, or the calls of one handler.
pub type Streams = BTreeMap<String, Vec<String>>;

/// The result of comparing traces: the differences between client-go and this library, and the places that
/// were not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// The lines that only one of the peers has: `STREAM: - LINE` for client-go, `STREAM: + LINE` for this
    /// library.
    pub lines: Vec<String>,
    /// The places at which runs on client-go differ from each other. The run of this library is not compared
    /// with them there.
    pub masked: Vec<String>,
}

const MASK: &str = "(varies)";

/// Compares the traces of runs on client-go, at least one, with the trace of one run of this library.
pub fn compare(theirs: &[Streams], ours: &Streams) -> Compared {
    let mut compared = Compared::default();
    let names: BTreeSet<&String> = theirs.iter().chain([ours]).flat_map(BTreeMap::keys).collect();
    for name in names {
        let lines_of = |streams: &Streams| streams.get(name).cloned().unwrap_or_default();
        let runs: Vec<Vec<String>> = theirs.iter().map(lines_of).collect();
        let mask = Mask::of(&runs);
        compared.masked.extend(mask.places(name));
        let theirs = mask.apply(runs.into_iter().next().unwrap_or_default());
        let ours = mask.apply(lines_of(ours));
        let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
        let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
        for change in TextDiff::from_slices(&theirs, &ours).iter_all_changes() {
            match change.tag() {
                ChangeTag::Equal => {}
                ChangeTag::Delete => compared.lines.push(format!("{name}: - {}", change.value())),
                ChangeTag::Insert => compared.lines.push(format!("{name}: + {}", change.value())),
            }
        }
    }
    compared
}

/// The places of a stream at which runs on client-go differ from each other. The run of this library is not
/// compared with them there.
struct Mask {
    lines: BTreeSet<usize>,
    /// If the runs on client-go have different numbers of lines, the smallest of these numbers. The lines
    /// after it are not compared.
    common: Option<usize>,
}

impl Mask {
    fn of(runs: &[Vec<String>]) -> Self {
        let shortest = runs.iter().map(Vec::len).min().unwrap_or(0);
        let varies = |index: &usize| runs.iter().any(|run| run[*index] != runs[0][*index]);
        let lines = (0..shortest).filter(varies).collect();
        let common = runs.iter().any(|run| run.len() != shortest).then_some(shortest);
        Self { lines, common }
    }

    fn places<'a>(&'a self, stream: &'a str) -> impl Iterator<Item = String> + 'a {
        let lines = self.lines.iter().map(move |index| format!("{stream}: line {}", index + 1));
        lines.chain(self.common.map(|common| format!("{stream}: the lines after line {common}")))
    }

    fn apply(&self, mut lines: Vec<String>) -> Vec<String> {
        if let Some(common) = self.common {
            lines.truncate(common);
        }
        for index in &self.lines {
            if let Some(line) = lines.get_mut(*index) {
                MASK.clone_into(line);
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(lines: &[&str]) -> Streams {
        BTreeMap::from([("first".to_owned(), lines.iter().map(|&line| line.to_owned()).collect())])
    }

    #[test]
    fn lines_of_only_one_peer_are_listed_with_stream_and_side() {
        let theirs = [streams(&["add a", "update a"]), streams(&["add a", "update a"])];
        let compared = compare(&theirs, &streams(&["add a", "delete a", "add a again"]));
        assert_eq!(compared.lines, ["first: - update a", "first: + delete a", "first: + add a again"]);
        assert!(compared.masked.is_empty());
        assert_eq!(compare(&theirs, &streams(&["add a", "update a"])), Compared::default());
    }

    #[test]
    fn every_line_of_a_stream_that_one_peer_lacks_differs() {
        let compared = compare(&[streams(&["add a"])], &Streams::new());
        assert_eq!(compared.lines, ["first: - add a"]);
    }

    #[test]
    fn differences_between_runs_of_client_go_are_masked_and_listed() {
        let theirs = [streams(&["add a", "at once", "end"]), streams(&["add a", "backoff", "end", "more"])];
        let compared = compare(&theirs, &streams(&["add a", "something else", "end", "and more"]));
        assert_eq!(compared.lines, Vec::<String>::new());
        assert_eq!(compared.masked, ["first: line 2", "first: the lines after line 3"]);
        let compared = compare(&theirs, &streams(&["add b", "something else", "end"]));
        assert_eq!(compared.lines, ["first: - add a", "first: + add b"]);
    }
}
