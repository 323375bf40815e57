//! Charts, styles and the base template of the HTML reports of `informer demo` and of `cargo xtask`.
//!
//! This crate is internal. It is published because the command `informer` depends on it. Its API may change
//! without notice.
//!
//! A report is one HTML file with inline styles and charts, which loads no other files. [`render`] renders a
//! template of a page, which extends a base template with the styles. [`Chart::svg`] draws a chart for it.
//! The styles replace the colors of charts in a dark color scheme.

mod chart;
mod numbers;
mod page;

pub use chart::{Bar, BarChart, Chart, Curve, CurveChart, DrawError, Histogram, Scale, Spread, stacked};
pub use numbers::{number, rounded};
pub use page::{RenderError, render};
