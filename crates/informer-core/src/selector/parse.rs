//! The parser of label selectors: a lexer and one function per production.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] KEY | KEY operator
//! operator    = ( "=" | "==" | "!=" ) [ VALUE ] | ( ">" | "<" ) VALUE | ( "in" | "notin" ) "(" [ VALUE ] { "," [ VALUE ] } ")"
//! ```
//!
//! The words `in` and `notin` are accepted as ordinary names at positions where the grammar expects a key or
//! a value.

use super::label::{LabelOperator, LabelRequirement};

/// The error for a string that is not a label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseLabelSelectorError {
    /// An unexpected token.
    #[error("label selector: found {found:?} at offset {at}, expected {expected}")]
    Unexpected {
        /// The token at this position; empty at the end of the string.
        found: String,
        /// The offset of the token in the string, in bytes.
        at: usize,
        /// The tokens that the grammar accepts at this offset.
        expected: &'static str,
    },
    /// The key of a requirement is not a valid label name.
    #[error("label selector: {key:?} is not a label name: {problem}")]
    Key {
        /// The key.
        key: String,
        /// The rule that the key violates.
        problem: &'static str,
    },
    /// A value of a requirement is not a valid label value.
    #[error("label selector: {value:?} is not a value for label {key}: {problem}")]
    Value {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The rule that the value violates.
        problem: &'static str,
        /// The operator.
        operator: LabelOperator,
        /// All values of the requirement, sorted, so that a caller can report every invalid value: `value` is
        /// only the first invalid one.
        values: Vec<String>,
    },
    /// The number of values does not fit the operator of the requirement.
    #[error("label selector: the operator on label {key} needs {needs}")]
    Count {
        /// The key.
        key: String,
        /// The number of values that the operator requires, as a phrase.
        needs: &'static str,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ">", "<", "(", ")", ","];

impl<'a> Lexer<'a> {
    fn peek(&self) -> (Token<'a>, usize) {
        let rest = self.text[self.at..].trim_start_matches(is_space);
        let at = self.text.len() - rest.len();
        if rest.is_empty() {
            return (Token::End, at);
        }
        match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => (Token::Symbol(&rest[..symbol.len()]), at),
            None => {
                let stops = |c: char| is_space(c) || "=!><(),".contains(c);
                (Token::Word(&rest[..rest.find(stops).unwrap_or(rest.len())]), at)
            }
        }
    }

    fn take(&mut self) -> Token<'a> {
        let (token, at) = self.peek();
        self.at = at + token.text().len();
        token
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.peek().0 == Token::Symbol(symbol);
        if found {
            self.take();
        }
        found
    }

    fn unexpected<T>(&self, expected: &'static str) -> Result<T, ParseLabelSelectorError> {
        let (token, at) = self.peek();
        Err(ParseLabelSelectorError::Unexpected { found: token.text().to_owned(), at, expected })
    }
}

/// Returns true for the characters that separate tokens. Any other whitespace is part of a word and makes it
/// an invalid name.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    fn begins_requirement(self) -> bool {
        matches!(self, Self::Word(_) | Self::Symbol("!"))
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, ParseLabelSelectorError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut requirements = Vec::new();
    match lexer.peek().0 {
        Token::End => return Ok(requirements),
        token if token.begins_requirement() => {}
        _ => return lexer.unexpected("!, identifier, or 'end of string'"),
    }
    loop {
        requirements.push(requirement(&mut lexer)?);
        match lexer.peek().0 {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => lexer.take(),
            _ => return lexer.unexpected("',' or 'end of string'"),
        };
        if !lexer.peek().0.begins_requirement() {
            return lexer.unexpected("identifier after ','");
        }
    }
}

fn requirement(lexer: &mut Lexer<'_>) -> Result<LabelRequirement, ParseLabelSelectorError> {
    let absent = lexer.take_symbol("!");
    let key = match lexer.peek().0 {
        Token::Word(key) => key.to_owned(),
        _ => return lexer.unexpected("identifier"),
    };
    if let Some(problem) = key_problem(&key) {
        return Err(ParseLabelSelectorError::Key { key, problem });
    }
    lexer.take();
    let (operator, values) =
        if absent { (LabelOperator::DoesNotExist, Vec::new()) } else { operator(lexer)? };
    LabelRequirement::new(key, operator, values)
}

