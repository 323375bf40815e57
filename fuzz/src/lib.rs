//! Fuzz targets: everything that reads bytes of others, held against a plain reader of the same bytes.
//!
//! A target takes any bytes and panics where a rule is broken. The same targets run in three places: as tests over the seeds,
//! in the harness (`cargo xtask fuzz`, which mutates the seeds), and under libFuzzer (`fuzz/libfuzzer`) where a nightly
//! toolchain is there.
//!
//! # Input
//!
//! The first byte says in how many frames a body comes, the bytes after it where they end, and the rest is the body: so
//! the borders of network frames are found by the fuzzer, too.

mod campaign;
mod input;
mod mutate;
mod plain;
mod probe;
mod seeds;
mod shrink;
mod targets;

pub use campaign::{Campaign, Crash, Found};
pub use mutate::mutate;
pub use seeds::seeds;
pub use shrink::shrink;
pub use targets::{TARGETS, Target, find};
