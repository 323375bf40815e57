//! Runs the target that `FUZZ_TARGET` names under libFuzzer. One program contains all targets, because
//! building it takes longer than most campaigns.
#![no_main]

use std::sync::LazyLock;

use informer_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET is set to the name of a target");
    informer_fuzz::find(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        panic!("unknown target {name}; use one of {}", names.join(", "))
    })
});

fuzz_target!(|input: &[u8]| (CHOSEN.run)(input));
