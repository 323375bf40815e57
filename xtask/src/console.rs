//! Builds the console of informer-runtime and the web UI of the embedded API server, and with `--test` tests
//! them in Chromium.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::report::Report;

const SOURCE: &str = "console";

/// A page, and the folder of its committed files. It is in the package that embeds the page with
/// `include_str!`.
struct Page {
    name: &'static str,
    committed: &'static str,
}

const PAGES: [Page; 2] = [
    Page { name: "console", committed: "crates/informer-runtime/src/console/assets" },
    Page { name: "server", committed: "crates/informer-apiserver/src/http/web_ui/assets" },
];

impl Page {
    /// Returns the names of the files of the page.
    fn files(&self) -> [String; 4] {
        let name = self.name;
        ["index.html".to_owned(), format!("{name}.css"), format!("{name}.js"), "licenses.txt".to_owned()]
    }
}

#[derive(Debug, Args)]
pub(crate) struct ConsoleArguments {
    /// Also test the committed pages in Chromium, with generated data and with the sample operator. The path
    /// of Chromium is in the environment variable CHROMIUM [default: /usr/bin/chromium].
    #[arg(long)]
    test: bool,
}

pub(crate) fn run(root: &Path, arguments: &ConsoleArguments, check: bool) -> Report {
    let mut report = Report::new("console");
    if let Err(problem) = build(root, arguments, check, &mut report) {
        report.problems.push(problem);
    }
    report
}

fn build(root: &Path, arguments: &ConsoleArguments, check: bool, report: &mut Report) -> Result<(), String> {
    let source = root.join(SOURCE);
    npm(&source, &["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"])?;
    npm(&source, &["run", "--silent", "check"])?;
    let output = |page: Page| {
        if check { root.join("target/console").join(page.name) } else { root.join(page.committed) }
    };
    let outputs = PAGES.map(output);
    let [console, server] = outputs.each_ref().map(|output| output.to_string_lossy());
    npm(&source, &["run", "--silent", "build", "--", &console, &server])?;
    for (page, output) in PAGES.iter().zip(&outputs) {
        for file in page.files() {
            let built = read(&output.join(&file))?;
            let path = Path::new(page.committed).join(&file);
            if check && read(&root.join(&path))? != built {
                let path = path.display();
                report
                    .problems
                    .push(format!("{path} is stale; run `cargo xtask console` and commit the result"));
            }
            report.figure(format!("bytes of {file} of the page {}", page.name), built.len() as f64);
        }
    }
    if arguments.test {
        npm(&source, &["run", "--silent", "test"])?;
    }
    Ok(())
}

fn npm(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new("npm").current_dir(folder).args(arguments).status();
    let status = status.map_err(|error| format!("run npm: {error}; install Node.js 20 or later"))?;
    if status.success() { Ok(()) } else { Err(format!("npm {} failed", arguments.join(" "))) }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("read {}: {error}", path.display()))
}
