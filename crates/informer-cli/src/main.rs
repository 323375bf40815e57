//! The `informer` command.

fn main() {}
