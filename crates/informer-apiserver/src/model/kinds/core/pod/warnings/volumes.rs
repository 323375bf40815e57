//! Warnings about deprecated volume types, and about overlapping file paths in projected volumes.

use serde_json::Value;

use crate::model::rules::warnings::{fractions, list, text};

/// Deprecated volume sources of pods, in the order of kube-apiserver. Some also exist in PersistentVolumes.
pub(crate) const DEPRECATED_SOURCES: [(&str, &str); 7] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
];

pub(crate) const LATER_DEPRECATED_SOURCES: [(&str, &str); 2] = [
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

pub(crate) fn warnings(spec: &Value, at: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, volume) in list(&spec["volumes"]).enumerate() {
        let path = || format!("{at}spec.volumes[{index}]");
        let old = |(source, why): &(&str, &str)| {
            volume[source].is_object().then(|| format!("{}.{}: {why}", path(), go_path(source)))
        };
        warnings.extend(DEPRECATED_SOURCES.iter().filter_map(old));
        let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
        if claim.is_object() {
            let path = format!("{}.ephemeral.volumeClaimTemplate.spec", path());
            warnings.extend(fractions(claim, &path, &["storage"]));
        }
        warnings.extend(LATER_DEPRECATED_SOURCES.iter().filter_map(old));
    }
    warnings.extend(list(&spec["volumes"]).flat_map(overlaps));
    warnings
}

/// Returns the field name of a volume source as in kube-apiserver's error paths.
pub(crate) fn go_path(source: &str) -> &str {
    if source == "storageos" { "storageOS" } else { source }
}

/// A file that a volume creates. `source` names its source in a projected volume.
#[derive(PartialEq)]
struct File {
    path: String,
    source: String,
}

impl File {
    fn shown(&self) -> String {
        if self.source.is_empty() {
            format!("{:?}", self.path)
        } else {
            format!("{:?} ({})", self.path, self.source)
        }
    }

    /// Returns true if the path of one file equals the path of the other or is a parent of it.
    fn overlaps_with(&self, other: &Self) -> bool {
        let is_within = |path: &str, parent: &str| {
            path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (is_within(&self.path, &other.path) || is_within(&other.path, &self.path))
    }
}

fn overlaps(volume: &Value) -> Vec<String> {
    let name = text(&volume["name"]);
    let warnings = |what: &str, files: Vec<File>| -> Vec<String> {
        let overlapping = overlapping_pairs(files).into_iter();
        overlapping
            .map(|overlapping| format!("volume {name:?} ({what}): overlapping paths: {overlapping}"))
            .collect()
    };
    let (map, secret) = (&volume["configMap"], &volume["secret"]);
    let mut all = Vec::new();
    if map["items"].is_array() {
        all.extend(warnings(&format!("ConfigMap {:?}", text(&map["name"])), files(map, "")));
    }
    if secret["items"].is_array() {
        all.extend(warnings(&format!("Secret {:?}", text(&secret["secretName"])), files(secret, "")));
    }
    all.extend(warnings("DownwardAPI", files(&volume["downwardAPI"], "")));
    let sources = || list(&volume["projected"]["sources"]);
    let empty = sources().filter(|source| source.as_object().is_some_and(serde_json::Map::is_empty));
    all.extend(empty.map(|_| format!("volume {name:?} (Projected) has no sources provided")));
    all.extend(warnings("Projected", sources().flat_map(projected).collect()));
    all
}

fn files(holder: &Value, source: &str) -> Vec<File> {
    let file = |item: &Value| File { path: trim_slash(text(&item["path"])), source: source.to_owned() };
    list(&holder["items"]).map(file).collect()
}

fn trim_slash(path: &str) -> String {
    path.trim_end_matches('/').to_owned()
}

fn projected(source: &Value) -> Vec<File> {
    let one = |holder: &Value, member: &str, source: String| {
        let path = trim_slash(text(&holder[member]));
        (!path.is_empty()).then_some(File { path, source })
    };
    let named = |name: &str| source[name].is_object().then(|| &source[name]);
    if let Some(map) = named("configMap") {
        return files(map, &format!("ConfigMap {:?}", text(&map["name"])));
    }
    if let Some(secret) = named("secret") {
        return files(secret, &format!("Secret {:?}", text(&secret["name"])));
    }
    if let Some(downward) = named("downwardAPI") {
        return files(downward, "DownwardAPI");
    }
    if let Some(token) = named("serviceAccountToken") {
        return one(token, "path", "ServiceAccountToken".to_owned()).into_iter().collect();
    }
    if let Some(bundle) = named("clusterTrustBundle") {
        let name = bundle["name"].as_str().unwrap_or_else(|| text(&bundle["signerName"]));
        return one(bundle, "path", format!("ClusterTrustBundle {name:?}")).into_iter().collect();
    }
    let certificate = &source["podCertificate"];
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    parts.into_iter().filter_map(|(member, source)| one(certificate, member, source.to_owned())).collect()
}

fn overlapping_pairs(files: Vec<File>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let overlapping = files[..index].iter().filter(|other| file.overlaps_with(other));
        warnings.extend(overlapping.map(|other| format!("{} with {}", file.shown(), other.shown())));
    }
    warnings
}
