//! Sets of fields.
//!
//! # Invariants
//!
//! A node is a member or has children: there is no other way into a set than a path that is in it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::element::{Element, Path};

/// A set of paths, as a tree. A path does not bring those that lead to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set {
    pub(super) nodes: BTreeMap<Element, Node>,
}

/// What a set has below one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Whether the path to here is in the set.
    pub(super) member: bool,
    pub(super) children: Set,
}

impl Node {
    fn join(&mut self, other: Self) {
        self.member |= other.member;
        self.children = std::mem::take(&mut self.children).joined(other.children);
    }

    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl Set {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a path; the empty one is nobody's.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.nodes.entry(first.clone()).or_default();
        match rest.is_empty() {
            true => node.member = true,
            false => node.children.insert(rest),
        }
    }

    /// A set of paths of fields, as `metadata.labels`.
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
        self.nodes.get(first).is_some_and(|node| match rest.is_empty() {
            true => node.member,
            false => node.children.has(rest),
        })
    }

    /// Puts what is below one step into the set, and whether the step itself is in it.
    pub(super) fn put(&mut self, element: Element, member: bool, children: Self) {
        let node = Node { member, children };
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// As [`put`](Self::put), beside what is there already.
    pub(super) fn merge_in(&mut self, element: Element, member: bool, children: Self) {
        match self.nodes.entry(element) {
            Entry::Vacant(place) => {
                place.insert(Node { member, children });
            }
            Entry::Occupied(mut place) => place.get_mut().join(Node { member, children }),
        }
    }

    pub(super) fn node(&self, element: &Element) -> Option<&Node> {
        self.nodes.get(element)
    }

    pub(crate) fn union(mut self, other: &Self) -> Self {
        for (element, theirs) in &other.nodes {
            match self.nodes.get_mut(element) {
                Some(ours) => {
                    ours.member |= theirs.member;
                    ours.children = std::mem::take(&mut ours.children).union(&theirs.children);
                }
                None => {
                    self.nodes.insert(element.clone(), theirs.clone());
                }
            }
        }
        self
    }

    /// As [`union`](Self::union), without a copy of anything.
    pub(crate) fn joined(mut self, other: Self) -> Self {
        if self.nodes.is_empty() {
            return other;
        }
        for (element, theirs) in other.nodes {
            match self.nodes.entry(element) {
                Entry::Vacant(place) => {
                    place.insert(theirs);
                }
                Entry::Occupied(mut place) => place.get_mut().join(theirs),
            }
        }
        self
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (element, ours) in &self.nodes {
            if let Some(theirs) = other.nodes.get(element) {
                let children = ours.children.intersection(&theirs.children);
                both.put(element.clone(), ours.member && theirs.member, children);
            }
        }
        both
    }

    /// What is here and not there.
    pub(crate) fn difference(mut self, other: &Self) -> Self {
        self.nodes.retain(|element, ours| {
            if let Some(theirs) = other.nodes.get(element) {
                ours.member &= !theirs.member;
                ours.children = std::mem::take(&mut ours.children).difference(&theirs.children);
            }
            !ours.is_empty()
        });
        self
    }

    /// What is here and neither there nor below anything that is there.
    pub(crate) fn without(mut self, other: &Self) -> Self {
        self.nodes.retain(|element, ours| {
            let Some(theirs) = other.nodes.get(element) else { return true };
            if theirs.member {
                return false;
            }
            ours.children = std::mem::take(&mut ours.children).without(&theirs.children);
            !ours.is_empty()
        });
        self
    }

    /// All paths: those of one step before those that go on, each in order.
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
