//! Charts of figures as SVG pictures, drawn with `plotters`.
//!
//! A picture contains only texts and shapes, and loads no other files. Its colors are those of [`colors`].
//! The styles of the pages replace them in a dark color scheme.

mod bars;
mod colors;
mod curves;

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{
    ChartContext, Color, DrawingArea, IntoDrawingArea, IntoFont, IntoTextStyle, RGBColor, Ranged, SVGBackend,
    ShapeStyle, TRANSPARENT, Text, TextStyle,
};
use thiserror::Error;

pub use bars::{Bar, BarChart};
pub use curves::{Curve, CurveChart, Histogram};

use crate::numbers::number;

/// The width of a chart in pixels. It is that of a narrow screen, so that texts stay readable on a phone.
const WIDTH: u32 = 400;
/// The size of texts in the unit of `plotters`, which divides it by 1.24.
const TEXT: f64 = 16.0;
/// The height of a line of text in pixels.
const LINE: u32 = 18;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
/// The coordinates of a chart whose two axes have the same scale.
type Chart2d<'a, 'b, X, Y = RangedCoordf64> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

/// The minimum, the median and the maximum of several measured values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest value.
    pub minimum: f64,
    /// The value in the middle of the sorted values.
    pub median: f64,
    /// The largest value.
    pub maximum: f64,
}

impl Spread {
    /// Returns the spread of values that are sorted in ascending order; `None` if there are no values.
    pub fn of_sorted(values: &[f64]) -> Option<Self> {
        let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
        let (minimum, maximum) = (*values.first()?, *values.last()?);
        Some(Self { minimum, median: f64::midpoint(*low, *high), maximum })
    }

    /// Returns the spread of one value.
    pub fn of_one(value: f64) -> Self {
        Self { minimum: value, median: value, maximum: value }
    }

    fn is_drawable(&self) -> bool {
        [self.minimum, self.median, self.maximum].iter().all(|value| value.is_finite())
    }
}

/// The scale of the axes of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// The axis of values begins at 0, or below the smallest negative value.
    #[default]
    Linear,
    /// The axis of values has only positive values. Others are drawn at its beginning.
    Logarithmic,
}

impl Scale {
    /// Returns the bounds of an axis that shows all `values` with some space after the largest one. A linear
    /// axis begins at 0, or below the smallest negative value. A logarithmic axis begins below the smallest
    /// positive value, because it has no 0.
    fn bounds(self, values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
        let maximum = values.clone().fold(0.0, f64::max);
        let lowest = values.clone().fold(0.0, f64::min);
        match self {
            Self::Linear if maximum <= 0.0 && lowest >= 0.0 => (0.0, 1.0),
            Self::Linear => (lowest * 1.03, maximum * 1.03),
            Self::Logarithmic if maximum <= 0.0 => (0.1, 1.0),
            Self::Logarithmic => {
                let minimum = values.filter(|value| *value > 0.0).fold(maximum, f64::min);
                (minimum / 2.0, maximum * 1.5)
            }
        }
    }
}

/// The reason why a chart could not be drawn.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct DrawError(DrawingAreaErrorKind<std::io::Error>);

/// A chart of any kind.
#[derive(Clone, Debug)]
pub enum Chart {
    /// Horizontal bars.
    Bars(BarChart),
    /// Lines over a number.
    Curves(CurveChart),
    /// The distribution of values.
    Histogram(Histogram),
}

impl Chart {
    /// Returns the chart as an SVG picture without a background. `title` is its text alternative. All texts
    /// are escaped, so a page may contain the picture as it is.
    ///
    /// # Errors
    ///
    /// Returns the error of `plotters` if it cannot draw the chart.
    pub fn svg(&self, title: &str) -> Result<String, DrawError> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, (WIDTH, self.height())).into_drawing_area();
            self.draw(&area).and_then(|()| area.present()).map_err(DrawError)?;
        }
        let label = escaped(title);
        Ok(text.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{label}\" "), 1))
    }

    fn height(&self) -> u32 {
        match self {
            Self::Bars(chart) => chart.height(),
            Self::Curves(chart) => chart.height(),
            Self::Histogram(_) => Histogram::HEIGHT,
        }
    }

    fn draw(&self, area: &Area<'_>) -> Drawn {
        match self {
            Self::Bars(chart) => chart.draw(area),
            Self::Curves(chart) => chart.draw(area),
            Self::Histogram(chart) => chart.draw(area),
        }
    }
}

/// Returns an SVG picture on a white background with charts of bars one below the other, each with a title.
///
/// # Errors
///
/// Returns the error of `plotters` if it cannot draw a chart.
pub fn stacked(title: &str, panels: &[(&str, BarChart)]) -> Result<String, DrawError> {
    const MARGIN: u32 = 10;
    let heights = panels.iter().map(|(_, chart)| 2 * LINE + chart.height());
    let height = 2 * LINE + heights.sum::<u32>() + MARGIN;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (2 * WIDTH, height)).into_drawing_area();
        draw_stacked(&area, title, panels, MARGIN).map_err(DrawError)?;
    }
    Ok(text)
}

fn draw_stacked(area: &Area<'_>, title: &str, panels: &[(&str, BarChart)], margin: u32) -> Drawn {
    area.fill(&colors::BACKGROUND)?;
    let area = area.margin(0, margin, margin, margin);
    let (head, mut rest) = area.split_vertically(2 * LINE);
    head.draw(&Text::new(title.to_owned(), (0, 10), ("sans-serif", TEXT * 1.25).into_text_style(&head)))?;
    for (title, chart) in panels {
        let (head, below) = rest.split_vertically(2 * LINE);
        head.draw(&Text::new((*title).to_owned(), (0, LINE as i32), bold()))?;
        let (panel, others) = below.split_vertically(chart.height());
        chart.draw(&panel)?;
        rest = others;
    }
    area.present()
}

/// Draws the axes and the grid of a chart. `labels` are the numbers of labels of the axes.
///
/// Light lines are transparent, because `plotters` draws some of them in black on a logarithmic axis even if
/// their number is limited to 0.
fn draw_axes<X, Y>(chart: &mut Chart2d<'_, '_, X, Y>, labels: (usize, usize), (x, y): (&str, &str)) -> Drawn
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let label = |value: &f64| number(*value);
    let mut mesh = chart.configure_mesh();
    mesh.x_labels(labels.0)
        .y_labels(labels.1)
        .max_light_lines(0)
        .light_line_style(TRANSPARENT)
        .bold_line_style(colors::GRID)
        .axis_style(colors::GRID)
        .label_style(plain())
        .axis_desc_style(plain())
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .x_desc(x)
        .y_desc(y);
    if labels.1 == 0 {
        // Lines of a grid would cross the names above bars.
        mesh.disable_mesh().disable_y_axis();
    }
    mesh.draw()
}

fn plain() -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().color(&colors::TEXT)
}

fn bold() -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().style(plotters::style::FontStyle::Bold).color(&colors::TEXT)
}

fn line(color: RGBColor) -> ShapeStyle {
    color.stroke_width(2)
}

/// Escapes a text for an attribute in double quotes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
