//! Pure state against a naive model.
