//! Compiles regular expressions of Go's dialect (RE2) with the `regex` crate.
//!
//! The dialects differ: classes such as `\d` contain only ASCII characters in RE2, brackets within a class
//! have no meaning there, and `\Q...\E` quotes text.

use regex::Regex;
use regex_syntax::ast::{self, ErrorKind};

/// Maximum count of a repetition in Go's dialect.
const MAX_REPEAT: u32 = 1000;
/// Maximum size in bytes of a compiled regular expression, as a limit for hostile patterns.
const MAX_COMPILED_BYTES: usize = 4 << 20;

/// Compiles a pattern of Go's dialect.
///
/// # Errors
///
/// Returns Go's error message for a pattern that Go's `regexp` package rejects.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let failed = |why: &str, part: &str| Err(format!("error parsing regexp: {why}: `{part}`"));
    let translated = match translate(pattern) {
        Ok(translated) => translated,
        Err((why, part)) => return failed(why, &part),
    };
    if let Err(error) = ast::parse::Parser::new().parse(&translated) {
        let (why, part) = go_error(&error);
        return failed(why, &part);
    }
    let compiled = regex::RegexBuilder::new(&translated).size_limit(MAX_COMPILED_BYTES).build();
    compiled.or_else(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            Err("error parsing regexp: expression too large: `".to_owned() + pattern + "`")
        }
        _ => {
            let class = pattern.find("\\p").or_else(|| pattern.find("\\P")).unwrap_or_default();
            let end = pattern[class..].find('}').map_or(pattern.len(), |end| class + end + 1);
            failed("invalid character class range", &pattern[class..end])
        }
    })
}

type Translated = Result<String, (&'static str, String)>;

fn translate(pattern: &str) -> Translated {
    let mut translator = Translator { rest: pattern, out: String::with_capacity(pattern.len()) };
    while let Some(next) = translator.take() {
        match next {
            '\\' => translator.escape(false)?,
            '[' => translator.class()?,
            '{' => translator.brace()?,
            '(' if translator.rest.starts_with('?') => translator.group()?,
            '*' | '+' | '?' => translator.repetition(next)?,
            other => translator.out.push(other),
        }
    }
    Ok(translator.out)
}

struct Translator<'a> {
    rest: &'a str,
    out: String,
}

impl Translator<'_> {
    fn take(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Translates an escape sequence. The backslash was already read.
    fn escape(&mut self, in_class: bool) -> Result<(), (&'static str, String)> {
        let Some(next) = self.take() else {
            return Err(("trailing backslash at end of expression", String::new()));
        };
        let class = |positive: &str, negative: bool| match (in_class, negative) {
            (true, false) => positive.to_owned(),
            (true, true) => format!("[^{positive}]"),
            (false, false) => format!("[{positive}]"),
            (false, true) => format!("[^{positive}]"),
        };
        match next {
            'd' | 'D' => self.out.push_str(&class("0-9", next == 'D')),
            'w' | 'W' => self.out.push_str(&class("0-9A-Za-z_", next == 'W')),
            's' | 'S' => self.out.push_str(&class("\\t\\n\\f\\r ", next == 'S')),
            'b' if !in_class => self.out.push_str("(?-u:\\b)"),
            'B' if !in_class => self.out.push_str("(?-u:\\B)"),
            'Q' if !in_class => {
                let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.out.push_str(&regex::escape(quoted));
                self.rest = rest;
            }
            'A' | 'z' | 'a' | 'f' | 't' | 'n' | 'r' | 'v' | 'x' | 'p' | 'P' | '0'..='7' => self.known(next),
            sign if sign.is_ascii_punctuation() => {
                self.out.push('\\');
                self.out.push(sign);
            }
            other => return Err(("invalid escape sequence", format!("\\{other}"))),
        }
        Ok(())
    }

    /// Copies an escape sequence that both dialects have. Octal numbers become hexadecimal ones.
    fn known(&mut self, sign: char) {
        if let '0'..='7' = sign {
            let octal: String = std::iter::once(sign)
                .chain(self.rest.chars().take_while(|digit| ('0'..='7').contains(digit)).take(2))
                .collect();
            self.rest = &self.rest[octal.len() - 1..];
            let number = u32::from_str_radix(&octal, 8).unwrap_or_default();
            self.out.push_str(&format!("\\x{{{number:x}}}"));
        } else {
            self.out.push('\\');
            self.out.push(sign);
            // The braces of a class or number such as `\p{Greek}` do not mean a repetition.
            if matches!(sign, 'p' | 'P' | 'x')
                && let Some(end) = self.rest.find('}').filter(|_| self.rest.starts_with('{'))
            {
                self.out.push_str(&self.rest[..=end]);
                self.rest = &self.rest[end + 1..];
            }
        }
    }

    /// Translates a character class. The opening bracket was already read.
    fn class(&mut self) -> Result<(), (&'static str, String)> {
        let start = self.rest;
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.take();
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let Some(next) = self.take() else {
                return Err(("missing closing ]", format!("[{start}")));
            };
            match next {
                ']' if !first => break,
                ']' => self.out.push_str("\\]"),
                '[' if self.rest.starts_with(':') && self.rest.contains(":]") => {
                    let end = self.rest.find(":]").unwrap_or_default() + 2;
                    self.out.push('[');
                    self.out.push_str(&self.rest[..end]);
                    self.rest = &self.rest[end..];
                }
                '[' | '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(next);
                }
                '-' if self.rest.starts_with('-') => self.out.push_str("\\-"),
                '\\' => self.escape(true)?,
                other => self.out.push(other),
            }
            first = false;
        }
        self.out.push(']');
        Ok(())
    }

    /// Copies a repetition, or quotes a brace that does not start one. The brace was already read.
    fn brace(&mut self) -> Result<(), (&'static str, String)> {
        let end = self.rest.find('}');
        let Some(counts) = end.map(|end| &self.rest[..end]).filter(|counts| is_repetition(counts)) else {
            self.out.push_str("\\{");
            return Ok(());
        };
        let mut numbers = counts.split(',').filter(|number| !number.is_empty());
        let too_large = |number: &str| number.parse::<u32>().map_or(true, |count| count > MAX_REPEAT);
        if numbers.clone().any(too_large) || is_descending(&mut numbers) {
            return Err(("invalid repeat count", format!("{{{counts}}}")));
        }
        self.out.push('{');
        self.out.push_str(counts);
        self.rest = &self.rest[counts.len()..];
        Ok(())
    }

    /// Copies a repetition operator, which must not follow another one.
    fn repetition(&mut self, sign: char) -> Result<(), (&'static str, String)> {
        self.out.push(sign);
        let mut signs = String::from(sign);
        if self.rest.starts_with('?') {
            self.take();
            self.out.push('?');
            signs.push('?');
        }
        match self.rest.chars().next() {
            Some(next @ ('*' | '+' | '?')) => {
                Err(("invalid nested repetition operator", format!("{signs}{next}")))
            }
            _ => Ok(()),
        }
    }

    /// Copies the start of a group such as `(?i:` or `(?P<name>`. The parenthesis was already read.
    fn group(&mut self) -> Result<(), (&'static str, String)> {
        let rest = &self.rest[1..];
        let is_named = rest.starts_with("P<")
            || rest.starts_with('<') && !rest.starts_with(['<', '='])
            || rest.starts_with('<') && !rest[1..].starts_with(['=', '!']);
        let flags = rest.trim_start_matches(['i', 'm', 's', 'U', '-']);
        if !is_named && !flags.starts_with([':', ')']) {
            let part: String = rest.chars().take(1).collect();
            return Err(("invalid or unsupported Perl syntax", format!("(?{part}")));
        }
        self.out.push('(');
        Ok(())
    }
}

