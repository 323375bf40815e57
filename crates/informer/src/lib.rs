//! Shared informers, indexed caches and work queues for Kubernetes controllers.
