use super::*;

fn samples() -> Samples {
    let mut samples = Samples::default();
    for (program, values) in
        [("client-go", [30.0, 10.0, 20.0]), ("informer", [3.0, 2.0, 1.0]), ("a peer", [5.0; 3])]
    {
        values.into_iter().for_each(|value| samples.push(program, "add, ns".to_owned(), value));
    }
    samples
}

#[test]
fn section_of_a_case_has_the_spread_and_the_ratios() {
    let mut report = Report::new("bench");
    by_case(&samples(), &["informer"], &["client-go", "kube-rs"], &mut report);
    let [section] = &*report.sections else { panic!("{:?}", report.sections) };
    assert_eq!(section.title, "add, ns");
    let row = |name: &str, values: &[f64]| {
        [Cell::text(name)].into_iter().chain(values.iter().copied().map(Cell::Number)).collect::<Vec<_>>()
    };
    let rows = [
        row("informer", &[2.0, 1.0, 3.0]),
        row("a peer", &[5.0, 5.0, 5.0]),
        row("client-go", &[20.0, 10.0, 30.0]),
    ];
    assert_eq!(section.tables[0].rows, rows);
    assert_eq!(section.tables[0].columns, ["Program", "Median (ns)", "Minimum (ns)", "Maximum (ns)"]);
    assert_eq!(section.tables[1].columns, ["Program", "client-go"]);
    assert_eq!(section.tables[1].rows, [vec![Cell::text("informer"), Cell::text("10×")]]);
}

#[test]
fn bars_of_this_library_come_first_with_their_values() {
    let chart = bars(&samples(), "add, ns", &[]);
    let shown: Vec<_> = chart.bars.iter().map(|bar| (&*bar.name, &*bar.label, bar.ours)).collect();
    let expected =
        [("informer", "2 (1 to 3)", true), ("a peer", "5", false), ("client-go", "20 (10 to 30)", false)];
    assert_eq!(shown, expected);
    assert!(bars(&samples(), "unknown", &[]).bars.is_empty());
}

#[test]
fn every_figure_of_samples_is_in_a_section() {
    let mut report = Report::new("bench");
    samples().report(&["informer"], &["client-go"], &mut report);
    by_case(&samples(), &["informer"], &["client-go"], &mut report);
    let cells: Vec<_> = report
        .sections
        .iter()
        .flat_map(|section| &section.tables)
        .flat_map(|table| table.rows.concat())
        .collect();
    for (name, value) in &report.figures {
        assert!(cells.contains(&Cell::Number(*value)) || cells.contains(&times(*value)), "{name}");
    }
}

#[test]
fn sizes_are_sorted_as_numbers() {
    let mut samples = Samples::default();
    for (size, value) in [("   1000", 1.0), (" 100000", 3.0), ("  10000", 2.0)] {
        samples.push("informer", format!("sync, s, of {size}"), value);
        samples.push("client-go", format!("sync, s, of {size}"), value * 10.0);
    }
    samples.push("informer", "without a number, of many".to_owned(), 1.0);
    let mut report = Report::new("bench curve");
    by_size(&samples, &["informer"], &["client-go"], &mut report);
    let [section] = &*report.sections else { panic!("{:?}", report.sections) };
    let Chart::Curves(chart) = &section.figures[0].chart else { panic!("{section:?}") };
    let points: Vec<_> = chart.curves[0].points.iter().map(|(size, spread)| (*size, spread.median)).collect();
    assert_eq!(points, [(1000.0, 1.0), (10_000.0, 2.0), (100_000.0, 3.0)]);
    assert_eq!((&*section.title, &*chart.curves[1].name), ("sync, s", "client-go"));
    assert_eq!((&*chart.y, &*section.tables[0].columns[2]), ("s", "Median (s)"));
    assert_eq!(section.tables[1].rows.len(), 3);
    assert!(section.tables[1].rows.iter().all(|row| row[2] == Cell::text("10×")));
}

#[test]
fn direction_follows_from_the_unit() {
    assert_eq!(direction("events through one handler, a second"), " Higher is better.");
    assert_eq!(direction("get and done, CPU ns"), " Lower is better.");
    assert_eq!(direction("crates"), "");
}

#[test]
fn columns_of_a_case_without_a_unit_have_only_names() {
    assert_eq!(spread_columns("crates").collect::<Vec<_>>(), ["Median", "Minimum", "Maximum"]);
}
