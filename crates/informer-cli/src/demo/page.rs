//! The report of the demo as a page with plots, which `--report` writes: one HTML file with inline styles and
//! plots, which loads no other files.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use informer_report::{Chart, Curve, CurveChart, DrawError, RenderError, Scale, Spread};
use serde::Serialize;
use thiserror::Error;

use super::report::DemoReport;
use super::timeline::{Points, Timeline};
use crate::format::plural;

#[derive(Debug, Error)]
pub(crate) enum PageError {
    #[error("write the report {}: {source}; name a file that can be written with --report", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("draw the plot {title:?}: {problem}")]
    Draw { title: &'static str, problem: DrawError },
    #[error("render the report")]
    Render(#[from] RenderError),
}

#[derive(Serialize)]
struct Plot {
    title: &'static str,
    caption: &'static str,
    svg: String,
}

/// The values that the template reads.
#[derive(Serialize)]
struct ReportPage<'a> {
    command: &'a str,
    /// The version of this program, the machine and the time.
    origin: String,
    equal: bool,
    verdict: String,
    warning: Option<String>,
    differences: &'a [String],
    figures: Vec<(&'static str, String)>,
    handlers: Vec<[String; 5]>,
    plots: Vec<Plot>,
}

/// Writes the page to a file, and overwrites an existing one.
pub(crate) fn write(
    path: &Path,
    command: &str,
    report: &DemoReport,
    timeline: &Timeline,
) -> Result<(), PageError> {
    let page = render(command, report, timeline)?;
    std::fs::write(path, page).map_err(|source| PageError::Write { path: path.to_owned(), source })
}

fn render(command: &str, report: &DemoReport, timeline: &Timeline) -> Result<String, PageError> {
    let page = ReportPage {
        command,
        origin: origin(),
        equal: report.equal,
        verdict: capitalized(&report.verdict()),
        warning: report.warning().map(|warning| capitalized(&warning)),
        differences: &report.differences,
        figures: report.figures(),
        handlers: report.handler_rows(),
        plots: plots(timeline)?,
    };
    Ok(informer_report::render(include_str!("page/page.html"), &page)?)
}

fn origin() -> String {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (os, architecture, version) =
        (std::env::consts::OS, std::env::consts::ARCH, env!("CARGO_PKG_VERSION"));
    let time = jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC");
    format!("informer {version}, {time}, {}, {os} {architecture}", plural(processors, "processor"))
}

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

fn plots(timeline: &Timeline) -> Result<Vec<Plot>, PageError> {
    let one = |name: &str, points: Points| vec![(name.to_owned(), points)];
    let charts = [
        (
            "Events",
            "Events per second that arrived at the handler \"fast\". A watch that is cut resumes at once. After a watch \
             that expires, all pods are listed again, and no events arrive until then.",
            chart(one("fast", timeline.event_rates()), "events/s"),
        ),
        (
            "Waiting events",
            "Events that wait for each handler and for the reconciler. \"slow\" pauses for 1 ms after every fourth \
             event, and its buffer merges events of the same pod. \"late\" is added during the run.",
            chart(timeline.waiting(), "events"),
        ),
        (
            "Memory",
            "Resident memory of the client: its caches, handlers and waiting events.",
            chart(one("resident", timeline.memory()), "MB"),
        ),
    ];
    let drawn = charts.into_iter().filter_map(|(title, caption, chart)| Some((title, caption, chart?)));
    drawn
        .map(|(title, caption, chart)| {
            let svg = chart.svg(title).map_err(|problem| PageError::Draw { title, problem })?;
            Ok(Plot { title, caption, svg })
        })
        .collect()
}

/// Returns a chart of values over the time; `None` if there are no values.
fn chart(curves: Vec<(String, Points)>, unit: &str) -> Option<Chart> {
    if curves.iter().all(|(_, points)| points.is_empty()) {
        return None;
    }
    let curve = |(name, points): (String, Points)| {
        let points = points.into_iter().map(|(at, value)| (at, Spread::of_one(value))).collect();
        Curve { name, points, ours: true }
    };
    Some(Chart::Curves(CurveChart {
        curves: curves.into_iter().map(curve).collect(),
        scale: Scale::Linear,
        x: "seconds".to_owned(),
        y: unit.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::timeline::DemoSample;

    fn timeline() -> Timeline {
        let mut timeline = Timeline::default();
        for at in 0..5_u32 {
            let waiting = vec![("slow".to_owned(), at as usize * 100), ("fast".to_owned(), 1)];
            let memory_mb = Some(100.0 + f64::from(at));
            timeline.add(DemoSample {
                seconds: f64::from(at),
                events: u64::from(at) * 2_000,
                waiting,
                memory_mb,
            });
        }
        timeline
    }

    #[test]
    fn page_has_verdict_figures_handlers_and_plots() {
        let report = DemoReport::example(Vec::new());
        let page = render("informer demo --objects 5", &report, &timeline()).unwrap();
        for text in [
            "informer demo --objects 5",
            "Equal",
            "initial sync",
            "125 ms",
            "slow",
            "Waiting events",
            "6 pods in the cache",
        ] {
            assert!(page.contains(text), "{text} is missing in {page}");
        }
        assert_eq!(page.matches("<svg ").count(), 3);
        let others = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!["http:", "https:", "src="].iter().any(|link| others.contains(link)), "{others}");
    }

    #[test]
    fn slower_run_than_requested_has_a_warning() {
        let mut report = DemoReport::example(Vec::new());
        let text = "only 500 of the requested 2,000 objects a second";
        assert!(!render("informer demo", &report, &timeline()).unwrap().contains("objects a second"));
        report.live_seconds = 16.0;
        assert!(render("informer demo", &report, &timeline()).unwrap().contains(text));
        let terminal = report.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(terminal.contains(text), "{terminal}");
    }

    #[test]
    fn differences_are_escaped() {
        let report = DemoReport::example(vec!["cache: <script>alert(1)</script> is missing".to_owned()]);
        let page = render("informer demo", &report, &timeline()).unwrap();
        assert!(page.contains("NOT EQUAL") && page.contains("&lt;script&gt;"), "{page}");
        assert!(!page.contains("<script"), "{page}");
    }

    #[test]
    fn a_run_without_samples_has_no_plots() {
        let page = render("informer demo", &DemoReport::example(Vec::new()), &Timeline::default()).unwrap();
        assert!(!page.contains("<svg "), "{page}");
    }

    #[test]
    fn error_of_an_unwritable_file_names_it() {
        let path = Path::new("/nonexistent/report.html");
        let error = write(path, "informer demo", &DemoReport::example(Vec::new()), &timeline()).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/report.html"), "{error}");
    }
}
