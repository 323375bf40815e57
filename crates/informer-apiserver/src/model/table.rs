//! Tables: the representation of objects that kubectl prints.

mod cells;
mod columns;
mod text;
mod workloads;

pub(crate) use cells::cells;
pub(crate) use columns::{PrinterColumn, columns};
