//! The CRDs in the manifests are those of the types. After a change of a type, write them with
//! `UPDATE_MANIFESTS=1 cargo test --test manifests`.

use std::{env, fs};

use minimal::api;

/// The folders with CRDs, for kustomize and for Helm.
const FOLDERS: [&str; 2] = ["config/crd", "charts/minimal/crds"];

#[test]
fn crds_in_the_manifests_are_those_of_the_types() {
    for crd in api::crds() {
        let expected = serde_norway::to_string(&crd).expect("a CRD can be encoded as YAML");
        for folder in FOLDERS {
            let path = format!("{folder}/{}.yaml", crd.spec.names.plural);
            if env::var_os("UPDATE_MANIFESTS").is_some() {
                fs::write(&path, &expected).expect("the file can be written");
            }
            let present = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(
                present, expected,
                "{path} is stale; run UPDATE_MANIFESTS=1 cargo test --test manifests"
            );
        }
    }
}
