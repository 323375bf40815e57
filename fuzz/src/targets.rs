//! The targets.

mod faults;
mod gzip;
mod keys;
mod kubeconfig;
mod list;
mod object;
mod patches;
mod protobuf;
mod requests;
mod schemas;
mod selectors;
mod watch;

/// One target: a name, and a check for arbitrary bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target in commands and in folders of seeds.
    pub name: &'static str,
    /// Runs the target on one input. Panics if a check fails.
    pub run: fn(&[u8]),
    /// Tokens of the format, for a fuzzer that does not know it.
    pub words: &'static [&'static str],
}

/// Every target.
pub const TARGETS: &[Target] = &[
    list::TARGET,
    watch::TARGET,
    object::TARGET,
    protobuf::TARGET,
    gzip::TARGET,
    selectors::TARGET,
    keys::TARGET,
    requests::TARGET,
    patches::TARGET,
    schemas::TARGET,
    kubeconfig::TARGET,
    faults::TARGET,
];

/// Returns the target with a name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

/// Tokens of objects, lists and watch events.
const WORDS: &[&str] = &[
    "\"metadata\":",
    "\"name\":",
    "\"namespace\":",
    "\"uid\":",
    "\"resourceVersion\":",
    "\"labels\":",
    "\"annotations\":",
    "\"ownerReferences\":[{",
    "\"managedFields\":[{}],",
    "\"generation\":1,",
    "\"deletionTimestamp\":",
    "\"items\":[",
    "\"kind\":\"PodList\",",
    "\"kind\":\"Pod\",",
    "\"apiVersion\":\"v1\",",
    "\"type\":\"ADDED\",",
    "\"type\":\"MODIFIED\",",
    "\"type\":\"DELETED\",",
    "\"type\":\"BOOKMARK\",",
    "\"type\":\"ERROR\",",
    "\"object\":{",
    "\\u006d",
    "\\ud83d\\ude00",
    "\\\\",
    "null",
    "}}",
    "]}",
    "{\"metadata\":{\"name\":\"a\"}},",
];
