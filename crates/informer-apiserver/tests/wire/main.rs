//! Tests of the API server through HTTP requests. A socket is used only if the test is about connections.

#![expect(clippy::unwrap_used, reason = "tests")]

mod bootstrap;
mod browsers;
mod certificates;
mod classes;
mod deadlines;
mod definitions;
mod escalation;
mod faults;
mod gzip;
mod hostile;
mod job_validation;
mod kube;
mod lists;
mod loads;
mod mischief;
mod mutations;
mod owner_references;
mod owners;
mod paths;
mod pod_security;
mod pod_specs;
mod pod_subresources;
mod pod_validation;
mod policies;
mod ports;
mod program_writes;
mod protobuf;
mod quotas;
mod races;
mod roles;
mod service_validation;
mod snapshots;
mod sockets;
mod subresources;
mod support;
mod time;
mod tls;
mod tokens;
mod validation;
mod watches;
mod web_ui;
mod webhooks;
mod websockets;
mod writes;