fn operator(lexer: &mut Lexer<'_>) -> Result<(LabelOperator, Vec<String>), ParseLabelSelectorError> {
    let operator = match lexer.peek().0 {
        Token::End | Token::Symbol(",") => return Ok((LabelOperator::Exists, Vec::new())),
        Token::Symbol("=" | "==") => LabelOperator::Equals,
        Token::Symbol("!=") => LabelOperator::NotEquals,
        Token::Symbol(">") => LabelOperator::GreaterThan,
        Token::Symbol("<") => LabelOperator::LessThan,
        Token::Word("in") => LabelOperator::In,
        Token::Word("notin") => LabelOperator::NotIn,
        _ => return lexer.unexpected("in, notin, =, ==, !=, gt, lt"),
    };
    lexer.take();
    let values = match operator {
        LabelOperator::In | LabelOperator::NotIn => value_list(lexer)?,
        _ => vec![single_value(lexer)?],
    };
    Ok((operator, values))
}

fn single_value(lexer: &mut Lexer<'_>) -> Result<String, ParseLabelSelectorError> {
    match lexer.peek().0 {
        Token::Word(value) => {
            lexer.take();
            Ok(value.to_owned())
        }
        Token::End | Token::Symbol(",") => Ok(String::new()),
        Token::Symbol(_) => lexer.unexpected("identifier"),
    }
}

fn value_list(lexer: &mut Lexer<'_>) -> Result<Vec<String>, ParseLabelSelectorError> {
    if !lexer.take_symbol("(") {
        return lexer.unexpected("'('");
    }
    let mut values = Vec::new();
    loop {
        // In a list of values, a missing word is the empty value: `(a,,b)` has three values, `()` has one.
        values.push(match lexer.peek().0 {
            Token::Word(value) => {
                lexer.take();
                value.to_owned()
            }
            Token::Symbol("," | ")") => String::new(),
            _ if values.is_empty() => return lexer.unexpected("',', ')' or identifier"),
            _ => return lexer.unexpected("',', or identifier"),
        });
        if lexer.take_symbol(")") {
            return Ok(values);
        }
        if !lexer.take_symbol(",") {
            return lexer.unexpected("',' or ')'");
        }
    }
}

pub(super) fn validate(requirement: &LabelRequirement) -> Result<(), ParseLabelSelectorError> {
    let key = &requirement.key;
    if let Some(problem) = key_problem(key) {
        return Err(ParseLabelSelectorError::Key { key: key.clone(), problem });
    }
    let count = requirement.values.len();
    let needs = match requirement.operator {
        LabelOperator::Exists | LabelOperator::DoesNotExist if count != 0 => Some("no value"),
        LabelOperator::In | LabelOperator::NotIn if count == 0 => Some("at least one value"),
        LabelOperator::Equals
        | LabelOperator::NotEquals
        | LabelOperator::GreaterThan
        | LabelOperator::LessThan
            if count != 1 =>
        {
            Some("exactly one value")
        }
        _ => None,
    };
    if let Some(needs) = needs {
        return Err(ParseLabelSelectorError::Count { key: key.clone(), needs });
    }
    let numeric = matches!(requirement.operator, LabelOperator::GreaterThan | LabelOperator::LessThan);
    for value in &requirement.values {
        let problem = if numeric && value.parse::<i64>().is_err() {
            Some("for > and < it must be an integer")
        } else {
            value_problem(value)
        };
        if let Some(problem) = problem {
            return Err(ParseLabelSelectorError::Value {
                key: key.clone(),
                value: value.clone(),
                problem,
                operator: requirement.operator,
                values: requirement.values.clone(),
            });
        }
    }
    Ok(())
}

fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some("") => return Some("the part before the slash is empty"),
        Some(prefix) if !is_dns_subdomain(prefix) => {
            return Some("the part before the slash must be a DNS subdomain");
        }
        _ => {}
    }
    match name {
        "" => Some("the name is empty"),
        name if name.len() > 63 => Some("the name has more than 63 characters"),
        name if !is_label_text(name) => Some(
            "the name must be letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
        ),
        _ => None,
    }
}

fn value_problem(value: &str) -> Option<&'static str> {
    match value {
        "" => None,
        value if value.len() > 63 => Some("it has more than 63 characters"),
        value if !is_label_text(value) => {
            Some("it must be letters, digits, '-', '_' and '.', and begin and end with a letter or digit")
        }
        _ => None,
    }
}

fn is_label_text(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_alphanumeric();
    let bytes = text.as_bytes();
    bytes.iter().all(|&byte| outer(byte) || b"-_.".contains(&byte))
        && bytes.first().is_some_and(|&byte| outer(byte))
        && bytes.last().is_some_and(|&byte| outer(byte))
}

fn is_dns_subdomain(text: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 253
        && text.split('.').all(|part| {
            let bytes = part.as_bytes();
            bytes.iter().all(|&byte| outer(byte) || byte == b'-')
                && bytes.first().is_some_and(|&byte| outer(byte))
                && bytes.last().is_some_and(|&byte| outer(byte))
        })
}
