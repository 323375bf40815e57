//! The list in `conformance/mutants.txt` of mutants that no test catches, each with a reason.

use std::collections::BTreeSet;
use std::path::Path;

#[derive(Debug, Default)]
pub(super) struct Survivors {
    names: BTreeSet<String>,
}

impl Survivors {
    /// Parses the list of mutants, whose lines have the form `NAME # REASON`. Empty lines and lines that
    /// begin with `#` are skipped. A line without a reason is an error.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text =
            std::fs::read_to_string(path).map_err(|error| format!("read {}: {error}", path.display()))?;
        Self::parse(&text).map_err(|problem| format!("read {}: {problem}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut names = BTreeSet::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(" # ") {
                Some((name, reason)) if !reason.trim().is_empty() => names.insert(name.trim().to_owned()),
                _ => return Err(format!("{line}: the reason is missing; append ` # REASON`")),
            };
        }
        Ok(Self { names })
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_survivor_needs_a_reason() {
        let survivors = Survivors::parse("# header\n\nsrc/a.rs: replace a with () # only a hint\n").unwrap();
        assert!(survivors.contains("src/a.rs: replace a with ()"));
        let error = Survivors::parse("src/a.rs: replace a with ()").unwrap_err();
        assert!(error.contains("the reason is missing"), "{error}");
    }
}
