//! The built command, as people and scripts use it: over real sockets, in real time, with a deadline for each line.

mod command;
mod refusals;
mod serve;
mod watch;
