//! Tests of the API server through its wire protocol, without a socket unless one is needed.

#![expect(clippy::unwrap_used, reason = "tests")]

mod browsers;
mod certificates;
mod classes;
mod deadlines;
mod definitions;
mod escalation;
mod faults;
mod gzip;
mod hostile;
mod kube;
mod lists;
mod loads;
mod mischief;
mod mutations;
mod owners;
mod pod_security;
mod policies;
mod ports;
mod program_writes;
mod protobuf;
mod quotas;
mod races;
mod roles;
mod snapshots;
mod sockets;
mod subresources;
mod support;
mod time;
mod tls;
mod tokens;
mod watches;
mod webhooks;
mod writes;
