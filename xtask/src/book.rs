//! Builds the book in `docs/book` with mdBook, and checks the links between its pages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::report::Report;

pub(crate) fn run(root: &Path) -> Report {
    let mut report = Report::new("book");
    let mut mdbook = Command::new("mdbook");
    let output = match mdbook.arg("build").arg(root.join("docs/book")).output() {
        Ok(output) => output,
        Err(error) => {
            report
                .problems
                .push(format!("run mdbook: {error}; install it with `cargo install --locked mdbook`"));
            return report;
        }
    };
    let log = String::from_utf8_lossy(&output.stderr);
    let warnings = log.lines().filter(|line| ["WARN", "ERROR"].iter().any(|level| line.contains(level)));
    report.problems.extend(warnings.map(str::to_owned));
    if !output.status.success() {
        report.problems.push(format!("mdbook failed: {}", log.trim()));
        return report;
    }
    let html = root.join("target/book");
    let mut pages = Vec::new();
    if let Err(error) = find_pages(&html, &mut pages) {
        report.problems.push(format!("read {}: {error}", html.display()));
        return report;
    }
    let mut links = 0;
    for page in &pages {
        let text = fs::read_to_string(page).unwrap_or_default();
        for link in relative_links(&text) {
            links += 1;
            if !page.with_file_name(link).exists() {
                let page = page.strip_prefix(&html).unwrap_or(page).display();
                report.problems.push(format!("{page} links to {link}, which does not exist"));
            }
        }
    }
    report.figure("pages", pages.len() as f64);
    report.figure("links between files of the book", f64::from(links));
    report
}

fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_pages(&path, pages)?;
        // mdBook writes 404.html for unknown addresses. Its links are relative to the root of a site, so they
        // cannot be checked as files.
        } else if path.extension().is_some_and(|extension| extension == "html") && !path.ends_with("404.html")
        {
            pages.push(path);
        }
    }
    Ok(())
}

/// Returns the targets of the relative links and images in an HTML page, without fragments and queries. They
/// are files of the book. Links to other sites and absolute paths are not returned.
fn relative_links(html: &str) -> impl Iterator<Item = &str> {
    ["href=\"", "src=\""].into_iter().flat_map(|attribute| html.split(attribute).skip(1)).filter_map(|rest| {
        let target = rest.split('"').next()?.split(['#', '?']).next()?;
        let elsewhere = target.contains(':') || target.starts_with('/');
        (!target.is_empty() && !elsewhere).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::relative_links;

    #[test]
    fn links_to_other_sites_and_fragments_are_not_checked() {
        let html = r##"<a href="a.html#part">a</a><a href="https://example.com/b">b</a><a href="#top">c</a><img src="../d.svg">"##;
        assert_eq!(relative_links(html).collect::<Vec<_>>(), ["a.html", "../d.svg"]);
    }
}
