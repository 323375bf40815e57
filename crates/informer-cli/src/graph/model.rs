//! The graph of controllers and kinds, as the snapshots of programs describe it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use informer::runtime::console::{ConsoleSnapshot, ControllerSnapshot, WatchSnapshot, WriteSnapshot};

use crate::failure::plain;

/// The maximum number of characters of a name. The longest names of resources have 317: a plural and a group.
const MAX_NAME_CHARS: usize = 320;

/// The maximum number of controllers of a program. The library sends no more.
const MAX_CONTROLLERS: usize = 2_000;

/// The name of the kinds that a program counts together, because they exceed its limit.
const OTHER: &str = "other kinds";

/// The controllers, in the order of their programs.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) controllers: Vec<ControllerNode>,
    /// The positions of the controllers with the same name and the same sources.
    positions: HashMap<(String, Sources), Vec<usize>>,
}

/// The roles and names of the sources of a controller.
type Sources = BTreeSet<(String, String)>;

/// A controller, or its replicas.
#[derive(Debug)]
pub(super) struct ControllerNode {
    pub(super) name: String,
    /// The programs that run the controller.
    pub(super) programs: Vec<String>,
    /// True if the name alone does not identify the program, because there are several.
    pub(super) shows_programs: bool,
    pub(super) watches: Vec<WatchedSource>,
    pub(super) writes: BTreeMap<WriteTarget, BTreeMap<String, WriteCount>>,
}

