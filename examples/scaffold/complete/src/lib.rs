//! The operator complete: its custom kinds and their controllers.

pub mod api;
pub mod controllers;
pub mod webhooks;
