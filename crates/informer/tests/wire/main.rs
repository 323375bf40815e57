//! End-to-end tests of informers. An embedded API server sends encoded responses, and the tests check
//! requests, caches and handler events.
#![cfg(feature = "testing")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod bad_input;
mod costs;
mod encodings;
mod fixture;
mod known_issues;
mod kube_rs_bugs;
mod split;
