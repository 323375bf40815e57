use std::path::Path;

use super::Source;
use crate::report::Report;

/// Maximum number of lines of code in a file. A longer file must begin with a comment that states the reason:
/// `// tidy: long, because ...`.
const MAX_CODE_LINES: usize = 500;

const NAMELESS: [&str; 5] = ["utils", "util", "common", "helpers", "misc"];

pub(super) fn check(root: &Path, sources: &[Source], report: &mut Report) {
    let mut longest = 0;
    for source in sources {
        let name = source.name(root);
        let lines = code_lines(&source.text);
        longest = longest.max(lines);
        if lines > MAX_CODE_LINES && !source.text.starts_with("// tidy: long, because ") {
            report.problems.push(format!("{name} has {lines} lines of code, over {MAX_CODE_LINES}"));
        }
        for component in source.path.components() {
            let component = component.as_os_str().to_string_lossy();
            if NAMELESS.contains(&component.trim_end_matches(".rs")) && name.contains(&*component) {
                report
                    .problems
                    .push(format!("{name}: {component} has no meaning; name it after its content"));
            }
        }
        if source.text.contains("#[ignore") && !name.starts_with("xtask/") {
            report.problems.push(format!("{name}: a test is ignored; remove `#[ignore]`"));
        }
    }
    report.figure("longest file, lines of code", longest as f64);
}

fn code_lines(text: &str) -> usize {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}
