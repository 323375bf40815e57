//! Predicates on triggers; see [`informer_control::predicate`].

#[cfg(test)]
mod tests;

pub use informer_control::predicate::*;
