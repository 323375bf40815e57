//! The sections of the page of `--report` with the figures of benchmarks: a plot and tables for each case.

use std::collections::BTreeMap;

use informer_report::{Bar, BarChart, Chart, Curve, CurveChart, Scale, Spread};

use super::peers::Samples;
use crate::report::{Cell, Figure, Report, Section, Table, number};

/// Adds a section for each case: bars of the programs, their figures, and the ratios of the peers to the
/// programs in `ours`.
pub(super) fn by_case(samples: &Samples, ours: &[&'static str], peers: &[&'static str], report: &mut Report) {
    for (case, programs) in samples.cases() {
        let runs = programs.values().map(Vec::len).max().unwrap_or_default();
        let caption = match runs {
            1 => "One run of each program.".to_owned(),
            _ => format!("Median of {runs} runs of each program, with a line from minimum to maximum."),
        };
        let caption = format!("{caption}{}", direction(case));
        let chart = Chart::Bars(BarChart { axis: full_unit(case).to_owned(), ..bars(samples, case, ours) });
        let rows = in_order(programs, ours).into_iter().filter_map(|(program, values)| {
            let Spread { minimum, median, maximum } = Spread::of_sorted(values)?;
            Some(row(program, &[median, minimum, maximum]))
        });
        let columns = ["Program".to_owned()].into_iter().chain(spread_columns(case));
        let mut tables = vec![Table::new("Figures of the programs", columns, rows.collect())];
        tables.extend(ratios(samples, case, ours, peers));
        report.sections.push(Section {
            title: case.to_owned(),
            figures: vec![Figure { caption, chart }],
            tables,
        });
    }
}

/// Returns the unit of the figures of a case, such as `ns a key`, with which its name ends. Returns an empty
/// string for a name without a comma.
fn full_unit(case: &str) -> &str {
    case.rsplit_once(", ").map_or("", |(_, unit)| unit)
}

/// Returns the headings of the columns with the spread of a case, such as `Median (ns)`.
fn spread_columns(case: &str) -> impl Iterator<Item = String> {
    let unit = full_unit(case);
    ["Median", "Minimum", "Maximum"].into_iter().map(move |column| match unit {
        "" => column.to_owned(),
        _ => format!("{column} ({unit})"),
    })
}

/// Returns a sentence that says whether lower or higher figures of a case are better; empty if the unit of
/// the case does not say it.
fn direction(case: &str) -> &'static str {
    let unit = full_unit(case);
    if case.ends_with(" a second") {
        " Higher is better."
    } else if unit.split(' ').any(|word| ["ns", "us", "ms", "s", "KB", "MB", "bytes"].contains(&word)) {
        " Lower is better."
    } else {
        ""
    }
}

/// Returns the bars of all programs in a case. Bars of the programs in `ours`, and of those whose name says
/// that they are of this library, are in the color of this library.
pub(super) fn bars(samples: &Samples, case: &str, ours: &[&str]) -> BarChart {
    let programs = samples.cases().find(|(other, _)| *other == case).map(|(_, programs)| programs);
    let bar = |(program, values): (&'static str, &Vec<f64>)| {
        let spread = Spread::of_sorted(values)?;
        let ours = ours.contains(&program) || is_ours(program);
        Some(Bar {
            name: program.to_owned(),
            spread,
            label: label(spread),
            ours,
            failed: false,
            limits: Vec::new(),
        })
    };
    let bars = programs.into_iter().flat_map(|programs| in_order(programs, ours)).filter_map(bar).collect();
    BarChart { bars, scale: Scale::Linear, axis: String::new() }
}

/// Returns the programs: those in `ours` in this order, then others of this library, then peers.
fn in_order<'a, T>(programs: &'a BTreeMap<&'static str, T>, ours: &[&str]) -> Vec<(&'static str, &'a T)> {
    let mut ordered: Vec<_> = programs.iter().map(|(program, values)| (*program, values)).collect();
    // The sort is stable, so programs with equal keys stay in alphabetical order.
    ordered.sort_by_key(|(program, _)| {
        let place = ours.iter().position(|other| other == program);
        (place.unwrap_or(ours.len()), !is_ours(program))
    });
    ordered
}

/// Returns the row of a table with the name of a program and its figures.
fn row(program: &str, figures: &[f64]) -> Vec<Cell> {
    [Cell::text(program)].into_iter().chain(figures.iter().copied().map(Cell::Number)).collect()
}

fn is_ours(program: &str) -> bool {
    program.starts_with("informer")
}

fn label(Spread { minimum, median, maximum }: Spread) -> String {
    let [low, middle, high] = [minimum, median, maximum].map(number);
    if low == high { middle } else { format!("{middle} ({low} to {high})") }
}

