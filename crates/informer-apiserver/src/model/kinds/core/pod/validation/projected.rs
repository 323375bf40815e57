//! Validation of projected volumes.

use std::collections::HashSet;
use std::fmt::Display;

use crate::model::cause::{Cause, Causes};
use crate::model::rules::checks::{FieldView, required, short_value};

use super::volumes::{check_downward_file, check_file_path, check_item, check_mode, need};

/// The shortest lifetime of a token in seconds, and the longest one.
const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// The sources that an entry of a projected volume can have.
const PROJECTIONS: [&str; 6] =
    ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/// Validates a projected volume. `clusterTrustBundle` and `podCertificate` are not validated: their feature
/// gates are off by default, so they are dropped, unless the stored object has them.
pub(super) fn check(at: &FieldView<'_, '_>, causes: &mut Causes) {
    check_mode(at, "defaultMode", causes);
    let mut paths = HashSet::new();
    let mut is_duplicate = |item: &FieldView<'_, '_>| {
        let path = item.text("path");
        !path.is_empty() && !paths.insert(path.to_owned())
    };
    let duplicate_path = |shown: &str| Cause::invalid(&at.path, shown, "conflicting duplicate paths");
    for source in at.elements("sources") {
        let given = |kind: &&str| source.get(kind).is_some();
        for part in ["secret", "configMap"].iter().filter(|kind| given(kind)).map(|kind| source.part(kind)) {
            need(&part, &["name"], causes);
            let mut shown = None;
            for item in part.elements("items") {
                check_item(&item, causes);
                if is_duplicate(&item) {
                    causes.push(duplicate_path(shown.get_or_insert_with(|| short_value(part.get("name")))));
                }
            }
        }
        if given(&"downwardAPI") {
            let part = source.part("downwardAPI");
            for file in part.elements("items") {
                check_downward_file(&part.path, &file, causes);
                if is_duplicate(&file) {
                    causes.push(duplicate_path(&short_value(file.get("path"))));
                }
            }
        }
        if given(&"serviceAccountToken") {
            // kube-apiserver reports the path of a token as a field of the volume.
            check_token(&source.part("serviceAccountToken"), &at.field_path("path"), causes);
        }
        if PROJECTIONS.iter().filter(|kind| given(kind)).count() > 1 {
            let why = "may not specify more than 1 volume type per source";
            causes.push(Cause::forbidden(&source.path, why));
        }
    }
}

fn check_token(at: &FieldView<'_, '_>, path_field: &dyn Display, causes: &mut Causes) {
    let seconds = at.number("expirationSeconds").unwrap_or_default();
    let why = match seconds {
        ..MIN_TOKEN_SECONDS => Some("may not specify a duration less than 10 minutes"),
        MIN_TOKEN_SECONDS..=MAX_TOKEN_SECONDS => None,
        _ => Some("may not specify a duration larger than 2^32 seconds"),
    };
    causes.extend(
        why.map(|why| Cause::invalid(&at.field_path("expirationSeconds"), &seconds.to_string(), why)),
    );
    match at.text("path") {
        "" => causes.push(required(path_field, "")),
        path => check_file_path(path_field, path, causes),
    }
}
