use super::*;

fn parsed(words: &[&str]) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(["cargo xtask"].iter().chain(words))
}

#[test]
fn report_folder_is_an_option_of_each_subcommand() {
    for words in [
        "bench --report out",
        "--report out bench",
        "bench informers --report out",
        "bench curve --report out",
        "bench kinds --report out",
        "bench instructions --case lookup --report out",
        "bench churn --report out",
        "bench idle --report out",
        "bench allocators --report out",
        "bench runtime --report out",
        "bench workqueue --runs 1 --report out --json a.json",
        "bench apiserver --alone --report out",
        "bench build --rebuilds --report out",
        "simulate --seconds 10 --report out",
        "simulate --system --report out",
        "simulate --mutants --sample 3 --report=out",
    ] {
        let arguments = parsed(&words.split(' ').collect::<Vec<_>>()).expect(words);
        assert_eq!(arguments.report.as_deref(), Some(Path::new("out")), "{words}");
        assert_eq!(arguments.json.is_some(), words.contains("--json"), "{words}");
    }
    assert_eq!(parsed(&["bench"]).unwrap().report, None);
    assert!(parsed(&["bench", "--report"]).is_err());
}

#[test]
fn page_and_figures_are_both_written() {
    let folder = std::env::temp_dir().join(format!("xtask-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (json, pages) = (folder.join("figures.json"), folder.join("pages"));
    let words = |report: &Path| {
        let options =
            ["--json".into(), json.display().to_string(), "--report".into(), report.display().to_string()];
        ["bench".to_owned()].into_iter().chain(options).collect::<Vec<_>>()
    };
    let finished = |report: &Path| {
        let words = words(report);
        let arguments = parsed(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        format!("{:?}", finish(&Report::new("bench"), &arguments))
    };
    assert_eq!(finished(&pages), format!("{:?}", ExitCode::SUCCESS));
    assert!(pages.join("index.html").exists() && json.exists());
    // The figures are written even if the page cannot be written.
    std::fs::remove_file(&json).unwrap();
    assert_eq!(finished(&pages.join("index.html")), format!("{:?}", ExitCode::from(2)));
    assert!(json.exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
