//! The cells of tables: objects as kubectl prints them.

mod cells;
mod columns;
mod text;
mod workloads;

pub(crate) use cells::cells;
pub(crate) use columns::{PrinterColumn, columns};