/// A source of a controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WatchedSource {
    /// The role, such as `owns`.
    pub(super) role: String,
    /// The resource, or the name of a source that does not watch a kind.
    pub(super) name: String,
    pub(super) is_kind: bool,
    /// The namespace and the representation of the informer if they are set, such as `form=Metadata`.
    pub(super) detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteTarget {
    pub(super) resource: String,
    /// Empty for the object itself.
    pub(super) subresource: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WriteCount {
    pub(super) count: u64,
    pub(super) failed: u64,
}

impl Graph {
    /// Creates the graph of named programs. Controllers with the same name and the same sources are replicas.
    pub(super) fn of(programs: &[(String, ConsoleSnapshot)]) -> Self {
        let mut graph = Self::default();
        for (program, snapshot) in programs {
            for controller in snapshot.controllers.iter().take(MAX_CONTROLLERS) {
                graph.add(ControllerNode::of(shown(program), controller), programs.len() > 1);
            }
        }
        graph
    }

    fn add(&mut self, new: ControllerNode, shows_programs: bool) {
        let identity = (new.name.clone(), new.sources());
        // A program may have several controllers of one name, which are no replicas of each other.
        let same = self.positions.entry(identity).or_default();
        let is_replica = |at: &&usize| {
            !self.controllers[**at].programs.iter().any(|program| new.programs.contains(program))
        };
        match same.iter().find(is_replica) {
            Some(&at) => self.controllers[at].merge(new),
            None => {
                same.push(self.controllers.len());
                self.controllers.push(ControllerNode { shows_programs, ..new });
            }
        }
    }

    /// Returns a sentence for each kind that a controller writes and that may enqueue it again.
    pub(super) fn hints(&self) -> impl Iterator<Item = String> {
        self.controllers.iter().flat_map(ControllerNode::hints)
    }
}

impl ControllerNode {
    fn of(program: String, controller: &ControllerSnapshot) -> Self {
        // Programs with an earlier version of the library only have the names of sources.
        let sources = controller.sources.iter().filter(|_| controller.watches.is_empty());
        let watches =
            controller.watches.iter().map(WatchedSource::of).chain(sources.map(|name| WatchedSource {
                role: "source".to_owned(),
                name: shown(name),
                is_kind: false,
                detail: String::new(),
            }));
        let mut node = Self {
            name: shown(&controller.name),
            programs: vec![program],
            shows_programs: false,
            watches: watches.collect(),
            writes: BTreeMap::new(),
        };
        controller.writes.iter().for_each(|write| node.count(write));
        node
    }

    fn count(&mut self, write: &WriteSnapshot) {
        let resource = if write.resource.is_empty() { OTHER.to_owned() } else { shown(&write.resource) };
        let target = WriteTarget { resource, subresource: shown(&write.subresource) };
        let count = WriteCount { count: write.count, failed: write.failed };
        self.writes.entry(target).or_default().entry(shown(&write.verb)).or_default().add(count);
    }

    /// Returns the sources without their details, which may differ between replicas.
    fn sources(&self) -> Sources {
        self.watches.iter().map(|watched| (watched.role.clone(), watched.name.clone())).collect()
    }

    fn merge(&mut self, replica: Self) {
        self.programs.extend(replica.programs);
        for (target, verbs) in replica.writes {
            let held = self.writes.entry(target).or_default();
            verbs.into_iter().for_each(|(verb, count)| held.entry(verb).or_default().add(count));
        }
    }

    /// Returns the name with the programs that run the controller, if there are several programs.
    pub(super) fn title(&self) -> String {
        match self.programs.as_slice() {
            _ if !self.shows_programs => self.name.clone(),
            programs @ ([_] | [_, _]) => format!("{} ({})", self.name, programs.join(", ")),
            programs => format!("{} ({} programs)", self.name, programs.len()),
        }
    }

    /// Returns true if a write of this resource may enqueue the controller again: it watches the kind, and
    /// neither reconciles nor owns it. Controllers write the status and the finalizers of the reconciled
    /// kind, and what they own, as a rule.
    pub(super) fn may_loop(&self, resource: &str) -> bool {
        let of_kind = |watched: &&WatchedSource| watched.is_kind && same_kind(&watched.name, resource);
        let mut roles = self.watches.iter().filter(of_kind).map(|watched| watched.role.as_str()).peekable();
        roles.peek().is_some() && roles.all(|role| !matches!(role, "for" | "owns"))
    }

    pub(super) fn hints(&self) -> impl Iterator<Item = String> {
        let resources: BTreeSet<&str> = self.writes.keys().map(|target| target.resource.as_str()).collect();
        let looping = resources.into_iter().filter(|resource| self.may_loop(resource));
        looping.map(|resource| {
            let name = &self.name;
            format!(
                "{name} writes {resource}, which it watches and does not own, so it may enqueue itself again"
            )
        })
    }
}

impl WatchedSource {
    fn of(watch: &WatchSnapshot) -> Self {
        let is_kind = !watch.resource.is_empty();
        let name = if is_kind { &watch.resource } else { &watch.source };
        let role = if watch.role.is_empty() { "source" } else { &watch.role };
        Self { role: shown(role), name: shown(name), is_kind, detail: shown(&detail(watch)) }
    }
}

impl WriteTarget {
    /// Returns the resource with its subresource, such as `websites.example.com/v1 status`.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.resource, self.subresource).trim_end().to_owned()
    }
}

impl WriteCount {
    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// Returns a verb with its counts, such as `apply 3 (1 failed)`.
pub(super) fn verb_text((verb, count): (&String, &WriteCount)) -> String {
    match count.failed {
        0 => format!("{verb} {}", count.count),
        failed => format!("{verb} {} ({failed} failed)", count.count),
    }
}

/// Returns the place of a source outside of the manager's cache, and the scope of its informers. The name of
/// an informer is its resource, followed by its namespace, selectors and representation.
fn detail(watch: &WatchSnapshot) -> String {
    let place = watch.source.split_once(" in ").map(|(_, place)| format!("in {place}"));
    let informer = match watch.informers.as_slice() {
        [] => None,
        [name] => name.split_once(' ').map(|(_, scope)| scope.to_owned()),
        names => Some(format!("{} informers", names.len())),
    };
    [place.filter(|_| !watch.resource.is_empty()), informer]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns true if two resources differ at most in their version.
fn same_kind(one: &str, other: &str) -> bool {
    let unversioned = |resource: &str| resource.split_once('/').map_or(resource, |(name, _)| name).to_owned();
    unversioned(one) == unversioned(other)
}

/// Escapes control characters of a name from a program, and truncates the name.
fn shown(name: &str) -> String {
    let mut text = plain(name);
    if let Some((end, _)) = text.char_indices().nth(MAX_NAME_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}
