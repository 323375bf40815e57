//! Benches of the byte path.
fn main() {}
