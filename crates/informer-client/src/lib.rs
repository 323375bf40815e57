//! The Kubernetes source of informers: list and watch over HTTP, read as bytes.
