//! Prints the differences between two states of an object.

mod render;
#[cfg(test)]
mod tests;

pub(super) use informer::client::{Difference, PathSegment as Segment, differences};
pub(super) use render::{Rendering, path};