/// Returns the cell of a ratio, such as `24.5×`.
fn times(ratio: f64) -> Cell {
    Cell::text(format!("{}×", number(ratio)))
}

/// Returns a table with the medians of the peers divided by those of the programs in `ours`. Returns `None`
/// if no peer measured the case.
fn ratios(samples: &Samples, case: &str, ours: &[&'static str], peers: &[&'static str]) -> Option<Table> {
    let measured = |program: &&&'static str| samples.median(program, case).is_some();
    let peers: Vec<_> = peers.iter().filter(measured).collect();
    let rows = ours.iter().filter(measured).map(|program| {
        let ratio = |peer: &&&'static str| samples.ratio(program, peer, case).map_or(Cell::Empty, times);
        [Cell::text(*program)].into_iter().chain(peers.iter().map(ratio)).collect()
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    if rows.is_empty() || peers.is_empty() {
        return None;
    }
    let columns = ["Program"].into_iter().chain(peers.into_iter().copied());
    Some(Table::new("Medians of the peers: times the program", columns, rows))
}

/// A case that was measured with several numbers of objects: the spread of each program by number.
type Sizes = BTreeMap<&'static str, Vec<(f64, Spread)>>;

/// Adds a section for each case that was measured with several numbers of objects, with a line for each
/// program over the number of objects. The names of the cases end in `, of NUMBER`.
pub(super) fn by_size(samples: &Samples, ours: &[&'static str], peers: &[&'static str], report: &mut Report) {
    let mut cases: BTreeMap<&str, Sizes> = BTreeMap::new();
    for (name, programs) in samples.cases() {
        let Some((case, size)) = name.rsplit_once(", of ") else { continue };
        let Ok(size) = size.trim().parse::<f64>() else { continue };
        for program in programs.keys() {
            let points = cases.entry(case).or_default().entry(program).or_default();
            points.extend(samples.spread(program, name).map(|spread| (size, spread)));
        }
    }
    for (case, mut programs) in cases {
        // The names of cases are sorted as text.
        programs.values_mut().for_each(|points| points.sort_by(|one, other| one.0.total_cmp(&other.0)));
        let mut section = over_size(case, &programs, ours);
        section.tables.extend(ratios_by_size(&programs, ours, peers));
        report.sections.push(section);
    }
}

fn over_size(case: &str, programs: &Sizes, ours: &[&'static str]) -> Section {
    let ordered = in_order(programs, ours);
    let curve = |(program, points): &(&'static str, &Vec<(f64, Spread)>)| Curve {
        name: (*program).to_owned(),
        points: (*points).clone(),
        ours: ours.contains(program) || is_ours(program),
    };
    let rows = ordered.iter().flat_map(|(program, points)| {
        let row = |(size, Spread { minimum, median, maximum }): &(f64, Spread)| {
            row(program, &[*size, *median, *minimum, *maximum])
        };
        points.iter().map(row)
    });
    let columns = ["Program", "Objects"].map(str::to_owned).into_iter().chain(spread_columns(case));
    let chart = Chart::Curves(CurveChart {
        curves: ordered.iter().map(curve).collect(),
        scale: Scale::Logarithmic,
        x: "objects".to_owned(),
        y: full_unit(case).to_owned(),
    });
    let caption =
        "Medians by number of objects, with lines from minimum to maximum; both axes are logarithmic.";
    Section {
        title: case.to_owned(),
        figures: vec![Figure { caption: caption.to_owned(), chart }],
        tables: vec![Table::new("Figures by number of objects", columns, rows.collect())],
    }
}

/// Returns a table with the medians of the peers divided by those of the programs in `ours`, by number of
/// objects. Returns `None` if no number was measured with both.
fn ratios_by_size(programs: &Sizes, ours: &[&str], peers: &[&str]) -> Option<Table> {
    let mut rows = Vec::new();
    for (program, peer) in ours.iter().flat_map(|program| peers.iter().map(move |peer| (*program, *peer))) {
        let (Some(of_program), Some(of_peer)) = (programs.get(program), programs.get(peer)) else { continue };
        for (size, spread) in of_program {
            let Some((_, other)) = of_peer.iter().find(|(other, _)| other == size) else { continue };
            let ratio = times(other.median / spread.median);
            rows.push(vec![Cell::text(format!("{peer} / {program}")), Cell::Number(*size), ratio]);
        }
    }
    let table = || Table::new("Ratios of medians", ["Programs", "Objects", "Ratio"], rows.clone());
    (!rows.is_empty()).then(table)
}

#[cfg(test)]
mod tests;
