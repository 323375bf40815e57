use informer_report::{Bar, BarChart, Chart, Scale, Spread};

use super::*;
use crate::report::{Cell, Figure};

const HOSTILE: &str = "a \"quoted\" </td><script>alert('1')</script> & b";
const ESCAPED: &str = "&lt;script&gt;";

fn facts() -> RunFacts {
    RunFacts {
        command_line: "cargo xtask bench workqueue --report out".to_owned(),
        date: "2026-01-02 03:04 UTC".to_owned(),
        facts: vec![("Cores", "2".to_owned())],
        private_folders: vec!["/home/alice".to_owned()],
    }
}

fn section(title: &str, name: &str) -> Section {
    let spread = Spread { minimum: 1.0, median: 2.0, maximum: 3.0 };
    let bars = vec![Bar {
        name: name.to_owned(),
        spread,
        label: "2 (1 to 3)".to_owned(),
        ours: true,
        failed: false,
        limits: Vec::new(),
    }];
    let chart = Chart::Bars(BarChart { bars, scale: Scale::Linear, axis: String::new() });
    let rows = vec![vec![Cell::text(name), Cell::Number(1234.5), Cell::Empty]];
    Section {
        title: title.to_owned(),
        figures: vec![Figure { caption: "Medians.".to_owned(), chart }],
        tables: vec![Table::new("Figures", ["Program", "Median", "Ratio"], rows)],
    }
}

#[test]
fn page_has_run_facts_figures_and_sections() {
    let mut report = Report::new("bench workqueue");
    report.figure("runs of each program", 5.0);
    report.figure_in_section("add, ns: informer", 1234.5);
    report.sections.push(section("add, ns", "informer"));
    let page = render(&report, &facts()).unwrap();
    for text in [
        "<h1>cargo xtask bench workqueue</h1>",
        "cargo xtask bench workqueue --report out",
        "2026-01-02 03:04 UTC",
        "<dt>Cores</dt><dd>2</dd>",
        "No problems",
        "<th scope=\"row\">runs of each program</th><td class=\"number\">5</td>",
        "<h2>add, ns</h2>",
        "<th scope=\"row\">informer</th><td class=\"number\">1,235</td><td></td>",
        "<caption>Figures</caption>",
        "<figcaption>Medians.</figcaption>",
        "role=\"img\" aria-label=\"add, ns. Medians.\"",
        "2 (1 to 3)",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("add, ns: informer"), "a figure of a section is also in the table of the run");
}

#[test]
fn page_has_problems_and_checked_targets() {
    let mut report = Report::new("bench");
    report.problems.push("cannot read /home/alice/target/a.json: it is empty".to_owned());
    for met in [true, false] {
        let (case, program) = ("add, ns".to_owned(), "informer".to_owned());
        let limit = "at most 100 ns: 0.75 times client-go".to_owned();
        let limit_in_plot = Some(100.0);
        report.targets.push(CheckedTarget { case, program, figure: 123_456.0, limit, limit_in_plot, met });
    }
    report.sections.push(section("add, ns", "informer"));
    let page = render(&report, &facts()).unwrap();
    assert!(page.contains("1 problem; 1 of 2 targets met."), "{page}");
    assert!(page.contains("<li>cannot read target&#x2f;a.json: it is empty</li>"), "{page}");
    assert!(page.contains("123,456") && page.contains("at most 100 ns: 0.75 times client-go"));
    assert!(page.contains("href=\"#section-1\"") && page.contains("<section id=\"section-1\">"), "{page}");
    assert!(page.find("class=\"missed\"") < page.find("class=\"met\""), "missed targets are first");
    assert!(page.contains("<td class=\"missed\">missed</td>") && page.contains("<td class=\"met\">met</td>"));
}

#[test]
fn only_the_bar_of_the_program_of_a_target_has_a_line_at_the_limit() {
    let page_of = |program: &str, limit_in_plot| {
        let mut report = Report::new("bench");
        let (case, program, limit) = ("add, ns".to_owned(), program.to_owned(), "at most 2 ns".to_owned());
        report.targets.push(CheckedTarget { case, program, figure: 1.0, limit, limit_in_plot, met: true });
        report.sections.push(section("add, ns", "informer"));
        render(&report, &facts()).unwrap()
    };
    let lines = |page: &str| page.lines().filter(|line| line.contains(" stroke=\"#B3261E\"")).count();
    let page = page_of("informer", Some(2.0));
    assert_eq!(lines(&page), 1, "{page}");
    assert!(
        page.contains("<figcaption>Medians. A red line across a bar is the limit of a target.<"),
        "{page}"
    );
    for page in [page_of("another program", Some(2.0)), page_of("informer", None)] {
        assert_eq!(lines(&page), 0, "{page}");
        assert!(page.contains("<figcaption>Medians.</figcaption>"), "{page}");
    }
}

#[test]
fn hostile_texts_are_escaped() {
    let mut report = Report::new("bench");
    report.problems.push(HOSTILE.to_owned());
    report.figure(HOSTILE, 1.0);
    let case = HOSTILE.to_owned();
    report.targets.push(CheckedTarget {
        program: case.clone(),
        limit: case.clone(),
        case,
        figure: 1.0,
        limit_in_plot: None,
        met: true,
    });
    let mut hostile = section(HOSTILE, HOSTILE);
    hostile.figures[0].caption = HOSTILE.to_owned();
    hostile.tables[0].caption = HOSTILE.to_owned();
    hostile.tables[0].columns[0] = HOSTILE.to_owned();
    report.sections.push(hostile);
    let facts = RunFacts {
        command_line: HOSTILE.to_owned(),
        date: HOSTILE.to_owned(),
        facts: vec![("Kernel", HOSTILE.to_owned())],
        ..facts()
    };
    let page = render(&report, &facts).unwrap();
    assert!(!page.contains("<script") && !page.contains("\"quoted\""), "{page}");
    assert!(page.matches(ESCAPED).count() >= 14, "{}", page.matches(ESCAPED).count());
}

#[test]
fn page_loads_no_other_files() {
    let mut report = Report::new("bench");
    report.sections.push(section("a", "b"));
    let page = render(&report, &facts()).unwrap();
    let addresses = page.matches("://").count();
    assert_eq!(addresses, page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    assert!(!page.contains("src=") && !page.contains("url(") && !page.contains("@import"));
}

#[test]
fn page_is_written_to_a_new_folder_and_overwritten() {
    let folder = std::env::temp_dir().join(format!("xtask-page-{}", std::process::id()));
    let path = folder.join("a").join("b");
    for command in ["bench", "simulate"] {
        write(&Report::new(command), &facts(), &path).unwrap();
        let page = std::fs::read_to_string(path.join("index.html")).unwrap();
        assert!(page.contains(&format!("<h1>cargo xtask {command}</h1>")));
    }
    // A file cannot be a folder.
    let error = write(&Report::new("bench"), &facts(), &path.join("index.html")).unwrap_err().to_string();
    std::fs::remove_dir_all(&folder).unwrap();
    let expected = format!("write report {}", path.join("index.html").join("index.html").display());
    assert!(error.starts_with(&expected) && error.contains("--report"), "{error}");
}