fn is_repetition(counts: &str) -> bool {
    let (min, max) = counts.split_once(',').unwrap_or((counts, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !min.is_empty() && is_number(min) && is_number(max)
}

fn is_descending<'a>(numbers: &mut impl Iterator<Item = &'a str>) -> bool {
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    match (next(), next()) {
        (Some(min), Some(max)) => min > max,
        _ => false,
    }
}

/// Returns Go's message for a syntax error, and the part of the pattern that it names.
fn go_error(error: &ast::Error) -> (&'static str, String) {
    let pattern = error.pattern();
    let at = error.span();
    let part = pattern.get(at.start.offset..at.end.offset).unwrap_or_default().to_owned();
    match error.kind() {
        ErrorKind::GroupUnclosed => ("missing closing )", pattern.to_owned()),
        ErrorKind::GroupUnopened => ("unexpected )", pattern.to_owned()),
        ErrorKind::ClassUnclosed => {
            ("missing closing ]", pattern.get(at.start.offset..).unwrap_or_default().to_owned())
        }
        ErrorKind::ClassRangeInvalid | ErrorKind::ClassRangeLiteral => {
            ("invalid character class range", part)
        }
        ErrorKind::RepetitionMissing => {
            let sign: String = pattern.get(at.start.offset..).unwrap_or_default().chars().take(1).collect();
            ("missing argument to repetition operator", sign)
        }
        ErrorKind::EscapeUnexpectedEof => ("trailing backslash at end of expression", String::new()),
        ErrorKind::RepetitionCountInvalid
        | ErrorKind::RepetitionCountDecimalEmpty
        | ErrorKind::RepetitionCountUnclosed => ("invalid repeat count", part),
        ErrorKind::GroupNameDuplicate { .. } => ("duplicate capture group name", part),
        ErrorKind::GroupNameInvalid | ErrorKind::GroupNameEmpty | ErrorKind::GroupNameUnexpectedEof => {
            let start = pattern[..at.start.offset].rfind("(?").unwrap_or_default();
            ("invalid named capture", pattern[start..].to_owned())
        }
        ErrorKind::UnsupportedLookAround | ErrorKind::FlagUnrecognized => {
            ("invalid or unsupported Perl syntax", part.chars().take(3).collect())
        }
        _ => ("invalid escape sequence", part),
    }
}

#[cfg(test)]
mod tests;
