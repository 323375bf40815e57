use std::collections::BTreeSet;

use super::{Bar, BarChart, Chart, Curve, CurveChart, Histogram, Scale, Spread, colors, number, stacked};

fn bar(name: &str, minimum: f64, median: f64, maximum: f64) -> Bar {
    let label = number(median);
    Bar {
        name: name.to_owned(),
        spread: Spread { minimum, median, maximum },
        label,
        ours: false,
        failed: false,
        limits: Vec::new(),
    }
}

fn bars(bars: Vec<Bar>, scale: Scale) -> Chart {
    Chart::Bars(BarChart { bars, scale, axis: String::new() })
}

/// Returns the values of an attribute of the bars, which are the filled rectangles of a picture.
fn of_bars(picture: &str, attribute: &str) -> Vec<f64> {
    let rectangles = picture.lines().filter(|line| line.starts_with("<rect"));
    let value = |line: &str| {
        let (_, rest) = line.split_once(&format!(" {attribute}=\""))?;
        rest.split_once('"')?.0.parse().ok()
    };
    rectangles.filter_map(value).collect()
}

#[test]
fn length_of_bars_is_proportional_to_the_median() {
    let chart = bars(vec![bar("a", 4.0, 4.0, 4.0), bar("b", 1.0, 2.0, 3.0)], Scale::Linear);
    let picture = chart.svg("").unwrap();
    let widths = of_bars(&picture, "width");
    assert!(widths.len() == 2 && (widths[0] / widths[1] - 2.0).abs() < 0.05, "{widths:?}");
    assert!(picture.contains("\na\n") && picture.contains("\nb\n") && picture.contains("\n4\n"), "{picture}");
}

#[test]
fn only_a_spread_of_different_values_has_a_line() {
    let lines = |minimum| {
        let picture = bars(vec![bar("a", minimum, 4.0, 4.0)], Scale::Linear).svg("").unwrap();
        picture.lines().filter(|line| line.contains("stroke=\"#1F2933\"")).count()
    };
    assert!(lines(3.0) > 0);
    assert_eq!(lines(4.0), 0);
}

#[test]
fn logarithmic_scale_has_dots_and_no_bars() {
    let mut missed = bar("b", 10.0, 100.0, 1000.0);
    missed.failed = true;
    let picture = bars(vec![bar("a", 1.0, 1.0, 1.0), missed], Scale::Logarithmic).svg("").unwrap();
    let dots = picture.lines().filter(|line| line.contains("<circle") && line.contains("stroke=\"none\""));
    assert_eq!(dots.count(), 2, "{picture}");
    assert!(!picture.contains("<rect") && picture.contains("#B3261E"), "{picture}");
}

#[test]
fn names_and_titles_are_escaped() {
    let picture = bars(vec![bar("<b> & \"c\"", 1.0, 1.0, 1.0)], Scale::Linear).svg("a \"<script>\"").unwrap();
    assert!(picture.contains("&lt;b&gt; &amp; &quot;c&quot;"), "{picture}");
    assert!(picture.contains("aria-label=\"a &quot;&lt;script&gt;&quot;\""), "{picture}");
    assert!(!picture.contains("<b>") && !picture.contains("<script"));
}

#[test]
fn charts_without_drawable_values_are_drawn() {
    for scale in [Scale::Linear, Scale::Logarithmic] {
        for values in [vec![], vec![0.0], vec![-1.0], vec![f64::NAN], vec![f64::INFINITY, 2.0]] {
            let of = values.iter().map(|value| bar("a", *value, *value, *value)).collect();
            assert!(bars(of, scale).svg("").unwrap().ends_with("</svg>\n"), "{values:?} {scale:?}");
            let points = values.iter().map(|value| (*value, Spread::of_one(*value))).collect();
            let curve = Curve { name: "a".to_owned(), points, ours: true };
            let (x, y) = (String::new(), String::new());
            let chart = Chart::Curves(CurveChart { curves: vec![curve], scale, x, y });
            assert!(chart.svg("").unwrap().ends_with("</svg>\n"), "{values:?} {scale:?}");
        }
    }
    let (x, y) = (String::new(), String::new());
    assert!(Chart::Histogram(Histogram { columns: Vec::new(), x, y }).svg("").is_ok());
}

