//! The parts of the page of a report: plots, tables and checked targets.

use informer_report::{Chart, number};
use serde::{Serialize, Serializer};

/// A part of the page with a title, such as the figures of one case.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) figures: Vec<Figure>,
    /// The tables have all values of the plots, for readers who cannot see these.
    pub(crate) tables: Vec<Table>,
}

impl Section {
    /// Returns whether the section has the figures of a case. The name of a target may have a suffix after
    /// the name of the case.
    pub(crate) fn has_case(&self, case: &str) -> bool {
        case.strip_prefix(&*self.title).is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
    }
}

/// A plot with its caption.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) caption: String,
    pub(crate) chart: Chart,
}

impl Figure {
    /// Returns the figure with a line at each limit in the bar of its program. `limits` are names of programs
    /// and limits.
    pub(crate) fn with_limits(&self, limits: &[(&str, f64)]) -> Self {
        let mut figure = self.clone();
        let Chart::Bars(chart) = &mut figure.chart else { return figure };
        for bar in &mut chart.bars {
            let of_bar = limits.iter().filter(|(program, _)| *program == bar.name);
            bar.limits = of_bar.map(|(_, limit)| *limit).collect();
        }
        if chart.bars.iter().any(|bar| !bar.limits.is_empty()) {
            figure.caption += " A red line across a bar is the limit of a target.";
        }
        figure
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<String>,
    /// The first cell of each row is the heading of the row.
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new<C: Into<String>>(
        caption: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
        rows: Vec<Vec<Cell>>,
    ) -> Self {
        Self { caption: caption.into(), columns: columns.into_iter().map(Into::into).collect(), rows }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Number(f64),
    Empty,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Empty, Self::Number)
    }
}

/// The template reads a cell as its text, and whether it is a number, which is aligned at the right.
impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            text: &'a str,
            numeric: bool,
        }
        match self {
            Self::Text(text) => Shown { text, numeric: false }.serialize(serializer),
            Self::Number(value) => Shown { text: &number(*value), numeric: true }.serialize(serializer),
            Self::Empty => Shown { text: "", numeric: false }.serialize(serializer),
        }
    }
}

/// A performance target with the figure that was compared with it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckedTarget {
    pub(crate) case: String,
    pub(crate) program: String,
    pub(crate) figure: f64,
    /// The limit, and how it is determined, for example `at most 75 ns: 0.75 times client-go`.
    pub(crate) limit: String,
    /// The limit in the unit of the bars of the case; `None` if the case has no bars.
    pub(crate) limit_in_plot: Option<f64>,
    pub(crate) met: bool,
}
