//! Fuzz targets for all parsers of untrusted input. Each target compares a parser with a simple reference
//! parser.
//!
//! A target takes any bytes and panics if a check fails. The same targets run in three places: as tests over
//! the seeds, in the harness (`cargo xtask fuzz`, which mutates the seeds), and under libFuzzer
//! (`fuzz/libfuzzer`) if a nightly toolchain is installed.
//!
//! # Input
//!
//! The first byte is the number of frames of a body, the following bytes are their ends, and the rest is the
//! body. The fuzzer therefore also varies the boundaries of network frames.

mod campaign;
mod input;
mod mutate;
mod plain;
mod probe;
mod seeds;
mod shrink;
mod targets;

pub use campaign::{Campaign, CampaignResult, Crash};
pub use mutate::mutate;
pub use seeds::seeds;
pub use shrink::shrink;
pub use targets::{TARGETS, Target, find};
