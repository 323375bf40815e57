//! Parses the PodSecurity labels of a namespace: levels and versions.

use std::fmt;

use crate::model::cause::Cause;

pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// A level of the Pod Security Standards. Each level also includes the checks of the less strict levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodSecurityLevel {
    Privileged,
    Baseline,
    Restricted,
}

impl PodSecurityLevel {
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

/// `Latest` sorts after all other versions.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: PodSecurityLevel,
    pub(super) version: Version,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Version::Minor(minor) => write!(f, "{}:v1.{minor}", self.level.name()),
            Version::Latest => write!(f, "{}:latest", self.level.name()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamespaceLevels {
    /// Pods that violate this level are rejected.
    pub(super) enforce: LevelVersion,
    /// Pods and pod templates that violate this level cause a warning.
    pub(super) warn: LevelVersion,
}

impl NamespaceLevels {
    /// Parses the PodSecurity labels of a namespace. Also returns the validation errors of the labels.
    ///
    /// An invalid `enforce` level is treated as `restricted`, an invalid `audit` or `warn` level as
    /// `privileged`.
    pub(super) fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Self, Vec<Cause>) {
        let mut reader = LabelParser { label, causes: Vec::new() };
        let enforce = reader.level_version("enforce", PodSecurityLevel::Restricted);
        let known = enforce.known;
        reader.level_version("audit", PodSecurityLevel::Privileged);
        let warn = reader.level_version("warn", PodSecurityLevel::Privileged);
        let mut levels = Self { enforce: enforce.level_version, warn: warn.level_version };
        // A namespace without a `warn` label uses its `enforce` level for warnings, too.
        if !warn.named && known && levels.enforce.level > PodSecurityLevel::Privileged {
            levels.warn.level = levels.enforce.level;
            if !warn.versioned {
                levels.warn.version = levels.enforce.version;
            }
        }
        (levels, reader.causes)
    }
}

struct LabelParser<L> {
    label: L,
    causes: Vec<Cause>,
}

struct Mode {
    level_version: LevelVersion,
    /// The namespace has a level label for this mode.
    named: bool,
    /// The value of the level label is valid.
    known: bool,
    versioned: bool,
}

impl<'a, L: Fn(&str) -> Option<&'a str>> LabelParser<L> {
    /// Parses the level and version labels of a mode. An invalid level label is treated as `otherwise`.
    fn level_version(&mut self, mode: &str, otherwise: PodSecurityLevel) -> Mode {
        const LEVELS: &str = "must be one of privileged, baseline, restricted";
        const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";
        let level = self.read(&format!("{PREFIX}{mode}"), PodSecurityLevel::parse, LEVELS);
        let version = self.read(&format!("{PREFIX}{mode}-version"), Version::parse, VERSIONS);
        let level_version = LevelVersion {
            level: level.map_or(PodSecurityLevel::Privileged, |level| level.unwrap_or(otherwise)),
            version: version.flatten().unwrap_or(Version::Latest),
        };
        Mode {
            level_version,
            named: level.is_some(),
            known: level.flatten().is_some(),
            versioned: version.is_some(),
        }
    }

    /// Parses a label value. The outer option is `None` if the label is missing, and the inner option if its
    /// value is invalid.
    fn read<T>(&mut self, name: &str, parse: fn(&str) -> Option<T>, rule: &str) -> Option<Option<T>> {
        let text = (self.label)(name)?;
        let parsed = parse(text);
        if parsed.is_none() {
            self.causes.push(Cause::invalid(&format!("metadata.labels[{name}]"), &format!("{text:?}"), rule));
        }
        Some(parsed)
    }
}
