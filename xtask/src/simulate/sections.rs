//! The sections of the page of `--report` with the figures of a simulator: plots and tables.

use std::collections::BTreeMap;

use informer_report::{Bar, BarChart, Chart, Curve, CurveChart, Histogram, Scale, Spread};
use serde::Deserialize;

use crate::report::{Cell, Figure, Report, Section, Table, number};

/// How many values are in each range of equal width, as a simulator writes it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Distribution {
    name: String,
    width: u64,
    /// The number of values by range. The range with the index 0 begins at 0.
    counts: BTreeMap<u64, u64>,
}

/// The distribution that counts the completed schedules in each second of the run.
const BY_SECOND: &str = "schedules by second";
/// Prefixes of figures that count how often a case happened, with the titles of their sections.
const COUNTED: [(&str, &str); 4] = [
    ("transition ", "Transitions of state machines"),
    ("list ", "Reasons of lists"),
    ("notice ", "Notices of reflectors"),
    ("reached ", "Other cases that were reached"),
];
const FAULT: &str = "fault ";
/// Maximum number of bars of faults.
const MAX_FAULTS: usize = 15;
/// Maximum number of points or columns in a plot. More ranges are merged.
const MAX_COLUMNS: u64 = 60;

/// Adds the sections of a run of schedules.
pub(super) fn of_schedules(distributions: &[Distribution], report: &mut Report) {
    let seconds = report.figures.iter().find(|(name, _)| name == "seconds").map(|(_, value)| *value);
    for distribution in distributions.iter().filter(|distribution| !distribution.counts.is_empty()) {
        report.sections.push(match &*distribution.name {
            BY_SECOND => rate(distribution, seconds.unwrap_or(f64::MAX)),
            _ => histogram(distribution),
        });
    }
    faults(report);
    for (prefix, title) in COUNTED {
        report.section_of(prefix, title, "Times");
    }
}

impl Distribution {
    /// Returns the ranges as the first value, the end and the number of values. Neighboring ranges are merged
    /// if there are too many.
    fn ranges(&self) -> Vec<(f64, f64, f64)> {
        let ranges = self.counts.keys().next_back().map_or(0, |last| last + 1);
        let together = ranges.div_ceil(MAX_COLUMNS).max(1);
        let mut merged: BTreeMap<u64, u64> = (0..ranges.div_ceil(together)).map(|range| (range, 0)).collect();
        for (range, count) in &self.counts {
            *merged.entry(range / together).or_default() += count;
        }
        let width = (self.width * together) as f64;
        let range =
            |(range, count): (u64, u64)| (range as f64 * width, (range + 1) as f64 * width, count as f64);
        merged.into_iter().map(range).collect()
    }
}

/// Returns the section of the schedules per second over the time of the run, which took `seconds`.
fn rate(distribution: &Distribution, seconds: f64) -> Section {
    let mut ranges = distribution.ranges();
    // The run ends within the last range. The rate of a part of a range is arbitrary, so the part is merged
    // with the range before it.
    if let [.., before, last] = &mut *ranges
        && seconds < last.1
    {
        (before.1, before.2) = (last.1, before.2 + last.2);
        ranges.pop();
    }
    if let Some(last) = ranges.last_mut() {
        last.1 = last.1.min(seconds).max(last.0 + f64::EPSILON);
    }
    let rates: Vec<_> =
        ranges.iter().map(|(from, to, count)| (f64::midpoint(*from, *to), count / (to - from))).collect();
    let rows = ranges.iter().zip(&rates).map(|((from, to, count), (_, rate))| {
        let range = Cell::text(format!("{} to {}", number(*from), number(*to)));
        vec![range, Cell::Number(*count), Cell::Number(*rate)]
    });
    let points = rates.iter().map(|(at, rate)| (*at, Spread::of_one(*rate))).collect();
    let chart = Chart::Curves(CurveChart {
        curves: vec![Curve { name: "schedules per second".to_owned(), points, ours: true }],
        scale: Scale::Linear,
        x: "seconds since the start".to_owned(),
        y: "schedules per second".to_owned(),
    });
    let caption = "Completed schedules per second of real time, of all threads.".to_owned();
    let columns = ["Seconds", "Schedules", "Per second"];
    Section {
        title: "Schedules per second".to_owned(),
        figures: vec![Figure { caption, chart }],
        tables: vec![Table::new("Completed schedules over time", columns, rows.collect())],
    }
}

