//! Reflectors, delta queues and shared informers over any list and watch source.
