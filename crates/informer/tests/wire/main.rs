//! The whole pipeline against an API server inside the test: bytes in, cache and handlers out.
#![cfg(feature = "testing")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod bad_input;
mod costs;
mod encodings;
mod fixture;
mod kube_rs_bugs;
mod pains;
mod split;
