//! Sets of field paths, as in `metadata.managedFields`.
//!
//! # Invariants
//!
//! 1. A node is a member of the set or has children.
//! 2. The elements below a node are sorted and unique.

use std::cmp::Ordering;

use super::element::{Element, Path};

/// A set of paths, as a tree. If a path is in the set, its parents need not be.
///
/// The nodes are sorted vectors. They need one allocation per level, where a tree of maps needs many. Object
/// members are sorted, too, so nearly every insertion appends at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set {
    nodes: Vec<(Element, Node)>,
}

/// One path element of a field set, and the paths below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// True if the path to this node is in the set.
    pub(super) member: bool,
    pub(super) children: Set,
}

impl Node {
    fn join(&mut self, other: Self) {
        self.member |= other.member;
        let children = std::mem::take(&mut self.children);
        self.children = children.joined(other.children);
    }

    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

/// Looks up elements in a sorted list of nodes. The elements must be looked up in ascending order.
struct Cursor<'a>(&'a [(Element, Node)]);

impl<'a> Cursor<'a> {
    fn find(&mut self, element: &Element) -> Option<&'a Node> {
        while let Some(((first, node), rest)) = self.0.split_first() {
            match first.cmp(element) {
                Ordering::Less => self.0 = rest,
                Ordering::Equal => {
                    self.0 = rest;
                    return Some(node);
                }
                Ordering::Greater => return None,
            }
        }
        None
    }
}

impl Set {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the top-level nodes of the tree, sorted by their path elements.
    pub(super) fn nodes(&self) -> impl ExactSizeIterator<Item = &(Element, Node)> {
        self.nodes.iter()
    }

    /// Returns the same nodes as [`nodes`](Self::nodes), but mutable. The caller must not make a node empty:
    /// each must be a member of the set or have children.
    pub(super) fn nodes_mut(&mut self) -> impl Iterator<Item = (&Element, &mut Node)> {
        self.nodes.iter_mut().map(|(element, node)| (&*element, node))
    }

    /// Builds a set from its top-level nodes in any order. If a path element occurs several times, its last
    /// node is used.
    pub(super) fn of_nodes(nodes: impl Iterator<Item = (Element, Node)>) -> Self {
        let mut nodes: Vec<_> = nodes.filter(|(_, node)| !node.is_empty()).collect();
        nodes.sort_by(|(left, _), (right, _)| left.cmp(right));
        nodes.dedup_by(|(later, node), (earlier, kept)| {
            let same = later == earlier;
            if same {
                std::mem::swap(node, kept);
            }
            same
        });
        Self { nodes }
    }

    /// Returns `Ok` with the index of an element's node, or `Err` with the index at which a node for the
    /// element must be inserted.
    fn place(&self, element: &Element) -> Result<usize, usize> {
        match self.nodes.last() {
            Some((last, _)) if last < element => Err(self.nodes.len()),
            _ => self.nodes.binary_search_by(|(other, _)| other.cmp(element)),
        }
    }

    /// Adds a path to the set. An empty path is ignored.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = self.place(first).unwrap_or_else(|at| {
            self.nodes.insert(at, (first.clone(), Node::default()));
            at
        });
        let node = &mut self.nodes[at].1;
        if rest.is_empty() { node.member = true } else { node.children.insert(rest) }
    }

    pub(crate) fn of_fields(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let elements: Vec<Element> = path.split('.').map(Element::field).collect();
            set.insert(&elements);
        }
        set
    }

    pub(crate) fn has(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.node(first)
            .is_some_and(|node| if rest.is_empty() { node.member } else { node.children.has(rest) })
    }

    /// Inserts or replaces the top-level node of a path element, unless the new node is empty. `member` is
    /// true if the path to the node is in the set.
    pub(super) fn put(&mut self, element: Element, member: bool, children: Self) {
        let node = Node { member, children };
        if node.is_empty() {
            return;
        }
        match self.place(&element) {
            Ok(at) => self.nodes[at].1 = node,
            Err(at) => self.nodes.insert(at, (element, node)),
        }
    }

    /// Inserts a node, or merges it with the existing node of the same path element.
    pub(super) fn merge_in(&mut self, element: Element, member: bool, children: Self) {
        let node = Node { member, children };
        match self.place(&element) {
            Ok(at) => self.nodes[at].1.join(node),
            Err(at) => self.nodes.insert(at, (element, node)),
        }
    }

    pub(super) fn node(&self, element: &Element) -> Option<&Node> {
        self.place(element).ok().map(|at| &self.nodes[at].1)
    }

    pub(crate) fn union(self, other: &Self) -> Self {
        if other.is_empty() {
            return self;
        }
        self.joined(other.clone())
    }

    /// Returns the union of both sets like [`union`](Self::union), but consumes them instead of cloning.
    pub(crate) fn joined(mut self, other: Self) -> Self {
        if self.nodes.is_empty() {
            return other;
        }
        if other.nodes.is_empty() {
            return self;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let mut theirs = other.nodes.into_iter().peekable();
        for (element, mut node) in std::mem::take(&mut self.nodes) {
            while let Some(before) = theirs.next_if(|(other, _)| *other < element) {
                nodes.push(before);
            }
            if let Some((_, other)) = theirs.next_if(|(other, _)| *other == element) {
                node.join(other);
            }
            nodes.push((element, node));
        }
        nodes.extend(theirs);
        Self { nodes }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let (mut both, mut theirs) = (Self::default(), Cursor(&other.nodes));
        for (element, ours) in &self.nodes {
            if let Some(theirs) = theirs.find(element) {
                let children = ours.children.intersection(&theirs.children);
                both.put(element.clone(), ours.member && theirs.member, children);
            }
        }
        both
    }

    pub(crate) fn difference(mut self, other: &Self) -> Self {
        self.subtract(other);
        self
    }

    fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        let mut theirs = Cursor(&other.nodes);
        self.nodes.retain_mut(|(element, ours)| {
            let Some(theirs) = theirs.find(element) else { return true };
            ours.member &= !theirs.member;
            ours.children.subtract(&theirs.children);
            !ours.is_empty()
        });
    }

    /// Returns the paths of this set that are neither in `other` nor below a path in it.
    pub(crate) fn without(mut self, other: &Self) -> Self {
        self.cut(other);
        self
    }

    fn cut(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        let mut theirs = Cursor(&other.nodes);
        self.nodes.retain_mut(|(element, ours)| {
            let Some(theirs) = theirs.find(element) else { return true };
            if theirs.member {
                return false;
            }
            ours.children.cut(&theirs.children);
            !ours.is_empty()
        });
    }

    pub(super) fn without_fields(mut self, paths: &[&str]) -> Self {
        paths.iter().for_each(|path| self.take_field(path));
        self
    }

    fn take_field(&mut self, path: &str) {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let Ok(at) = self.nodes.binary_search_by(|(element, _)| element.against_field(name)) else { return };
        let node = &mut self.nodes[at].1;
        match rest {
            None => node.member = false,
            Some(rest) => node.children.take_field(rest),
        }
        if node.is_empty() {
            self.nodes.remove(at);
        }
    }

    /// Returns all paths of the set. At each level, the paths that end there come before the paths below it;
    /// both are sorted.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Path>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            prefix.push(element.clone());
            paths.push(Path(prefix.clone()));
            prefix.pop();
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.children.collect(prefix, paths);
            prefix.pop();
        }
    }
}
