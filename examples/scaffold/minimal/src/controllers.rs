//! The controllers of this operator, one module for each kind.

pub mod website;

use informer::prelude::*;

/// Adds all controllers to a manager.
pub fn add_to(manager: Manager) -> Manager {
    manager.controller(website::controller())
}
