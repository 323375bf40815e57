//! The nodes and edges of the graph, for formats that draw diagrams.

use std::collections::HashMap;

use super::model::{ControllerNode, Graph, WatchedSource, verb_text};

#[derive(Debug, Default)]
pub(super) struct Diagram {
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    /// The number of nodes by their shape.
    counts: HashMap<NodeShape, usize>,
}

#[derive(Debug)]
pub(super) struct Node {
    /// A letter and a number, so that no name of a program is part of an identifier.
    pub(super) id: String,
    pub(super) label: String,
    pub(super) shape: NodeShape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NodeShape {
    Controller,
    Kind,
    /// A source that is no kind, such as a channel.
    Source,
}

/// An edge in the direction of the data: from a kind to the controller that watches it, and from a controller
/// to the kind that it writes.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) label: String,
    pub(super) is_write: bool,
    /// True if the write may enqueue its controller again.
    pub(super) is_hint: bool,
}

impl Diagram {
    pub(super) fn of(graph: &Graph) -> Self {
        let (mut diagram, mut kinds) = (Self::default(), HashMap::new());
        for controller in &graph.controllers {
            let id = diagram.node("c", controller.title(), NodeShape::Controller);
            for watched in &controller.watches {
                let from = diagram.source(watched, &mut kinds);
                diagram.edge(Edge {
                    from,
                    to: id.clone(),
                    label: watched.role.clone(),
                    is_write: false,
                    is_hint: false,
                });
            }
            diagram.writes(controller, &id, &mut kinds);
        }
        diagram
    }

    fn writes(&mut self, controller: &ControllerNode, id: &str, kinds: &mut HashMap<String, String>) {
        for (target, verbs) in &controller.writes {
            let verbs = verbs.iter().map(verb_text).collect::<Vec<_>>().join(", ");
            let label = match target.subresource.as_str() {
                "" => verbs,
                subresource => format!("{subresource}: {verbs}"),
            };
            let (to, is_hint) = (self.kind(&target.resource, kinds), controller.may_loop(&target.resource));
            self.edge(Edge { from: id.to_owned(), to, label, is_write: true, is_hint });
        }
    }

    /// Returns the id of the node of a source. Controllers share the nodes of kinds.
    fn source(&mut self, watched: &WatchedSource, kinds: &mut HashMap<String, String>) -> String {
        if watched.is_kind {
            self.kind(&watched.name, kinds)
        } else {
            self.node("s", watched.name.clone(), NodeShape::Source)
        }
    }

    fn kind(&mut self, resource: &str, kinds: &mut HashMap<String, String>) -> String {
        if let Some(id) = kinds.get(resource) {
            return id.clone();
        }
        let id = self.node("k", resource.to_owned(), NodeShape::Kind);
        kinds.insert(resource.to_owned(), id.clone());
        id
    }

    fn node(&mut self, prefix: &str, label: String, shape: NodeShape) -> String {
        let number = self.counts.entry(shape).or_default();
        let id = format!("{prefix}{number}");
        *number += 1;
        self.nodes.push(Node { id: id.clone(), label, shape });
        id
    }

    fn edge(&mut self, edge: Edge) {
        self.edges.push(edge);
    }
}
