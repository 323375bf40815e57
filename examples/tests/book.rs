//! The book is tested completely: each page with Rust code is compiled and run by the documentation tests.

use std::path::{Path, PathBuf};
use std::{fs, io};

fn pages(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            pages(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

#[test]
fn code_of_every_page_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("../docs/book/src");
    let tested = fs::read_to_string(root.join("src/book.rs")).unwrap();
    let mut found = Vec::new();
    pages(&source, &mut found).unwrap();
    assert!(!found.is_empty());
    for page in found {
        let name = page.strip_prefix(&source).unwrap().display().to_string();
        let text = fs::read_to_string(&page).unwrap();
        // Code blocks marked `ignore` include files that are compiled and tested as a separate project, so
        // they are skipped here.
        let has_code = text.lines().any(|line| line.starts_with("```rust") && !line.contains("ignore"));
        assert_eq!(has_code, tested.contains(&format!("/src/{name}")), "{name}");
        for block in text.split("```rust,ignore").skip(1) {
            assert!(
                block.trim_start().starts_with("{{#include"),
                "{name}: an ignored block is untested code"
            );
        }
    }
}
