//! Caches, clients, controllers and managers on the embedded server.

mod apply;
mod cache;
mod client;
mod controller;
mod fixture;
mod old_types;
mod own_writes;
mod packed;
mod sharded;
mod writes;
