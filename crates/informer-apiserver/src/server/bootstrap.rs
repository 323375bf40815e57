//! The objects that kube-apiserver creates when it starts.
//!
//! `cargo xtask real bootstrap` records the objects of a kube-apiserver with default flags in
//! `bootstrap/objects.txt`. Objects that depend on flags are created in code.

use std::sync::Arc;

use informer_core::Gvr;
use serde_json::{Value, json};

use crate::server::ApiServer;

/// One object per line: its group, version and resource, its namespace and name, and the object as JSON.
const OBJECTS: &str = include_str!("bootstrap/objects.txt");
const RBAC: &str = "rbac.authorization.k8s.io";
/// The roles of every server with RBAC: those of users. The others belong to components of a cluster.
const USER_ROLES: [&str; 10] = [
    "admin",
    "cluster-admin",
    "edit",
    "system:aggregate-to-admin",
    "system:aggregate-to-edit",
    "system:aggregate-to-view",
    "system:basic-user",
    "system:discovery",
    "system:public-info-viewer",
    "view",
];

/// The objects that a new server creates.
#[derive(Debug, Clone)]
pub(crate) struct BootstrapObjects {
    /// The server authorizes by RBAC, so it has roles.
    pub(crate) rbac: bool,
    /// All objects of kube-apiserver, and not only the roles of users.
    pub(crate) all: bool,
    /// The CA certificates (PEM) of client certificates.
    pub(crate) client_ca: Option<Arc<str>>,
}

struct Record {
    gvr: Gvr,
    namespace: &'static str,
    name: &'static str,
    text: &'static str,
}

fn records() -> impl Iterator<Item = Record> {
    OBJECTS.lines().filter_map(|line| {
        let (resource, rest) = line.split_once(' ')?;
        let (key, text) = rest.split_once(' ')?;
        let (namespace, name) = key.split_once('/')?;
        let (group_version, resource) = resource.rsplit_once('/')?;
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        Some(Record { gvr: Gvr::new(group, version, resource), namespace, name, text })
    })
}

impl BootstrapObjects {
    fn includes(&self, record: &Record) -> bool {
        let is_role = record.gvr.group == RBAC;
        if is_role && !self.rbac {
            return false;
        }
        self.all || (is_role && record.namespace.is_empty() && USER_ROLES.contains(&record.name))
    }

    /// Creates the objects. Their namespaces must exist.
    pub(crate) fn create(self, server: &ApiServer) {
        for record in records().filter(|record| self.includes(record)) {
            let object: Value = serde_json::from_str(record.text).expect("the recorded objects are JSON");
            // The objects are stored as they were recorded, with their status.
            let created = server.raw().create(&record.gvr, record.namespace, object);
            created.expect("the recorded objects are valid");
        }
        if let Some(client_ca) = self.client_ca.as_deref().filter(|_| self.all) {
            publish_client_ca(server, client_ca);
        }
    }
}

/// Creates the ConfigMap from which extension API servers read how clients of the API server authenticate. It
/// has no entries for request headers, because this server does not authenticate by them.
fn publish_client_ca(server: &ApiServer, client_ca: &str) {
    let metadata = json!({"name": "extension-apiserver-authentication"});
    let object = json!({"metadata": metadata, "data": {"client-ca-file": client_ca}});
    let created = server.create(&Gvr::new("", "v1", "configmaps"), "kube-system", object);
    created.expect("the initial objects of a server are valid");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::records;

    #[test]
    fn recorded_objects_are_those_of_a_new_cluster() {
        let mut counts = BTreeMap::new();
        for record in records() {
            *counts.entry(record.gvr.resource).or_insert(0) += 1;
        }
        let expected = [
            ("apiservices", 21),
            ("clusterrolebindings", 50),
            ("clusterroles", 69),
            ("flowschemas", 11),
            ("prioritylevelconfigurations", 8),
            ("priorityclasses", 2),
            ("rolebindings", 7),
            ("roles", 7),
            ("servicecidrs", 1),
            ("services", 1),
        ];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
    }
}
