//! A Kubernetes API server to embed in tests, with faults on demand.