#[test]
fn curve_has_a_point_for_each_value_and_a_legend() {
    let points = vec![(1000.0, Spread::of_one(3.0)), (10_000.0, Spread::of_one(4.0))];
    let curve = |name: &str, ours| Curve { name: name.to_owned(), points: points.clone(), ours };
    let curves = vec![curve("this library", true), curve("peer", false)];
    let (x, y) = ("objects".to_owned(), "us".to_owned());
    let picture = Chart::Curves(CurveChart { curves, scale: Scale::Logarithmic, x, y }).svg("").unwrap();
    assert_eq!(picture.matches("<circle").count(), 4, "{picture}");
    for text in ["this library", "peer", "objects", "us", "1,000", "10,000"] {
        assert!(picture.contains(&format!("\n{text}\n")), "{text}: {picture}");
    }
}

#[test]
fn names_of_a_legend_share_rows() {
    let svg = |names: &[&str]| {
        let points = vec![(1.0, Spread::of_one(3.0))];
        let curves =
            names.iter().map(|name| Curve { name: (*name).to_owned(), points: points.clone(), ours: false });
        let (x, y) = (String::new(), String::new());
        Chart::Curves(CurveChart { curves: curves.collect(), scale: Scale::Linear, x, y }).svg("").unwrap()
    };
    let height = |picture: String| {
        let (_, rest) = picture.split_once(" height=\"").unwrap();
        rest.split('"').next().unwrap().parse::<u32>().unwrap()
    };
    let none = height(svg(&["a"]));
    assert_eq!(height(svg(&["reconciler", "fast", "slow", "late"])), none + 24);
    let long = "a name of a program that needs a whole row";
    assert_eq!(height(svg(&[long, long])), none + 24 + 18);
}

/// Returns the attributes with colors in a picture, such as `fill="#1F2933"`.
fn colors_of(picture: &str) -> BTreeSet<String> {
    let of = |attribute: &'static str| {
        let values = picture.split(&format!(" {attribute}=\"#")).skip(1).collect::<Vec<_>>();
        values.into_iter().map(move |value| format!("{attribute}=\"#{}\"", &value[..6]))
    };
    ["fill", "stroke"].into_iter().flat_map(of).collect()
}

/// Returns charts of all kinds, which together have all colors of charts.
fn all_charts() -> Vec<Chart> {
    let of_bars = |scale| {
        let ours = Bar { ours: true, ..bar("ours", 1.0, 2.0, 3.0) };
        let failed = Bar { failed: true, limits: vec![1.5], ..bar("failed", 1.0, 2.0, 3.0) };
        bars(vec![ours, failed, bar("peer", 1.0, 2.0, 3.0)], scale)
    };
    let points = vec![(1.0, Spread::of_one(2.0)), (2.0, Spread { minimum: 1.0, median: 2.0, maximum: 3.0 })];
    let curve = |ours| Curve { name: "a".to_owned(), points: points.clone(), ours };
    let curves = [true, false, false, false].map(curve).to_vec();
    let (x, y) = ("x".to_owned(), "y".to_owned());
    let histogram = Histogram { columns: vec![(0.0, 1.0, 2.0)], x: x.clone(), y: y.clone() };
    let of_curves = |scale| {
        let (curves, x, y) = (curves.clone(), x.clone(), y.clone());
        Chart::Curves(CurveChart { curves, scale, x, y })
    };
    vec![
        of_bars(Scale::Linear),
        of_bars(Scale::Logarithmic),
        of_curves(Scale::Linear),
        of_curves(Scale::Logarithmic),
        Chart::Histogram(histogram),
    ]
}

