//! The client on the wire: what it asks, what it makes of what comes back.

mod bad_input;
mod discovery;
mod list;
mod representations;
mod script;
mod transport;
mod watch;
