//! Which triggers concern a controller: see [`informer_control::predicate`].

#[cfg(test)]
mod tests;

pub use informer_control::predicate::*;
