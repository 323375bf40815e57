//! The graph as a flowchart of Mermaid.

use std::fmt::Write as _;

use super::diagram::{Diagram, NodeShape};

pub(super) fn draw(diagram: &Diagram) -> String {
    let mut text = "flowchart LR\n".to_owned();
    for node in &diagram.nodes {
        let (open, close) = match node.shape {
            NodeShape::Controller => ("([", "])"),
            NodeShape::Kind => ("[", "]"),
            NodeShape::Source => ("[/", "/]"),
        };
        let _ = writeln!(text, "  {}{open}\"{}\"{close}", node.id, escaped(&node.label));
    }
    for edge in &diagram.edges {
        let arrow = if edge.is_write { "-.->" } else { "-->" };
        let _ = writeln!(text, "  {} {arrow}|\"{}\"| {}", edge.from, escaped(&edge.label), edge.to);
    }
    for (number, _) in diagram.edges.iter().enumerate().filter(|(_, edge)| edge.is_hint) {
        let _ = writeln!(text, "  linkStyle {number} stroke:#c00");
    }
    text
}

/// Replaces each character that may have a meaning in Mermaid, in Markdown or in HTML by its entity. A first
/// character that is no letter could begin a list of Markdown.
fn escaped(label: &str) -> String {
    let mut escaped = String::with_capacity(label.len());
    for (at, char) in label.chars().enumerate() {
        let is_plain =
            char.is_alphanumeric() || matches!(char, ' ' | '.' | ',' | '/' | ':' | '-' | '(' | ')');
        if is_plain && (at > 0 || char.is_alphabetic()) {
            escaped.push(char);
        } else {
            let _ = write!(escaped, "#{};", u32::from(char));
        }
    }
    escaped
}
