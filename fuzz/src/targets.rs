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

/// One target: a name, and what holds for any bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// As commands and folders of seeds name it.
    pub name: &'static str,
    /// Panics where a rule is broken.
    pub run: fn(&[u8]),
    /// Words of the format, for a fuzzer that does not know it.
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

/// The target of a name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

/// Words of objects and of what stands around them.
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
