//! Warnings of the API server: `Warning` headers of responses, for example about a deprecated API version.
//!
//! # Lock order
//!
//! The only lock guards the table of known warnings. It is released before a warning is logged, because a
//! subscriber of logs is code of the program.

use std::collections::{HashSet, VecDeque};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use http::HeaderMap;
use http::header::WARNING;
use parking_lot::Mutex;

/// The maximum number of warnings that a client remembers. After that many different ones, the oldest is
/// forgotten, and is logged again if the server repeats it.
const MAX_KNOWN_WARNINGS: usize = 1_024;

/// The maximum number of warnings that are read from one response. API servers send at most 4 KiB of them.
const MAX_WARNINGS_PER_RESPONSE: usize = 64;

/// The warning code of the API server: a miscellaneous persistent warning (RFC 7234, section 5.5.7).
const API_WARNING: &str = "299";

/// The warnings that a client has logged, so that each text is logged once.
#[derive(Default)]
pub(super) struct Warnings(Mutex<Known>);

#[derive(Default)]
struct Known {
    hasher: RandomState,
    hashes: HashSet<u64>,
    /// The hashes in the order in which they were added.
    order: VecDeque<u64>,
}

impl Warnings {
    /// Logs the warnings of a response that this client has not logged before.
    pub(super) fn log(&self, address: &str, headers: &HeaderMap) {
        if !headers.contains_key(WARNING) {
            return;
        }
        let values = headers.get_all(WARNING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let texts = values.flat_map(|value| texts(&value)).take(MAX_WARNINGS_PER_RESPONSE);
        for text in texts.filter(|text| self.0.lock().add(text)) {
            tracing::warn!(server = address, warning = text, "the API server sent a warning");
        }
    }
}

impl Known {
    /// Adds a warning. Returns false if it is known.
    fn add(&mut self, text: &str) -> bool {
        let hash = self.hasher.hash_one(text);
        if !self.hashes.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > MAX_KNOWN_WARNINGS
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
        true
    }
}

/// Returns the texts of the API warnings in the value of a `Warning` header: a list of `CODE AGENT "TEXT"`,
/// each with an optional quoted date. Invalid parts end the list.
fn texts(value: &str) -> Vec<String> {
    let (mut texts, mut rest) = (Vec::new(), value);
    while let Some(warning) = FirstWarning::read(rest) {
        if warning.code == API_WARNING && !warning.text.is_empty() {
            texts.push(warning.text);
        }
        rest = warning.rest;
    }
    texts
}

/// The first warning of a list.
struct FirstWarning<'v> {
    code: &'v str,
    text: String,
    /// The remaining list.
    rest: &'v str,
}

impl<'v> FirstWarning<'v> {
    fn read(value: &'v str) -> Option<Self> {
        let value = value.trim_start_matches([' ', '\t', ',']);
        let (code, rest) = value.split_once(' ')?;
        let (_agent, rest) = rest.split_once(' ')?;
        let (text, mut rest) = quoted(rest.trim_start())?;
        if let Some((_date, after)) = quoted(rest.trim_start()) {
            rest = after;
        }
        Some(Self { code, text, rest })
    }
}

/// Reads a quoted string. A backslash escapes the next character; control characters are dropped, so that a
/// warning cannot forge lines of a log.
fn quoted(value: &str) -> Option<(String, &str)> {
    let (mut text, mut escaped) = (String::new(), false);
    for (at, letter) in value.strip_prefix('"')?.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => {
                escaped = true;
                continue;
            }
            '"' => return Some((text, &value[at + 2..])),
            _ => {}
        }
        if !letter.is_control() {
            text.push(letter);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_header_is_a_list_of_quoted_texts() {
        for (header, expected) in [
            (
                r#"299 - "v1 ComponentStatus is deprecated in v1.19+""#,
                vec!["v1 ComponentStatus is deprecated in v1.19+"],
            ),
            (r#"299 - "one, with a comma", 299 - "two""#, vec!["one, with a comma", "two"]),
            (
                r#"299 kube-apiserver "quote \" and \\" "Sun, 06 Nov 1994 08:49:37 GMT",299 - "b""#,
                vec![r#"quote " and \"#, "b"],
            ),
            (r#"199 - "stale", 299 - "kept""#, vec!["kept"]),
            ("299 - \"\"", vec![]),
            ("299 - \"not closed", vec![]),
            ("299 - \"ends in a backslash\\", vec![]),
            ("299", vec![]),
            ("", vec![]),
            (r#"299 - "first" garbage"#, vec!["first"]),
        ] {
            assert_eq!(texts(header), expected, "{header}");
        }
    }

    #[test]
    fn control_characters_of_warnings_are_dropped() {
        assert_eq!(texts("299 - \"a\u{7}b\u{1b}[31m\""), ["ab[31m"]);
    }

    #[test]
    fn table_of_known_warnings_is_bounded() {
        let mut known = Known::default();
        assert!(known.add("first") && !known.add("first"));
        for number in 0..MAX_KNOWN_WARNINGS {
            assert!(known.add(&number.to_string()));
        }
        assert_eq!((known.hashes.len(), known.order.len()), (MAX_KNOWN_WARNINGS, MAX_KNOWN_WARNINGS));
        assert!(known.add("first"), "the oldest was forgotten");
    }
}
