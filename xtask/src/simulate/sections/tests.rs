use super::*;

fn distribution(name: &str, width: u64, counts: &[(u64, u64)]) -> Distribution {
    Distribution { name: name.to_owned(), width, counts: counts.iter().copied().collect() }
}

fn points(section: &Section) -> Vec<(f64, f64)> {
    let Chart::Curves(chart) = &section.figures[0].chart else { panic!("{section:?}") };
    chart.curves[0].points.iter().map(|(at, spread)| (*at, spread.median)).collect()
}

#[test]
fn output_of_a_simulator_becomes_sections() {
    let json = r#"[{"name": "schedules by second", "width": 1, "counts": {"0": 100, "1": 50}},
                   {"name": "steps of a schedule", "width": 20, "counts": {"3": 7, "1": 2}}]"#;
    let distributions: Vec<Distribution> = serde_json::from_str(json).unwrap();
    let mut report = Report::new("simulate");
    for (name, value) in
        [("seconds", 2.0), ("fault reset", 2.0), ("fault <stall>", 9.0), ("transition a -> b", 4.0)]
    {
        report.figure(name, value);
    }
    of_schedules(&distributions, &mut report);
    let titles: Vec<_> = report.sections.iter().map(|section| &*section.title).collect();
    let expected = [
        "Schedules per second",
        "Distribution of the steps of a schedule",
        "Faults by kind",
        "Transitions of state machines",
    ];
    assert_eq!(titles, expected);
    assert_eq!(points(&report.sections[0]), [(0.5, 100.0), (1.5, 50.0)]);
    let Chart::Histogram(chart) = &report.sections[1].figures[0].chart else { panic!("{report:?}") };
    assert_eq!(chart.columns, [(0.0, 20.0, 0.0), (20.0, 40.0, 2.0), (40.0, 60.0, 0.0), (60.0, 80.0, 7.0)]);
    let Chart::Bars(chart) = &report.sections[2].figures[0].chart else { panic!("{report:?}") };
    let bars: Vec<_> = chart.bars.iter().map(|bar| (&*bar.name, bar.spread.median)).collect();
    assert_eq!(bars, [("<stall>", 9.0), ("reset", 2.0)]);
}

#[test]
fn last_part_of_a_second_is_merged_with_the_second_before() {
    let distribution = distribution(BY_SECOND, 1, &[(0, 100), (1, 100), (2, 60)]);
    for (seconds, expected) in [(2.6, 100.0), (2.25, 128.0)] {
        let points = points(&rate(&distribution, seconds));
        assert_eq!((points.len(), points[1].1.round()), (2, expected));
    }
    assert_eq!(points(&rate(&distribution, 3.0)).len(), 3);
    // A run of less than a second has one point.
    assert_eq!(points(&rate(&self::distribution(BY_SECOND, 1, &[(0, 50)]), 0.5)), [(0.25, 100.0)]);
}

#[test]
fn many_ranges_are_merged() {
    let counts: Vec<_> = (0..1000).map(|range| (range, 1)).collect();
    let ranges = distribution("steps", 20, &counts).ranges();
    assert!(ranges.len() <= MAX_COLUMNS as usize, "{}", ranges.len());
    assert_eq!(ranges.iter().map(|range| range.2).sum::<f64>(), 1000.0);
    assert_eq!(ranges[1].0, ranges[0].1);
}

#[test]
fn run_without_distributions_and_counts_has_no_sections() {
    let mut report = Report::new("simulate");
    report.figure("steps", 7.0);
    of_schedules(&[distribution(BY_SECOND, 1, &[])], &mut report);
    of_defects(&[], &[1], &mut report);
    assert!(report.sections.is_empty());
}

#[test]
fn defects_have_the_schedules_of_each_run() {
    let defect = |name: &str, runs: &[(u64, bool)]| DefectRuns {
        name: name.to_owned(),
        runs: runs.to_vec(),
        invariants: "barrier".to_owned(),
    };
    let defects = [
        defect("found", &[(30, true), (1, true), (2, true)]),
        defect("missed", &[(5, true), (20_000, false), (7, true)]),
    ];
    let mut report = Report::new("simulate --mutants");
    of_defects(&defects, &[1_000_000, 2_000_000, 3_000_000], &mut report);
    let section = &report.sections[0];
    let Chart::Bars(chart) = &section.figures[0].chart else { panic!("{section:?}") };
    let bars: Vec<_> = chart.bars.iter().map(|bar| (&*bar.label, bar.spread.maximum, bar.failed)).collect();
    assert_eq!(bars, [("not found in 1 of 3", 20_000.0, true), ("2", 30.0, false)]);
    assert_eq!(section.tables[0].columns[1], "From seed 1,000,000");
    let missed = [Cell::text("missed"), Cell::Number(5.0), Cell::text("not found"), Cell::Number(7.0)];
    assert_eq!(section.tables[0].rows[1][..4], missed);
}
