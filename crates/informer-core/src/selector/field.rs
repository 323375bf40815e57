use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A field selector: `metadata.name=web-0,status.phase!=Running`.
///
/// Only `=`, `==` and `!=`, joined by commas; `\`, `,` and `=` in values are escaped with a backslash. Which fields a
/// kind supports is the server's matter.
///
/// ```
/// use informer_core::FieldSelector;
///
/// let selector: FieldSelector = "spec.nodeName=worker-1,status.phase!=Failed".parse()?;
/// assert!(selector.matches(|field| (field == "spec.nodeName").then(|| "worker-1".into())));
/// # Ok::<(), informer_core::ParseFieldSelectorError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One requirement of a [`FieldSelector`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    field: String,
    operator: FieldOperator,
    value: String,
}

/// How a [`FieldRequirement`] compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// `field=value`.
    Equals,
    /// `field!=value`.
    NotEquals,
}

impl FieldSelector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Adds a requirement.
    pub fn and(mut self, requirement: FieldRequirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    /// True where every object matches.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, in the order written.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// True where all requirements hold; `value_of` answers a field, and an absent field counts as empty.
    pub fn matches<'a>(&self, mut value_of: impl FnMut(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = value_of(&requirement.field).unwrap_or_default();
            (*value == *requirement.value) == (requirement.operator == FieldOperator::Equals)
        })
    }

    /// The value that `field` must have, where a requirement says so: servers and indexes narrow their scan by it.
    pub fn required(&self, field: &str) -> Option<&str> {
        let named = |r: &&FieldRequirement| r.field == field && r.operator == FieldOperator::Equals;
        self.requirements.iter().find(named).map(|requirement| requirement.value.as_str())
    }
}

impl FieldRequirement {
    /// A requirement from its parts.
    pub fn new(field: impl Into<String>, operator: FieldOperator, value: impl Into<String>) -> Self {
        Self { field: field.into(), operator, value: value.into() }
    }

    /// `field=value`.
    pub fn equals(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(field, FieldOperator::Equals, value)
    }

    /// The field that is looked at.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// How it is compared.
    pub fn operator(&self) -> FieldOperator {
        self.operator
    }

    /// What it is compared with, without escapes.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for FieldSelector {
    type Err = ParseFieldSelectorError;

    fn from_str(text: &str) -> Result<Self, ParseFieldSelectorError> {
        let mut terms = split_terms(text);
        terms.retain(|term| !term.is_empty());
        let requirements = terms.iter().map(|term| parse_term(term));
        if let Ok(requirements) = requirements.collect() {
            return Ok(Self { requirements });
        }
        // Of several errors that of the first term in alphabetical order is told, as servers do.
        terms.sort_unstable();
        let wrong = terms.into_iter().find_map(|term| Some((term, parse_term(term).err()?)));
        let (term, problem) = wrong.unwrap_or((text, FieldSelectorProblem::NoOperator));
        Err(ParseFieldSelectorError { selector: text.to_owned(), term: term.to_owned(), problem })
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\\' => escaped = !escaped,
            b',' if !escaped => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => escaped = false,
        }
    }
    terms.push(&text[start..]);
    terms
}

fn parse_term(term: &str) -> Result<FieldRequirement, FieldSelectorProblem> {
    let is_operator = |at: &usize| term[*at..].starts_with('=') || term[*at..].starts_with("!=");
    let at = term.match_indices(['=', '!']).map(|(at, _)| at).find(is_operator);
    let (field, rest) = term.split_at(at.ok_or(FieldSelectorProblem::NoOperator)?);
    let (operator, value) = match rest.strip_prefix("!=") {
        Some(value) => (FieldOperator::NotEquals, value),
        None => (FieldOperator::Equals, rest.strip_prefix("==").unwrap_or(&rest[1..])),
    };
    if field.is_empty() {
        return Err(FieldSelectorProblem::NoField);
    }
    Ok(FieldRequirement::new(field, operator, unescape(value)?))
}

/// Takes the escapes out.
fn unescape(value: &str) -> Result<String, FieldSelectorProblem> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence = std::iter::once('\\').chain(other).collect();
                    return Err(FieldSelectorProblem::Escape { sequence });
                }
            },
            ',' | '=' => return Err(FieldSelectorProblem::Unescaped { character }),
            _ => plain.push(character),
        }
    }
    Ok(plain)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            FieldOperator::Equals => "=",
            FieldOperator::NotEquals => "!=",
        };
        write!(f, "{}{operator}", self.field)?;
        for character in self.value.chars() {
            if matches!(character, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{character}")?;
        }
        Ok(())
    }
}

/// A text that is no field selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "field selector {selector:?}: cannot read {term:?}: {problem}; write FIELD=VALUE or FIELD!=VALUE, joined by commas"
)]
pub struct ParseFieldSelectorError {
    selector: String,
    term: String,
    problem: FieldSelectorProblem,
}

/// What is wrong with a term of a field selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldSelectorProblem {
    /// Nothing is compared.
    #[error("it has no =, == or !=")]
    NoOperator,
    /// There is nothing in front of the operator.
    #[error("it names no field")]
    NoField,
    /// A backslash in front of something else.
    #[error("'\\' must precede '\\', ',' or '=', which must be escaped")]
    Escape {
        /// The backslash, and what follows it.
        sequence: String,
    },
    /// A sign that must be escaped in a value.
    #[error("'{character}' must be escaped with '\\'")]
    Unescaped {
        /// The sign.
        character: char,
    },
}

impl ParseFieldSelectorError {
    /// The whole selector.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// The part that could not be read.
    pub fn term(&self) -> &str {
        &self.term
    }

    /// What is wrong with that part.
    pub fn problem(&self) -> &FieldSelectorProblem {
        &self.problem
    }
}
