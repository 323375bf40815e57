//! The page of a report: one HTML file with inline styles and plots, which loads no other files.
//!
//! The template `page.html` escapes all values except the plots. `plotters` escapes the texts of these.

use std::path::{Path, PathBuf};

use informer_report::{DrawError, RenderError};
use serde::Serialize;
use thiserror::Error;

use super::section::Table;
use super::{CheckedTarget, Report, RunFacts, Section, number};

const NAME: &str = "index.html";

#[derive(Debug, Error)]
pub(crate) enum PageError {
    #[error(
        "write report {}: {source}; repeat the command with a folder that can be written as `--report`, or \
         use the figures above",
        path.display()
    )]
    Write { path: PathBuf, source: std::io::Error },
    #[error("draw plot {title:?}: {why}; use the figures above")]
    Draw { title: String, why: DrawError },
    #[error("render report: {0}; use the figures above")]
    Render(#[from] RenderError),
}

/// Writes the page to `index.html` in a folder. Creates the folder if it does not exist, and overwrites an
/// existing page.
pub(crate) fn write(report: &Report, facts: &RunFacts, folder: &Path) -> Result<(), PageError> {
    let page = render(report, facts)?;
    let path = folder.join(NAME);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, page));
    written.map_err(|source| PageError::Write { path, source })
}

/// A plot as the template reads it.
#[derive(Serialize)]
struct Plot {
    caption: String,
    svg: String,
}

#[derive(Serialize)]
struct Part<'a> {
    /// The anchor of the section, to which targets link.
    id: String,
    title: &'a str,
    plots: Vec<Plot>,
    tables: &'a [Table],
}

fn part<'a>(report: &Report, (index, section): (usize, &'a Section)) -> Result<Part<'a>, PageError> {
    let targets = report.targets.iter().filter(|target| section.has_case(&target.case));
    let limits: Vec<_> =
        targets.filter_map(|target| Some((&*target.program, target.limit_in_plot?))).collect();
    let plots = section.figures.iter().map(|figure| {
        let figure = figure.with_limits(&limits);
        let svg = figure.chart.svg(&format!("{}. {}", section.title, figure.caption));
        let svg = svg.map_err(|why| PageError::Draw { title: section.title.clone(), why })?;
        Ok(Plot { caption: figure.caption, svg })
    });
    Ok(Part {
        id: id(index),
        title: &section.title,
        plots: plots.collect::<Result<_, PageError>>()?,
        tables: &section.tables,
    })
}

/// A checked target as the template reads it.
#[derive(Serialize)]
struct Target<'a> {
    /// The anchor of the section of the case; empty if no section has its figures.
    section: String,
    case: &'a str,
    program: &'a str,
    figure: String,
    limit: &'a str,
    met: bool,
}

fn id(index: usize) -> String {
    format!("section-{}", index + 1)
}

/// Returns the targets, missed ones first.
fn targets(report: &Report) -> Vec<Target<'_>> {
    let mut targets: Vec<_> = Vec::new();
    for CheckedTarget { case, program, figure, limit, met, .. } in &report.targets {
        let section = report.sections.iter().position(|section| section.has_case(case));
        let section = section.map(id).unwrap_or_default();
        targets.push(Target { section, case, program, figure: number(*figure), limit, met: *met });
    }
    targets.sort_by_key(|target| target.met);
    targets
}

/// Returns one sentence on what a command measures or checks; empty for a command without such a sentence.
fn subject(command: &str) -> &'static str {
    match command {
        "bench" => "Measures informers of this library and of other libraries on the same server.",
        "bench curve" => "Measures how the time of an initial sync grows with the number of objects.",
        "bench allocators" => "Measures the initial sync of pods with three memory allocators.",
        "bench idle" => "Measures many informers of small kinds in one process while nothing changes.",
        "bench churn" => "Measures an informer of pods that change all the time.",
        "bench instructions" => "Counts the CPU instructions of fixed workloads.",
        "bench kinds" => "Measures the initial sync of 1, 2, 5 and 10 kinds in one process.",
        "bench runtime" => "Measures controllers and caches of this library and of other libraries.",
        "bench workqueue" => "Measures the work queue, compared with client-go and controller-runtime.",
        "bench apiserver" => "Measures the embedded API server, compared with a real kube-apiserver.",
        "bench console" => "Measures the processor time that the console adds to a program.",
        "bench build" => "Measures the time of builds from a cold cache and after a change of one line.",
        "simulate" => "Runs schedules of random faults in simulated time, and checks invariants.",
        "simulate --mutants" => "Runs the simulator on deliberate defects, each of which it must detect.",
        _ => "",
    }
}

/// Returns how much a run checked, such as `8 schedules, 65 faults`; empty if it has no such figures.
fn checked(report: &Report) -> String {
    let count = |name: &str| report.figures.iter().find(|(other, _)| other == name).map(|(_, value)| *value);
    let faults = || report.figures.iter().filter(|(name, _)| name.starts_with("fault ")).map(|of| of.1).sum();
    let faults = count("faults").or_else(|| Some(faults())).filter(|faults| *faults > 0.0);
    let counts = [("schedules", count("schedules")), ("defects", count("defects")), ("faults", faults)];
    let counted = |(name, count): (&str, Option<f64>)| Some(format!("{} {name}", number(count?)));
    counts.into_iter().filter_map(counted).collect::<Vec<_>>().join(", ")
}

/// The values that the template reads.
#[derive(Serialize)]
struct Page<'a> {
    command: &'a str,
    subject: &'static str,
    checked: String,
    passed: bool,
    problems: Vec<String>,
    targets_met: usize,
    targets: Vec<Target<'a>>,
    figures: Vec<(&'a str, String)>,
    parts: Vec<Part<'a>>,
    run: &'a RunFacts,
}

/// Returns the name and the value of a figure as the page shows them.
fn figure((name, value): &(String, f64)) -> (&str, String) {
    let is_off = name == "real-time priority" && *value == 0.0;
    (name, if is_off { "off".to_owned() } else { number(*value) })
}

fn render(report: &Report, facts: &RunFacts) -> Result<String, PageError> {
    let problems = report.problems.iter().map(|problem| facts.without_private_folders(problem));
    let parts = report.sections.iter().enumerate().map(|section| part(report, section));
    let page = Page {
        command: report.command,
        subject: subject(report.command),
        checked: checked(report),
        passed: report.passed(),
        problems: problems.collect(),
        targets_met: report.targets.iter().filter(|target| target.met).count(),
        targets: targets(report),
        figures: report.other_figures().map(figure).collect(),
        parts: parts.collect::<Result<_, _>>()?,
        run: facts,
    };
    Ok(informer_report::render(include_str!("page.html"), &page)?)
}

#[cfg(test)]
mod tests;
