//! Parses command-line flags in the syntax of Go programs: `--name=value`, `--name value`, and `--name` for
//! switches.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use crate::failure::Failure;

/// States whether a flag has an effect in this program, and whether it takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The flag takes a value that has an effect.
    Value,
    /// The flag is accepted so that callers need not change their arguments, but has no effect. `switch` is
    /// true if the flag takes no value.
    Nothing { switch: bool },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) does: Use,
    /// The text about the flag in `--help`: its effect, or the reason why it has no effect.
    pub(super) about: &'static str,
}

pub(super) const fn flag(name: &'static str, about: &'static str) -> Flag {
    Flag { name, does: Use::Value, about }
}

pub(super) const fn idle(name: &'static str, about: &'static str) -> Flag {
    Flag { name, does: Use::Nothing { switch: false }, about }
}

pub(super) const fn idle_switch(name: &'static str, about: &'static str) -> Flag {
    Flag { name, does: Use::Nothing { switch: true }, about }
}

#[derive(Debug, Default)]
pub(super) struct Given {
    values: BTreeMap<&'static str, Vec<String>>,
    pub(super) help: bool,
    pub(super) version: bool,
}

impl Given {
    /// Parses command-line arguments. Returns an error that names the flag if a flag is unknown.
    pub(super) fn parse(
        arguments: impl IntoIterator<Item = String>,
        known: &[Flag],
    ) -> Result<Self, Failure> {
        let mut given = Self::default();
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            let Some(text) = argument.strip_prefix('-').filter(|text| !text.is_empty()) else {
                return Err(Failure::new(format!("unknown argument {argument:?}: only flags are accepted")));
            };
            let text = text.strip_prefix('-').unwrap_or(text);
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            match name {
                "help" | "h" => given.help = true,
                "version" => given.version = true,
                name => {
                    let flag = known.iter().find(|flag| flag.name == name).ok_or_else(|| unknown(name))?;
                    let value = match (value, flag.does) {
                        (Some(value), _) => value,
                        (None, Use::Nothing { switch: true }) => "true".to_owned(),
                        (None, _) => arguments
                            .next_if(|next| !next.starts_with("--"))
                            .ok_or_else(|| Failure::new(format!("flag needs an argument: --{name}")))?,
                    };
                    given.values.entry(flag.name).or_default().push(value);
                }
            }
        }
        Ok(given)
    }

    /// Replaces relative paths in the values of `flags` by absolute ones. They are relative to `directory`,
    /// which is the working directory of the caller and not of this process.
    pub(super) fn make_absolute(&mut self, flags: &[&str], directory: &Path) {
        for (_, values) in self.values.iter_mut().filter(|(flag, _)| flags.contains(flag)) {
            for value in values {
                *value = directory.join(&*value).to_string_lossy().into_owned();
            }
        }
    }

    pub(super) fn last(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.last().map(String::as_str)
    }

    /// Returns all values of a flag whose value is a list. The values may be separated by commas, or the flag
    /// may be given several times.
    pub(super) fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.values.get(name).into_iter().flatten();
        values.flat_map(|value| value.split(',')).map(str::trim).filter(|value| !value.is_empty())
    }
}

fn unknown(name: &str) -> Failure {
    Failure::new(format!(
        "unknown flag: --{name}; informer replaces this program and accepts only the flags that --help lists"
    ))
}

pub(super) fn help(known: &[Flag]) -> String {
    let mut text = String::new();
    for Flag { name, does, about } in known {
        let value = if *does == (Use::Nothing { switch: true }) { "" } else { " value" };
        let none = if *does == Use::Value { "" } else { "accepted, but has no effect: " };
        // The error is ignored, because writing to a `String` cannot fail.
        let _ = writeln!(text, "      --{name}{value}\n            {none}{about}");
    }
    text
}

#[cfg(test)]
mod tests;
