//! Rejects real time in tests. A test that sleeps in real time, or compares with the wall clock, fails on a
//! busy machine.
//!
//! A test with tokio's paused time (`start_paused`) may sleep and measure. A test without it may not, nor may
//! a helper that it calls. Scenarios of the conformance suite run in real time, because they also run against
//! a real kube-apiserver: they wait for a state, never for a time. `clippy.toml` forbids the clocks and the
//! sleep of `std` everywhere.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Block, ImplItem, Item, Signature};

use super::Source;
use crate::report::Report;

/// The folder of the conformance scenarios, which run in real time.
const SCENARIOS: &str = "conformance/src/scenarios/";

/// Functions that wait for a time or read a clock. Tests without paused time, and conformance scenarios, may
/// not call them.
const TIMED: [&str; 4] = ["sleep", "sleep_until", "elapsed", "duration_since"];

/// Types that read a clock. The source files of the conformance scenarios may not contain these names at all.
const CLOCKS: [&str; 2] = ["Instant", "SystemTime"];

pub(super) fn check(root: &Path, sources: &[Source], report: &mut Report) {
    let mut groups: HashMap<String, Vec<Function>> = HashMap::new();
    for source in sources {
        let name = source.name(root);
        let file = match syn::parse_file(&source.text) {
            Ok(file) => file,
            Err(error) => {
                report.problems.push(format!("{name}: cannot parse it: {error}"));
                continue;
            }
        };
        if name.starts_with(SCENARIOS) {
            report.problems.extend(timed_in_scenario(&file).map(|word| {
                format!("{name}: `{word}` in a scenario; poll for a state with `crate::poll` instead")
            }));
        }
        let group = groups.entry(group(&name)).or_default();
        functions(&name, &file.items, is_test_file(&name), group);
    }
    let mut tests = 0;
    for functions in groups.values() {
        let helpers = by_name(functions);
        for test in functions.iter().filter(|function| function.is_test) {
            tests += 1;
            if let Some(chain) = test.reaches_real_time(&helpers, &mut HashSet::new()) {
                let path = &test.path;
                report.problems.push(format!("{path}: {chain} in real time; add `start_paused = true`"));
            }
        }
    }
    report.problems.sort();
    report.figure("tests without real time", f64::from(tests));
}

fn timed_in_scenario(file: &syn::File) -> impl Iterator<Item = &'static str> {
    let (mut words, mut calls) = (HashSet::new(), Vec::new());
    idents(file.to_token_stream(), &mut words);
    calls_in(file.to_token_stream(), &mut calls);
    let named = CLOCKS.into_iter().filter(move |clock| words.contains(*clock));
    named.chain(TIMED.into_iter().filter(move |timed| calls.iter().any(|call| call == timed)))
}

struct Function {
    path: String,
    name: String,
    is_test: bool,
    /// True if the function runs on a tokio runtime with paused time, so that it may sleep and measure.
    is_paused: bool,
    body: TokenStream,
}

impl Function {
    fn new(path: &str, attributes: &[Attribute], signature: &Signature, block: &Block) -> Self {
        let attributes: Vec<String> =
            attributes.iter().map(|attribute| attribute.meta.to_token_stream().to_string()).collect();
        let body = block.to_token_stream();
        let mut words = HashSet::new();
        idents(body.clone(), &mut words);
        Self {
            path: path.to_owned(),
            name: signature.ident.to_string(),
            is_test: attributes.iter().any(|text| text == "test" || text.starts_with("tokio :: test")),
            // A test counts as paused by the attribute `start_paused = true`, or if its body contains
            // `start_paused`, because some tests build a paused runtime themselves.
            is_paused: attributes.iter().any(|text| text.contains("start_paused = true"))
                || words.contains("start_paused")
                // A test that uses `Explore` is paused too: `Explore` runs programs and scenarios in paused
                // time.
                || words.contains("Explore"),
            body,
        }
    }

