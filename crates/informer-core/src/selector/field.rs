use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A field selector: `metadata.name=web-0,status.phase!=Running`.
///
/// Operators of a field selector are `=`, `==` and `!=`; requirements are joined by commas. In values, `\`,
/// `,` and `=` are escaped with a backslash. The server decides which fields of a kind are supported.
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

/// The operator of a [`FieldRequirement`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// The requirement `field=value`.
    Equals,
    /// `field!=value`.
    NotEquals,
}

impl FieldSelector {
    /// Returns a selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Adds a requirement to the selector.
    pub fn and(mut self, requirement: FieldRequirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    /// Returns true if every object matches the selector.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Returns the requirements of the selector, in the order written.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Returns true if all requirements match. `value_of` returns the value of a field; an absent field
    /// counts as empty.
    pub fn matches<'a>(&self, mut value_of: impl FnMut(&str) -> Option<Cow<'a, str>>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = value_of(&requirement.field).unwrap_or_default();
            (*value == *requirement.value) == (requirement.operator == FieldOperator::Equals)
        })
    }

    /// Returns the value in the requirement `field=value` for this field, if there is one. Servers and
    /// indexes use this value to narrow a scan.
    pub fn required(&self, field: &str) -> Option<&str> {
        let named = |r: &&FieldRequirement| r.field == field && r.operator == FieldOperator::Equals;
        self.requirements.iter().find(named).map(|requirement| requirement.value.as_str())
    }
}

impl FieldRequirement {
    /// Returns a requirement from its parts.
    pub fn new(field: impl Into<String>, operator: FieldOperator, value: impl Into<String>) -> Self {
        Self { field: field.into(), operator, value: value.into() }
    }

    /// Returns the requirement `field=value`.
    pub fn equals(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self::new(field, FieldOperator::Equals, value)
    }

    /// Returns the field.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Returns the operator.
    pub fn operator(&self) -> FieldOperator {
        self.operator
    }

    /// Returns the value, without escapes.
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
        // If several terms are invalid, the error reports the first one in alphabetical order, as in API
        // servers.
        terms.sort_unstable();
        let wrong = terms.into_iter().find_map(|term| Some((term, parse_term(term).err()?)));
        let (term, problem) = wrong.unwrap_or((text, FieldSelectorProblem::NoOperator));
        Err(ParseFieldSelectorError { selector: text.to_owned(), term: term.to_owned(), problem })
    }
}

/// Splits a selector at commas that are not preceded by a backslash.
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

/// The error for a string that is not a field selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "field selector {selector:?}: cannot read {term:?}: {problem}; write FIELD=VALUE or FIELD!=VALUE, joined by commas"
)]
pub struct ParseFieldSelectorError {
    selector: String,
    term: String,
    problem: FieldSelectorProblem,
}

/// The reason for which a term of a field selector is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldSelectorProblem {
    /// The term has no operator.
    #[error("it has no =, == or !=")]
    NoOperator,
    /// The field name before the operator is empty.
    #[error("the field name is empty")]
    NoField,
    /// A backslash precedes a character that cannot be escaped.
    #[error("'\\' must precede '\\', ',' or '=', which must be escaped")]
    Escape {
        /// The invalid escape sequence: the backslash and the character after it.
        sequence: String,
    },
    /// A value contains a character that must be escaped.
    #[error("'{character}' must be escaped with '\\'")]
    Unescaped {
        /// The character that must be escaped.
        character: char,
    },
}

impl ParseFieldSelectorError {
    /// Returns the whole selector.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// Returns the invalid term.
    pub fn term(&self) -> &str {
        &self.term
    }

    /// Returns the reason for which [`term`](Self::term) is invalid.
    pub fn problem(&self) -> &FieldSelectorProblem {
        &self.problem
    }
}
