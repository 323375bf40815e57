//! Horizontal bars: one per program, with the spread of its values.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::{
    ChartBuilder, Circle, Color, EmptyElement, ErrorBar, IntoLogRange, PathElement, Ranged, Rectangle,
    TRANSPARENT, Text,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, Chart2d, Drawn, LINE, Scale, Spread, colors, draw_axes, line, plain};

/// The bar of one program, with a line of text above it.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The text at the left end of the line above the bar. It is shortened if it does not fit.
    pub name: String,
    /// The length of the bar is the median; a negative one extends to the left of 0. On a logarithmic scale
    /// there is a dot at the median and no bar, because a length has no meaning there. A line from the
    /// minimum to the maximum lies on it, unless they are equal.
    pub spread: Spread,
    /// The text at the right end of the line above the bar.
    pub label: String,
    /// True for a program of this library, whose bar has another color.
    pub ours: bool,
    /// True for a failure, whose bar has the color of failures.
    pub failed: bool,
    /// The limits of the value, each of which is a line across the bar in the color of failures.
    pub limits: Vec<f64>,
}

/// Horizontal bars, one below the other, over a common axis of values.
#[derive(Clone, Debug)]
pub struct BarChart {
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
    /// The scale of the axis of values.
    pub scale: Scale,
    /// The text below the axis of values; empty for none.
    pub axis: String,
}

/// The height of a bar with the line of text above it.
const ROW: u32 = 36;
/// The number of characters that fit above a bar.
const CHARACTERS: usize = 54;

impl BarChart {
    pub(super) fn height(&self) -> u32 {
        // A logarithmic axis is also above the bars, which are many.
        let axes = if self.scale == Scale::Logarithmic { 2 } else { 1 };
        ROW * self.bars.len() as u32 + axes * self.axis_height()
    }

    fn axis_height(&self) -> u32 {
        if self.axis.is_empty() { LINE + 8 } else { 2 * LINE + 8 }
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        let drawable = self.bars.iter().filter(|bar| bar.spread.is_drawable());
        let values = drawable.flat_map(|bar| [bar.spread.minimum, bar.spread.median, bar.spread.maximum]);
        let limits = self.bars.iter().flat_map(Bar::drawable_limits);
        let (begin, end) = self.scale.bounds(values.chain(limits));
        match self.scale {
            Scale::Linear => self.draw_on(area, begin..end, begin),
            Scale::Logarithmic => self.draw_on(area, (begin..end).log_scale(), begin),
        }
    }

    fn draw_on<X>(&self, area: &Area<'_>, x: X, begin: f64) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let rows = self.bars.len();
        let logarithmic = self.scale == Scale::Logarithmic;
        let mut chart = ChartBuilder::on(area)
            .x_label_area_size(self.axis_height())
            .top_x_label_area_size(if logarithmic { self.axis_height() } else { 0 })
            .margin_right(14)
            .margin_left(8)
            .build_cartesian_2d(x, 0.0..rows.max(1) as f64)?;
        draw_axes(&mut chart, (5, 0), (&self.axis, ""))?;
        if logarithmic {
            let mut grid = chart.configure_mesh();
            grid.x_labels(5).y_labels(0).max_light_lines(0).bold_line_style(colors::GRID);
            grid.light_line_style(TRANSPARENT);
            grid.disable_axes().disable_y_mesh().draw()?;
        }
        let width = chart.plotting_area().dim_in_pixel().0 as i32;
        for (row, bar) in self.bars.iter().enumerate() {
            // The first bar is at the top, where the coordinate is largest.
            let top = (rows - row) as f64;
            let right = plain().pos(Pos::new(HPos::Right, VPos::Top));
            chart.draw_series([EmptyElement::at((begin, top))
                + Text::new(shortened(&bar.name, &bar.label), (0, 2), plain())
                + Text::new(bar.label.clone(), (width, 2), right)])?;
            if !bar.spread.is_drawable() {
                continue;
            }
            let color = match bar {
                Bar { failed: true, .. } => colors::FAILED,
                Bar { ours: true, .. } => colors::OURS,
                Bar { .. } => colors::PEER,
            };
            let Spread { minimum, median, maximum } = bar.spread;
            let (y, low) = (top - 0.725, minimum.max(begin));
            if !logarithmic {
                let corners = [(median.min(0.0), top - 0.53), (median.max(0.0), top - 0.92)];
                chart.draw_series([Rectangle::new(corners, color.filled())])?;
                if begin < 0.0 {
                    let zero = vec![(0.0, top - 0.47), (0.0, top - 0.98)];
                    chart.draw_series([PathElement::new(zero, colors::TEXT.stroke_width(1))])?;
                }
            }
            if minimum < maximum {
                // The outline in the color of the background keeps the line visible on a dark bar.
                let outline = colors::BACKGROUND.stroke_width(4);
                let style = if logarithmic { color } else { colors::TEXT };
                if !logarithmic {
                    chart.draw_series([ErrorBar::new_horizontal(y, low, median, maximum, outline, 8)])?;
                }
                chart.draw_series([ErrorBar::new_horizontal(y, low, median, maximum, style, 8)])?;
            }
            if logarithmic {
                chart.draw_series([Circle::new((median.max(begin), y), 5, color.filled())])?;
            }
            for limit in bar.drawable_limits() {
                draw_limit(&mut chart, (limit.max(begin), top))?;
            }
        }
        Ok(())
    }
}

impl Bar {
    fn drawable_limits(&self) -> impl Iterator<Item = f64> + Clone {
        self.limits.iter().copied().filter(|limit| limit.is_finite())
    }
}

/// Draws the line of a limit across the bar whose row has its upper edge at `top`.
fn draw_limit<X>(chart: &mut Chart2d<'_, '_, X>, (limit, top): (f64, f64)) -> Drawn
where
    X: Ranged<ValueType = f64>,
{
    let ends = vec![(limit, top - 0.47), (limit, top - 0.98)];
    // The outline in the color of the background keeps the line visible on a bar.
    for style in [colors::BACKGROUND.stroke_width(6), line(colors::FAILED)] {
        chart.draw_series([PathElement::new(ends.clone(), style)])?;
    }
    Ok(())
}

/// Shortens a name so that it fits next to the label of its bar.
fn shortened(name: &str, label: &str) -> String {
    let available = CHARACTERS.saturating_sub(label.chars().count() + 2).max(10);
    if name.chars().count() <= available {
        return name.to_owned();
    }
    name.chars().take(available - 1).chain(['…']).collect()
}