    /// Returns the call chain by which the function reaches real time, such as `test -> helper -> sleep`;
    /// `None` if it does not. `helpers` has the functions of the same test group that are not tests, by name.
    fn reaches_real_time<'a>(
        &'a self,
        helpers: &HashMap<&str, Vec<&'a Function>>,
        seen: &mut HashSet<&'a str>,
    ) -> Option<String> {
        if self.is_paused || !seen.insert(&self.name) {
            return None;
        }
        let mut calls = Vec::new();
        calls_in(self.body.clone(), &mut calls);
        if let Some(timed) = calls.iter().find(|call| TIMED.contains(&&***call)) {
            return Some(format!("{} -> {timed}", self.name));
        }
        if compares_a_clock(self.body.clone()) {
            return Some(format!("{} -> Instant::now", self.name));
        }
        calls.iter().filter_map(|call| helpers.get(&**call)).flatten().find_map(|helper| {
            let chain = helper.reaches_real_time(helpers, seen)?;
            Some(format!("{} -> {chain}", self.name))
        })
    }
}

fn by_name(functions: &[Function]) -> HashMap<&str, Vec<&Function>> {
    let mut helpers: HashMap<&str, Vec<&Function>> = HashMap::new();
    for function in functions.iter().filter(|function| !function.is_test) {
        helpers.entry(&function.name).or_default().push(function);
    }
    helpers
}

/// Returns the test group of a source file. Only functions of one group can call each other. A group is one
/// folder of tests, or the tests inside one source file.
fn group(name: &str) -> String {
    let at = name.find("/tests/").or_else(|| name.find("/tests.rs"));
    at.map_or(name, |at| &name[..at]).to_owned()
}

fn is_test_file(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

/// Collects the functions of test code: all functions of a test file, and in other files those in modules
/// under `#[cfg(test)]`.
fn functions(path: &str, items: &[Item], in_test: bool, into: &mut Vec<Function>) {
    for item in items {
        match item {
            Item::Fn(item) if in_test => into.push(Function::new(path, &item.attrs, &item.sig, &item.block)),
            Item::Impl(item) if in_test => into.extend(item.items.iter().filter_map(|member| match member {
                ImplItem::Fn(method) => Some(Function::new(path, &method.attrs, &method.sig, &method.block)),
                _ => None,
            })),
            Item::Mod(item) => {
                let cfg_test = |attribute: &Attribute| {
                    attribute.path().is_ident("cfg")
                        && attribute.meta.to_token_stream().to_string() == "cfg (test)"
                };
                let in_test = in_test || item.attrs.iter().any(cfg_test);
                if let Some((_, items)) = &item.content {
                    functions(path, items, in_test, into);
                }
            }
            _ => {}
        }
    }
}

/// Collects every identifier in the tokens of a function, also in the arguments of macros.
fn idents(tokens: TokenStream, into: &mut HashSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => drop(into.insert(ident.to_string())),
            TokenTree::Group(group) => idents(group.stream(), into),
            _ => {}
        }
    }
}

/// Collects the names of the functions and methods that the tokens of a function call, also in the arguments
/// of macros.
fn calls_in(tokens: TokenStream, into: &mut Vec<String>) {
    let mut name = None;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => name = Some(ident.to_string()),
            TokenTree::Group(group) => {
                let called = name.take().filter(|_| group.delimiter() == Delimiter::Parenthesis);
                into.extend(called);
                calls_in(group.stream(), into);
            }
            _ => name = None,
        }
    }
}