/// Returns the section of a distribution. The first word of its name is the unit of the values.
fn histogram(distribution: &Distribution) -> Section {
    let ranges = distribution.ranges();
    let rows = ranges.iter().map(|(from, to, count)| {
        vec![Cell::text(format!("{} to {}", number(*from), number(*to))), Cell::Number(*count)]
    });
    let title = format!("Distribution of the {}", distribution.name);
    let tables = vec![Table::new(&*title, [&*distribution.name, "Schedules"], rows.collect())];
    let x = distribution.name.clone();
    let chart = Chart::Histogram(Histogram { columns: ranges, x, y: "schedules".to_owned() });
    let caption = format!("Number of schedules by {}.", distribution.name);
    Section { title, figures: vec![Figure { caption, chart }], tables }
}

/// Adds the section of the faults by kind, with the most frequent ones first in the plot.
fn faults(report: &mut Report) {
    let mut faults = report.section_of(FAULT, "Faults by kind", "Times");
    faults.sort_by(|one, other| other.1.total_cmp(&one.1));
    let bar = |(name, count): (String, f64)| Bar {
        name,
        spread: Spread::of_one(count),
        label: number(count),
        ours: true,
        failed: false,
        limits: Vec::new(),
    };
    let hidden = faults.len().saturating_sub(MAX_FAULTS);
    let bars: Vec<Bar> = faults.into_iter().take(MAX_FAULTS).map(bar).collect();
    if bars.is_empty() {
        return;
    }
    let chart = Chart::Bars(BarChart { bars, scale: Scale::Linear, axis: "times".to_owned() });
    let mut caption = "Injected faults of each kind, in all schedules.".to_owned();
    if hidden > 0 {
        caption += &format!(" The {hidden} least frequent kinds are only in the table.");
    }
    if let Some(section) = report.sections.last_mut() {
        section.figures.push(Figure { caption, chart });
    }
}

/// The runs with one deliberate defect: for each first seed the number of schedules that ran, and whether the
/// last of them detected the defect.
pub(super) struct DefectRuns {
    pub(super) name: String,
    pub(super) runs: Vec<(u64, bool)>,
    /// The violated invariants, separated by commas.
    pub(super) invariants: String,
}

/// Adds the section of the schedules until each defect was detected.
pub(super) fn of_defects(defects: &[DefectRuns], seeds: &[u64], report: &mut Report) {
    if defects.is_empty() {
        return;
    }
    let count = |(schedules, detected): &(u64, bool)| {
        if *detected { Cell::Number(*schedules as f64) } else { Cell::text(NOT_FOUND) }
    };
    let rows = defects.iter().map(|defect| {
        let counts = defect.runs.iter().map(count);
        let (name, invariants) = (Cell::text(&*defect.name), Cell::text(&*defect.invariants));
        [name].into_iter().chain(counts).chain([invariants]).collect()
    });
    let seeds = seeds.iter().map(|seed| format!("From seed {}", number(*seed as f64)));
    let columns = ["Defect".to_owned()].into_iter().chain(seeds).chain(["Invariants".to_owned()]);
    let table = Table::new("Schedules until the simulator detected the defect", columns, rows.collect());
    let mut bars: Vec<Bar> = defects.iter().filter_map(defect_bar).collect();
    bars.sort_by(|one, other| {
        other.failed.cmp(&one.failed).then(other.spread.median.total_cmp(&one.spread.median))
    });
    let axis = "schedules (logarithmic)".to_owned();
    let chart = Chart::Bars(BarChart { bars, scale: Scale::Logarithmic, axis });
    let caption = "Median of the runs, with a line from minimum to maximum. Undetected defects come first, in \
                   red. A run that did not detect the defect counts with all its schedules.";
    report.sections.push(Section {
        title: "Schedules until each defect was detected".to_owned(),
        figures: vec![Figure { caption: caption.to_owned(), chart }],
        tables: vec![table],
    });
}

const NOT_FOUND: &str = "not found";

fn defect_bar(defect: &DefectRuns) -> Option<Bar> {
    let mut schedules: Vec<f64> = defect.runs.iter().map(|(schedules, _)| *schedules as f64).collect();
    schedules.sort_by(f64::total_cmp);
    let spread = Spread::of_sorted(&schedules)?;
    let detected = defect.runs.iter().filter(|(_, detected)| *detected).count();
    let label = match defect.runs.len() - detected {
        0 => number(spread.median),
        _ if detected == 0 => NOT_FOUND.to_owned(),
        missed => format!("{NOT_FOUND} in {missed} of {}", defect.runs.len()),
    };
    let failed = detected < defect.runs.len();
    Some(Bar { name: defect.name.clone(), spread, label, ours: !failed, failed, limits: Vec::new() })
}

#[cfg(test)]
mod tests;
