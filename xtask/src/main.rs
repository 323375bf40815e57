//! The commands of the project: `cargo xtask COMMAND`.

fn main() {}
