use std::fmt;
use std::str::FromStr;

use super::parse::{self, ParseLabelSelectorError};
use crate::Labels;

/// A label selector: requirements that the labels of an object must all match.
///
/// The empty selector matches every object. The string form is that of the API's `labelSelector` parameter
/// and of `kubectl -l`: `app=web`, `app in (web, api)`, `app notin (web)`, `app`, `!app`, `app!=web`,
/// `shard>3`, `shard<5`, joined by commas. `!=` and `notin` match if the label is absent.
///
/// ```
/// use informer_core::{LabelSelector, Labels};
///
/// let selector: LabelSelector = "app in (web, api), tier!=back".parse()?;
/// let labels: Labels = [("app", "web")].into_iter().collect();
/// assert!(selector.matches(&labels));
/// assert_eq!(selector.to_string(), "app in (api,web),tier!=back");
/// # Ok::<(), informer_core::ParseLabelSelectorError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
    nothing: bool,
}

/// One requirement of a [`LabelSelector`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    pub(super) key: String,
    pub(super) operator: LabelOperator,
    /// The values of the operator, sorted and without duplicates.
    pub(super) values: Vec<String>,
}

/// The operator of a [`LabelRequirement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LabelOperator {
    /// `key`: the label is present, with any value.
    Exists,
    /// `!key`: the label is absent.
    DoesNotExist,
    /// `key=value` or `key==value`.
    Equals,
    /// `key!=value`: the label has another value, or is absent.
    NotEquals,
    /// `key in (a, b)`.
    In,
    /// `key notin (a, b)`: the label has another value, or is absent.
    NotIn,
    /// `key>5`: the label is present, an integer, and greater than the value.
    GreaterThan,
    /// `key<5`: the label is present, an integer, and less than the value.
    LessThan,
}

impl LabelSelector {
    /// Returns a selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns a selector that matches no object.
    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Adds a requirement to the selector.
    pub fn and(mut self, requirement: LabelRequirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    /// Returns true if every object matches the selector, so that labels need not be checked.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Returns true if no object can match the selector.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Returns the requirements of the selector, in the order written.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Returns true if the labels match all requirements.
    pub fn matches(&self, labels: &Labels) -> bool {
        !self.nothing
            && self.requirements.iter().all(|requirement| requirement.matches(labels.get(&requirement.key)))
    }

    /// Like [`matches`](Self::matches) for labels in another data structure: `value_of` returns the value of
    /// a label.
    pub fn matches_with<'a>(&self, mut value_of: impl FnMut(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self.requirements.iter().all(|requirement| requirement.matches(value_of(&requirement.key)))
    }
}

impl LabelRequirement {
    /// Returns the requirement `key=value`.
    pub fn equals(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), operator: LabelOperator::Equals, values: vec![value.into()] }
    }

    /// Returns a requirement, with the validation that the parser also applies.
    ///
    /// # Errors
    ///
    /// Returns an error if the key or a value is invalid, or if the number of values does not fit the
    /// operator.
    pub fn new(
        key: impl Into<String>,
        operator: LabelOperator,
        values: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, ParseLabelSelectorError> {
        let mut values: Vec<String> = values.into_iter().map(Into::into).collect();
        values.sort_unstable();
        values.dedup();
        let requirement = Self { key: key.into(), operator, values };
        parse::validate(&requirement)?;
        Ok(requirement)
    }

    /// Returns the label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator.
    pub fn operator(&self) -> LabelOperator {
        self.operator
    }

    /// Returns the values of the requirement, sorted; empty for [`Exists`](LabelOperator::Exists) and
    /// [`DoesNotExist`](LabelOperator::DoesNotExist).
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(String::as_str)
    }

    /// Returns true if a label of this value matches the requirement; `None` is an absent label.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|candidate| candidate == value);
        match self.operator {
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
            LabelOperator::Equals | LabelOperator::In => value.is_some_and(listed),
            LabelOperator::NotEquals | LabelOperator::NotIn => !value.is_some_and(listed),
            LabelOperator::GreaterThan => self.compares(value, |label, bound| label > bound),
            LabelOperator::LessThan => self.compares(value, |label, bound| label < bound),
        }
    }

    fn compares(&self, value: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let bound = self.values.first().and_then(|bound| bound.parse().ok());
        let label = value.and_then(|label| label.parse().ok());
        matches!((label, bound), (Some(label), Some(bound)) if holds(label, bound))
    }
}

impl FromStr for LabelSelector {
    type Err = ParseLabelSelectorError;

    fn from_str(text: &str) -> Result<Self, ParseLabelSelectorError> {
        Ok(Self { requirements: parse::parse(text)?, nothing: false })
    }
}

impl From<LabelRequirement> for LabelSelector {
    fn from(requirement: LabelRequirement) -> Self {
        Self::everything().and(requirement)
    }
}

impl fmt::Display for LabelSelector {
    /// Writes the canonical string of the selector, which parses back to an equal selector. The API has no
    /// string for [`nothing`](Self::nothing), which is written as a requirement that no object can meet.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nothing {
            return f.write_str("nothing,!nothing");
        }
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            LabelOperator::Exists => write!(f, "{key}"),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::GreaterThan => write!(f, "{key}>{values}"),
            LabelOperator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
