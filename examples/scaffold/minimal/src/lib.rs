//! The operator minimal: its custom kinds and their controllers.

pub mod api;
pub mod controllers;