fn compares_a_clock(tokens: TokenStream) -> bool {
    let mut text = String::new();
    without_literals(tokens, &mut text);
    const BEFORE: [&str; 2] = ["<", ">"];
    text.match_indices("Instant::now()").any(|(at, found)| {
        let head = text[..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        let tail = &text[at + found.len()..];
        let compared = |sign: &&str| tail.starts_with(*sign) || head.trim_end_matches('=').ends_with(*sign);
        let measures = tail.starts_with('-') || head.ends_with('-');
        // After `=>` of a match arm, `Instant::now()` is a result. The `>` of that arrow is no comparison.
        measures || (!head.ends_with("=>") && BEFORE.iter().any(compared))
    })
}

/// Appends tokens to a string without the spaces between them, and with `0` for each literal. A text search
/// then finds every call of `Instant::now()`, and none inside a string literal.
fn without_literals(tokens: TokenStream, into: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace | Delimiter::Bracket | Delimiter::None => ("{", "}"),
                };
                into.push_str(open);
                without_literals(group.stream(), into);
                into.push_str(close);
            }
            TokenTree::Literal(_) => into.push('0'),
            other => into.push_str(&other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: Path::new("/root").join(path), text: text.to_owned() };
        let mut report = Report::new("tidy");
        check(Path::new("/root"), &[source], &mut report);
        report.problems
    }

    #[test]
    fn paused_tests_may_sleep_and_measure() {
        let text = "#[tokio::test(start_paused = true)] async fn waits() { let at = Instant::now(); sleep(S).await; \
            assert!(at.elapsed() < S); assert!(Instant::now() < at + S); nap().await; } async fn nap() { sleep(S).await }";
        assert_eq!(problems("crates/a/tests/it/main.rs", text), Vec::<String>::new());
    }

    #[test]
    fn tests_without_paused_time_may_take_an_instant_as_an_argument() {
        let text = "#[test] fn limits() { let now = Instant::now(); match now { _ => Instant::now() }; limit(now + S) }";
        assert_eq!(problems("crates/a/tests/it/main.rs", text), Vec::<String>::new());
    }

    #[test]
    fn code_that_is_not_a_test_may_sleep() {
        let text = "async fn run() { sleep(S).await }\n#[cfg(test)] mod tests { #[test] fn runs() {} }";
        assert_eq!(problems("crates/a/src/lib.rs", text), Vec::<String>::new());
    }

    #[test]
    fn sleeps_in_real_time_are_refused() {
        let text =
            "async fn run() {}\n#[cfg(test)] mod tests { #[tokio::test] async fn runs() { sleep(S).await } }";
        let expected = "crates/a/src/lib.rs: runs -> sleep in real time; add `start_paused = true`";
        assert_eq!(problems("crates/a/src/lib.rs", text), [expected]);
        let text = "#[tokio::test(flavor = \"multi_thread\")] async fn runs() { first().await } \
            async fn first() { second().await } async fn second() { tokio::time::sleep(S).await }";
        let expected = "crates/a/tests/it/main.rs: runs -> first -> second -> sleep in real time; add `start_paused = true`";
        assert_eq!(problems("crates/a/tests/it/main.rs", text), [expected]);
    }

    #[test]
    fn comparisons_with_the_wall_clock_are_refused() {
        for body in [
            "assert!(begun.elapsed() < S)",
            "assert!(tokio::time::Instant::now() < deadline)",
            "while deadline >= Instant::now() {}",
            "let took = Instant::now() - begun; assert!(took < S)",
        ] {
            let text = format!("#[tokio::test] async fn runs() {{ {body} }}");
            assert_eq!(problems("crates/a/tests/it/main.rs", &text).len(), 1, "{body}");
        }
    }

    #[test]
    fn scenarios_may_not_name_a_clock() {
        let path = "conformance/src/scenarios/sync.rs";
        let polls = "async fn lists(bench: Bench) { while !bench.is_listed() { poll::pause().await } }";
        assert_eq!(problems(path, polls), Vec::<String>::new());
        let timed = "async fn lists(bench: Bench) { assert!(begun.elapsed() < S) }";
        let expected = "`elapsed` in a scenario; poll for a state with `crate::poll` instead";
        assert_eq!(problems(path, timed), [format!("{path}: {expected}")]);
    }
}
