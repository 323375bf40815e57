//! Builds an API server that contains the objects of manifests, and registers the custom kinds of these
//! objects.

use std::path::Path;

use informer::Gvr;
use informer_apiserver::{ApiServer, ClientCa, KindDefinition, LoadError, Tokens};
use serde_json::Value;

use crate::failure::Failure;

/// The maximum number of custom kinds in manifests. Each custom kind can cost one more pass over the files,
/// so the number is limited.
const MAX_KINDS: usize = 256;

#[derive(Debug, Clone, Default)]
pub(crate) struct ServerAccess {
    pub(crate) tokens: Tokens,
    pub(crate) client_ca: Option<ClientCa>,
    pub(crate) rbac: bool,
    /// The CA certificates of the server, if it has the objects of a new cluster.
    pub(crate) bootstrap: Option<String>,
    /// The server has its web UI.
    pub(crate) web_ui: bool,
}

pub(crate) struct Loaded {
    pub(crate) server: ApiServer,
    pub(crate) objects: usize,
    /// The names of the custom kinds that the server serves because the manifests define or use them.
    pub(crate) kinds: Vec<String>,
}

pub(crate) fn server(path: Option<&Path>, access: &ServerAccess) -> Result<Loaded, Failure> {
    let mut kinds = Kinds { access: access.clone(), ..Kinds::default() };
    let Some(path) = path else {
        return Ok(Loaded { server: kinds.server(), objects: 0, kinds: Vec::new() });
    };
    // A manifest may use a custom kind before its CRD is read. Each new kind is therefore registered, and all
    // files are loaded again into a new server that serves the kind.
    for _ in 0..=MAX_KINDS {
        let server = kinds.server();
        let outcome = server.load_yaml(path);
        if kinds.define(declared(&server)) {
            continue;
        }
        match outcome {
            Ok(objects) => return Ok(Loaded { server, objects, kinds: kinds.names() }),
            Err(error) => match guessed(&error) {
                Some(kind) => kinds.guessed.push(kind),
                None => return Err(Failure::caused("cannot load the manifests", error)),
            },
        }
    }
    Err(Failure::new(format!(
        "cannot load {}: it needs more than {MAX_KINDS} kinds in addition to the built-in ones",
        path.display()
    )))
}

#[derive(Default)]
struct Kinds {
    access: ServerAccess,
    defined: Vec<KindDefinition>,
    guessed: Vec<KindDefinition>,
}

impl Kinds {
    fn iter(&self) -> impl Iterator<Item = &KindDefinition> {
        self.defined.iter().chain(&self.guessed)
    }

    fn server(&self) -> ApiServer {
        let ServerAccess { tokens, client_ca, rbac, bootstrap, web_ui } = self.access.clone();
        let mut builder = ApiServer::builder().tokens(tokens).rbac(rbac).web_ui(web_ui);
        if let Some(authorities) = client_ca {
            builder = builder.client_ca(authorities);
        }
        if let Some(root_ca) = bootstrap {
            builder = builder.bootstrap(true).namespace_defaults(root_ca);
        }
        self.iter().cloned().fold(builder, |builder, kind| builder.kind(kind)).build()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|kind| kind.gvr().to_string()).collect()
    }

    /// Registers the kinds that CRDs define, in place of kinds that were guessed before. Returns true if a
    /// kind is new, so that the manifests must be loaded again.
    fn define(&mut self, declared: Vec<KindDefinition>) -> bool {
        let before = self.defined.len();
        for kind in declared {
            if !self.defined.iter().any(|known| known.gvr() == kind.gvr()) {
                self.guessed.retain(|guess| !is_same(guess, &kind));
                self.defined.push(kind);
            }
        }
        self.defined.len() > before
    }
}

/// Returns true if two kinds have the same group, version and kind. The plurals of the two kinds may differ,
/// because the plural of a guessed kind may be wrong.
fn is_same(one: &KindDefinition, other: &KindDefinition) -> bool {
    one.kind() == other.kind() && one.gvr().api_version() == other.gvr().api_version()
}

/// Returns a guess for a custom kind that no CRD defines: it is namespaced, and its plural is regular.
fn guessed(error: &LoadError) -> Option<KindDefinition> {
    let LoadError::UnknownKind { kind, api_version, .. } = error else { return None };
    let (group, version) = api_version.split_once('/')?;
    // All kinds of groups without a dot, and of groups that end in `.k8s.io`, are built in. An unknown kind
    // or version of such a group is a spelling error in the manifest, so it must not become a custom kind.
    let custom =
        group.contains('.') && !group.ends_with(".k8s.io") && !version.is_empty() && !kind.is_empty();
    custom.then(|| KindDefinition::custom(group, version, kind))
}

/// Returns the kinds that the CustomResourceDefinitions on the server define.
fn declared(server: &ApiServer) -> Vec<KindDefinition> {
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let definitions = server.list(&definitions, "").unwrap_or_default();
    definitions.iter().flat_map(|definition| of_definition(&definition["spec"])).collect()
}

fn of_definition(spec: &Value) -> Vec<KindDefinition> {
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let served = versions.iter().filter(|version| version["served"] != Value::Bool(false));
    served.filter_map(|version| of_version(spec, version)).collect()
}

fn of_version(spec: &Value, version: &Value) -> Option<KindDefinition> {
    let names = &spec["names"];
    let mut kind =
        KindDefinition::custom(spec["group"].as_str()?, version["name"].as_str()?, names["kind"].as_str()?)
            .plural(names["plural"].as_str()?)
            .short_names(texts(&names["shortNames"]))
            .selectable(texts_at(&version["selectableFields"], "jsonPath"));
    if spec["scope"] == "Cluster" {
        kind = kind.cluster_scoped();
    }
    if version["subresources"]["status"].is_null() {
        kind = kind.without_status();
    }
    Some(kind)
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Returns the field `member` of each element of the array `value`, without a leading dot. `selectableFields`
/// of a CRD contains such an array, whose elements have a JSON path in `jsonPath`.
fn texts_at(value: &Value, member: &str) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.filter_map(|item| Some(item[member].as_str()?.trim_start_matches('.').to_owned())).collect()
}
