//! The graph in the language of Graphviz.

use std::fmt::Write as _;

use super::diagram::{Diagram, NodeShape};

pub(super) fn draw(diagram: &Diagram) -> String {
    let mut text = "digraph informer {\n  rankdir=LR;\n  node [fontname=\"sans-serif\"];\n  \
                    edge [fontname=\"sans-serif\", fontsize=10];\n"
        .to_owned();
    for node in &diagram.nodes {
        let shape = match node.shape {
            NodeShape::Controller => "shape=box, style=\"rounded,bold\"",
            NodeShape::Kind => "shape=box",
            NodeShape::Source => "shape=parallelogram",
        };
        let _ = writeln!(text, "  {} [label=\"{}\", {shape}];", node.id, escaped(&node.label));
    }
    for edge in &diagram.edges {
        let style = if edge.is_write { ", style=dashed" } else { "" };
        let color = if edge.is_hint { ", color=red" } else { "" };
        let label = escaped(&edge.label);
        let _ = writeln!(text, "  {} -> {} [label=\"{label}\"{style}{color}];", edge.from, edge.to);
    }
    text.push_str("}\n");
    text
}

/// Escapes the characters that have a meaning in a quoted label: Graphviz also replaces escape sequences,
/// such as `\N`, and entities of HTML.
fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;")
}
