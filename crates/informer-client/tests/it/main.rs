//! Tests of the HTTP requests that the client sends, and of its results for scripted responses.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod backlog;
mod bad_input;
mod call;
mod credentials;
mod discovery;
mod kube;
mod list;
mod panics;
mod prefilter;
mod protobuf;
mod representations;
mod scope;
mod script;
mod shares;
mod transform;
mod transport;
mod unknown_fields;
mod upgrade;
mod watch;
