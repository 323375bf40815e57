//! A channel instead of a source.

use informer::prelude::*;

fn main() {
    let (_sender, receiver) = std::sync::mpsc::channel::<Request>();
    let _ = Controller::of_requests::<Request>("requests").source(receiver);
}
