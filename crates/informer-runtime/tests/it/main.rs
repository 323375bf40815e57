//! Tests of caches, clients, controllers and managers on the embedded server.

mod apply;
mod cache;
mod cache_indexes;
mod causes;
mod certificates;
mod client;
mod connections;
mod context;
mod controller;
mod credentials;
mod dry_run;
mod edit;
mod field_owner;
mod finalize;
mod fixture;
mod informer_end;
mod intercept;
mod newer_server;
mod old_types;
mod own_writes;
mod packed;
mod referenced;
mod representations;
mod sharded;
mod skew;
mod writes;
