//! A request type that lacks the traits of a key.

use informer::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rebuild;

fn main() {
    let _ = Controller::of_requests::<Rebuild>("rebuilds");
}
