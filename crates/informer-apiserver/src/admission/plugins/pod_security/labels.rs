//! What the labels of a namespace ask for: levels, and the versions in which they are meant.

use std::fmt;

use crate::model::error::Cause;

/// All labels of the plugin begin so.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much is asked of pods. Each level asks all that the one before it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        [Self::Privileged, Self::Baseline, Self::Restricted].into_iter().find(|level| level.name() == text)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// In which minor version of Kubernetes 1 a level is meant. The newest comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    Minor(i64),
    Latest,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Self::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let plain = minor.bytes().all(|letter| letter.is_ascii_digit());
        let padded = minor.len() > 1 && minor.starts_with('0');
        (plain && !padded).then(|| minor.parse().ok().map(Self::Minor)).flatten()
    }
}

/// A level in a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Version::Minor(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
            Version::Latest => write!(f, "{}:latest", self.level.name()),
        }
    }
}

/// What a namespace asks of its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    /// Others are refused.
    pub(super) enforce: Asked,
    /// Of others there is a warning.
    pub(super) warn: Asked,
}

impl Policy {
    /// Reads the labels of a namespace; also what is wrong with them. What cannot be read is taken strictly where pods are refused, and
    /// as nothing where they are only told of.
    pub(super) fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<Cause>) {
        let mut reader = Reader { label, causes: Vec::new() };
        let enforce = reader.asked("enforce", Level::Restricted);
        let known = enforce.known;
        reader.asked("audit", Level::Privileged);
        let warn = reader.asked("warn", Level::Privileged);
        let mut policy = Self { enforce: enforce.asked, warn: warn.asked };
        // Whoever only enforces is warned as well.
        if !warn.named && known && policy.enforce.level > Level::Privileged {
            policy.warn.level = policy.enforce.level;
            if !warn.versioned {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, reader.causes)
    }
}

struct Reader<L> {
    label: L,
    causes: Vec<Cause>,
}

/// What the labels of one mode say.
struct Mode {
    asked: Asked,
    /// There is a level.
    named: bool,
    /// It is one that exists.
    known: bool,
    versioned: bool,
}

impl<'a, L: Fn(&str) -> Option<&'a str>> Reader<L> {
    /// `otherwise` is the level where the label says none that exists.
    fn asked(&mut self, mode: &str, otherwise: Level) -> Mode {
        const LEVELS: &str = "must be one of privileged, baseline, restricted";
        const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";
        let level = self.read(&format!("{PREFIX}{mode}"), Level::parse, LEVELS);
        let version = self.read(&format!("{PREFIX}{mode}-version"), Version::parse, VERSIONS);
        let asked = Asked {
            level: level.map_or(Level::Privileged, |level| level.unwrap_or(otherwise)),
            version: version.flatten().unwrap_or(Version::Latest),
        };
        Mode { asked, named: level.is_some(), known: level.flatten().is_some(), versioned: version.is_some() }
    }

    /// The value of a label, where it is there; within, where it can be read.
    fn read<T>(&mut self, name: &str, parse: fn(&str) -> Option<T>, rule: &str) -> Option<Option<T>> {
        let text = (self.label)(name)?;
        let parsed = parse(text);
        if parsed.is_none() {
            self.causes.push(Cause::invalid(&format!("metadata.labels[{name}]"), &format!("{text:?}"), rule));
        }
        Some(parsed)
    }
}