#[test]
fn styles_set_each_color_for_the_dark_scheme() {
    let style = include_str!("../page/style.css");
    let (_, dark) = style.split_once("@media (prefers-color-scheme: dark) {\n").unwrap();
    let (dark, _) = dark.split_once("\n}\n").unwrap();
    let pictures = all_charts().iter().map(|chart| chart.svg("").unwrap()).collect::<String>();
    let found = colors_of(&pictures);
    for attribute in &found {
        assert!(dark.contains(&format!("svg [{attribute}] {{")), "{attribute} has no rule");
    }
    for color in colors::all() {
        let name = format!("#{:02X}{:02X}{:02X}", color.0, color.1, color.2);
        assert!(found.iter().any(|attribute| attribute.contains(&name)), "no chart has the color {name}");
    }
}

#[test]
fn limit_is_a_line_across_its_bar_within_the_axis() {
    let picture = |limits: Vec<f64>| {
        let limited = Bar { limits, ..bar("a", 2.0, 2.0, 2.0) };
        bars(vec![limited, bar("b", 2.0, 2.0, 2.0)], Scale::Linear).svg("").unwrap()
    };
    let lines = |picture: &str| picture.lines().filter(|line| line.contains("stroke=\"#B3261E\"")).count();
    assert_eq!(lines(&picture(vec![])), 0);
    assert_eq!(lines(&picture(vec![f64::NAN, f64::INFINITY])), 0);
    assert_eq!(lines(&picture(vec![1.0, 4.0])), 2);
    // A limit above all values makes the axis longer, so the bars become shorter.
    let width = |limit| of_bars(&picture(vec![limit]), "width")[0];
    let ratio = width(1.0) / width(4.0);
    assert!((ratio - 2.0).abs() < 0.05, "{ratio}");
}

#[test]
fn lines_of_several_programs_have_different_colors() {
    let curve = |ours| Curve { name: String::new(), points: vec![(1.0, Spread::of_one(1.0))], ours };
    for ours in [[true; 4], [true, false, false, false], [false, false, true, false]] {
        let curves = ours.map(curve).to_vec();
        let (x, y) = (String::new(), String::new());
        let picture = Chart::Curves(CurveChart { curves, scale: Scale::Linear, x, y }).svg("").unwrap();
        let lines = picture.lines().filter(|line| line.starts_with("<circle")).collect::<String>();
        assert_eq!(colors_of(&lines).len(), 4, "{ours:?}: {picture}");
    }
}

#[test]
fn linear_axis_of_negative_values_begins_below_them() {
    let (begin, end) = Scale::Linear.bounds([-2.0, 1.0].into_iter());
    assert!(begin < -2.0 && end > 1.0, "{begin} {end}");
    let (begin, end) = Scale::Linear.bounds([-2.0, -1.0].into_iter());
    assert!(begin < -2.0 && end == 0.0, "{begin} {end}");
}

#[test]
fn linear_axis_of_zeros_begins_at_zero() {
    assert_eq!(Scale::Linear.bounds([0.0, 0.0].into_iter()), (0.0, 1.0));
}

#[test]
fn panels_are_stacked_with_their_titles() {
    let chart =
        || BarChart { bars: vec![bar("a & b", 1.0, 2.0, 3.0)], scale: Scale::Linear, axis: String::new() };
    let picture = stacked("objects < 3", &[("seconds", chart()), ("memory", chart())]).unwrap();
    assert!(picture.contains("objects &lt; 3") && picture.contains("a &amp; b"));
    assert!(picture.contains("\nseconds\n") && picture.contains("\nmemory\n"), "{picture}");
    let tops = of_bars(&picture, "y");
    assert!(tops.windows(2).all(|pair| pair[0] < pair[1]), "{tops:?}");
    assert!(stacked("nothing", &[]).unwrap().ends_with("</svg>\n"));
}
