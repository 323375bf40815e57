//! Lines over a number, such as the number of objects or the time, and distributions of values.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::{
    ChartBuilder, Circle, Color, ErrorBar, IntoLogRange, LineSeries, PathElement, RGBColor, Ranged,
    Rectangle, Text,
};

use super::{Area, Drawn, LINE, Scale, Spread, WIDTH, colors, draw_axes, line, plain};

/// The line of one program.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The text in the legend.
    pub name: String,
    /// The points from left to right: the number, and the spread of the values measured at it.
    pub points: Vec<(f64, Spread)>,
    /// True for a program of this library, whose line has another color.
    pub ours: bool,
}

/// Lines over a number, with a legend if there are several.
#[derive(Clone, Debug)]
pub struct CurveChart {
    /// The lines, in the order of the legend.
    pub curves: Vec<Curve>,
    /// The scale of both axes.
    pub scale: Scale,
    /// The text below the axis of numbers; empty for none.
    pub x: String,
    /// The text at the axis of values; empty for none.
    pub y: String,
}

/// The height of a chart without its legend.
const HEIGHT: u32 = 260;
/// Space for the labels of the axis at the left.
const LABELS_LEFT: u32 = 72;
const LABELS_BELOW: u32 = 44;
/// The width of the line before a name of the legend, of a letter of the name, and of the space after it.
const LEGEND_MARK: u32 = 30;
const LEGEND_LETTER: u32 = 7;
const LEGEND_GAP: u32 = 8;
/// Lines with more points have no marks at them.
const MARKED_POINTS: usize = 12;

impl CurveChart {
    pub(super) fn height(&self) -> u32 {
        HEIGHT + self.legend_height()
    }

    fn legend_height(&self) -> u32 {
        self.legend_places().last().map_or(0, |(_, y)| y + LINE + 6)
    }

    /// Returns the place of each curve in the legend, from left to right and then in further rows. One curve
    /// needs no legend, because the title says what it is.
    fn legend_places(&self) -> Vec<(u32, u32)> {
        if self.curves.len() < 2 {
            return Vec::new();
        }
        let (mut x, mut y) = (0, 0);
        let place = |curve: &Curve| {
            let width = LEGEND_MARK + curve.name.chars().count() as u32 * LEGEND_LETTER + LEGEND_GAP;
            if x > 0 && x + width > WIDTH {
                (x, y) = (0, y + LINE);
            }
            let place = (x, y);
            x += width;
            place
        };
        self.curves.iter().map(place).collect()
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        let colored: Vec<_> = self.curves.iter().zip(self.colors()).collect();
        let (legend, plot) = area.split_vertically(self.legend_height());
        for ((curve, color), (x, y)) in colored.iter().zip(self.legend_places()) {
            let (x, y) = (x as i32, y as i32);
            legend.draw(&PathElement::new([(x + 8, y + 8), (x + 24, y + 8)], line(*color)))?;
            legend.draw(&Text::new(curve.name.clone(), (x + LEGEND_MARK as i32, y), plain()))?;
        }
        let points = || self.curves.iter().flat_map(|curve| &curve.points).filter(|at| at.1.is_drawable());
        let x = self.scale.bounds(points().map(|at| at.0));
        let (low, high) = self.scale.bounds(points().flat_map(|at| [at.1.minimum, at.1.maximum]));
        match self.scale {
            Scale::Linear => self.draw_on(&plot, &colored, x.0..x.1, low..high),
            Scale::Logarithmic => {
                self.draw_on(&plot, &colored, (x.0..x.1).log_scale(), (low..high).log_scale())
            }
        }
    }

    fn colors(&self) -> Vec<RGBColor> {
        let mut others = colors::LINES.into_iter().cycle();
        let mut ours_is_free = true;
        let color = |curve: &Curve| {
            let ours = curve.ours && std::mem::take(&mut ours_is_free);
            if ours { colors::OURS } else { others.next().unwrap_or(colors::PEER) }
        };
        self.curves.iter().map(color).collect()
    }

    fn draw_on<X>(&self, area: &Area<'_>, colored: &[(&Curve, RGBColor)], x: X, y: X) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .set_left_and_bottom_label_area_size(LABELS_LEFT)
            .x_label_area_size(LABELS_BELOW)
            .margin_right(20)
            .margin_top(10)
            .build_cartesian_2d(x, y)?;
        draw_axes(&mut chart, (5, 5), (&self.x, &self.y))?;
        for &(curve, color) in colored {
            let points: Vec<_> = curve.points.iter().filter(|at| at.1.is_drawable()).collect();
            chart.draw_series(LineSeries::new(points.iter().map(|at| (at.0, at.1.median)), line(color)))?;
            if points.len() > MARKED_POINTS {
                continue;
            }
            for &&(x, Spread { minimum, median, maximum }) in &points {
                chart.draw_series([Circle::new((x, median), 4, color.filled())])?;
                if minimum < maximum {
                    chart.draw_series([ErrorBar::new_vertical(x, minimum, median, maximum, color, 8)])?;
                }
            }
        }
        Ok(())
    }
}

/// The distribution of values: how many are in each of several ranges of equal width.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// The ranges that contain values: the first and the last value of the range, and the number of values.
    pub columns: Vec<(f64, f64, f64)>,
    /// The text below the axis of values; empty for none.
    pub x: String,
    /// The text at the axis of counts; empty for none.
    pub y: String,
}

impl Histogram {
    pub(super) const HEIGHT: u32 = HEIGHT;

    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        let x = Scale::Linear.bounds(self.columns.iter().map(|column| column.1));
        let y = Scale::Linear.bounds(self.columns.iter().map(|column| column.2));
        let mut chart = ChartBuilder::on(area)
            .set_left_and_bottom_label_area_size(LABELS_LEFT)
            .x_label_area_size(LABELS_BELOW)
            .margin_right(20)
            .margin_top(10)
            .build_cartesian_2d(x.0..x.1, 0.0..y.1)?;
        // Labels between whole numbers of values would be rounded to the same text.
        let largest = self.columns.iter().map(|column| column.2).fold(1.0, f64::max);
        draw_axes(&mut chart, (5, 5.min(largest as usize)), (&self.x, &self.y))?;
        let column = |&(from, to, count): &(f64, f64, f64)| {
            let mut column = Rectangle::new([(from, 0.0), (to, count)], colors::OURS.filled());
            column.set_margin(0, 0, 0, 1);
            column
        };
        chart.draw_series(self.columns.iter().map(column))?;
        Ok(())
    }
}
