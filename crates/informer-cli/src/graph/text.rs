//! The graph as a tree for each controller.

use super::model::{ControllerNode, Graph, verb_text};

/// The maximum width of a line. Only a name that is longer than the rest of its line exceeds it.
const WIDTH: usize = 80;

/// The width of the branches of the tree, and of the column with the roles.
const BRANCH: usize = 3;
const ROLE: usize = 9;

/// The maximum width of the column with the names, which leaves some space for the details.
const MAX_NAME: usize = 40;

struct TextRow {
    role: String,
    name: String,
    details: Vec<String>,
}

pub(super) fn draw(graph: &Graph) -> String {
    if graph.controllers.is_empty() {
        return "no controllers\n".to_owned();
    }
    let trees: Vec<String> = graph.controllers.iter().map(tree).collect();
    trees.join("\n")
}

fn tree(controller: &ControllerNode) -> String {
    let rows = rows(controller);
    let width = rows.iter().map(|row| length(&row.name)).filter(|width| *width <= MAX_NAME).max();
    let mut text = format!("{}\n", controller.title());
    for (number, row) in rows.iter().enumerate() {
        row.draw(&mut text, number + 1 == rows.len(), width.unwrap_or(0));
    }
    for hint in controller.hints() {
        let words: Vec<String> = format!("hint: {hint}").split(' ').map(str::to_owned).collect();
        for line in wrap(&words, " ", WIDTH - BRANCH) {
            text.push_str(&format!("{:BRANCH$}{line}\n", ""));
        }
    }
    text
}

fn rows(controller: &ControllerNode) -> Vec<TextRow> {
    let watches = controller.watches.iter().map(|watched| TextRow {
        role: watched.role.clone(),
        name: watched.name.clone(),
        details: Some(watched.detail.clone()).filter(|detail| !detail.is_empty()).into_iter().collect(),
    });
    let writes = controller.writes.iter().map(|(target, verbs)| TextRow {
        role: "writes".to_owned(),
        name: target.name(),
        details: verbs.iter().map(verb_text).collect(),
    });
    watches.chain(writes).collect()
}

impl TextRow {
    /// Adds the lines of the row. Details that do not fit in a line continue below it.
    fn draw(&self, text: &mut String, is_last: bool, width: usize) {
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let start = BRANCH + ROLE + width + 2;
        let mut lines = wrap(&self.details, ", ", WIDTH.saturating_sub(start)).into_iter();
        let head = format!("{branch}{:ROLE$}{:width$}", self.role, self.name);
        // A longer name leaves no space for details in its line.
        let first = if length(&self.name) <= width { lines.next() } else { None };
        let first = first.map(|line| format!("  {line}")).unwrap_or_default();
        text.push_str(&format!("{}\n", format!("{head}{first}").trim_end()));
        for line in lines {
            text.push_str(&format!("{below}{:1$}{line}\n", "", start - BRANCH));
        }
    }
}

/// Joins the parts to lines of at most `width` characters, if no part is longer.
fn wrap(parts: &[String], separator: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if length(line) + length(separator) + length(part) < width => {
                line.push_str(separator);
                line.push_str(part);
            }
            Some(line) => {
                line.push_str(separator.trim_end());
                lines.push(part.clone());
            }
            None => lines.push(part.clone()),
        }
    }
    lines
}

fn length(text: &str) -> usize {
    text.chars().count()
}
