//! The templates of the files in a project, and their rendering.
//!
//! The delimiters of template expressions differ from those of Helm and of GitHub workflows, whose
//! expressions are copied unchanged: `[=name=]`, `<% if condition %>`, and lines that begin with `%%`.
//!
//! The Helm templates of manifests in `config` have no template file here: [`with_chart`] generates them from
//! the rendered manifests.

use std::path::PathBuf;

use informer::testing::Manifests;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, Value};

use crate::failure::Failure;

/// A template of a file in a project: the path of the file, which may contain template expressions, too, and
/// the content.
pub(super) type Template = (&'static str, &'static str);

/// A rendered file: its path in the project, and its content.
pub(super) type File = (PathBuf, String);

macro_rules! templates {
    ($($path:literal: $source:literal,)*) => {
        &[$(($path, include_str!(concat!("../../templates/", $source))),)*]
    };
}

/// The templates of the files that each project has once, independent of its kinds.
pub(super) const PROJECT: &[Template] = templates![
    ".dockerignore": "project/dockerignore.j2",
    ".github/workflows/ci.yml": "project/ci.yml.j2",
    ".gitignore": "project/gitignore.j2",
    "Cargo.toml": "project/Cargo.toml.j2",
    "Dockerfile": "project/dockerfile.j2",
    "README.md": "project/README.md.j2",
    "charts/[=name=]/Chart.yaml": "project/chart/Chart.yaml.j2",
    "charts/[=name=]/templates/_helpers.tpl": "project/chart/templates/_helpers.tpl.j2",
    "charts/[=name=]/templates/deployment.yaml": "project/chart/templates/deployment.yaml.j2",
    "charts/[=name=]/templates/settings.yaml": "project/chart/templates/settings.yaml.j2",
    "charts/[=name=]/values.yaml": "project/chart/values.yaml.j2",
    "config/crd/kustomization.yaml": "project/config/crd/kustomization.yaml.j2",
    "config/default/kustomization.yaml": "project/config/default/kustomization.yaml.j2",
    "config/manager/deployment.yaml": "project/config/manager/deployment.yaml.j2",
    "config/manager/kustomization.yaml": "project/config/manager/kustomization.yaml.j2",
    "config/manager/namespace.yaml": "project/config/manager/namespace.yaml.j2",
    "config/rbac/kustomization.yaml": "project/config/rbac/kustomization.yaml.j2",
    "config/rbac/service_account.yaml": "project/config/rbac/service_account.yaml.j2",
    "src/api.rs": "project/src/api.rs.j2",
    "src/controllers.rs": "project/src/controllers.rs.j2",
    "src/lib.rs": "project/src/lib.rs.j2",
    "src/main.rs": "project/src/main.rs.j2",
    "src/settings.rs": "project/src/settings.rs.j2",
    "tests/cluster/mod.rs": "project/tests/cluster/mod.rs.j2",
    "tests/manifests.rs": "project/tests/manifests.rs.j2",
];

/// Monitoring files that are copied to a project without changes. A test asserts that they are equal to those
/// in `docs/monitoring`.
pub(super) const MONITORING: &[Template] = templates![
    "dashboards/alerts.yaml": "monitoring/alerts.yaml",
    "dashboards/dashboard.json": "monitoring/dashboard.json",
];

/// The templates for a custom kind and its controller.
pub(super) const KIND: &[Template] = templates![
    "charts/[=name=]/crds/[=plural=].yaml": "kind/crd.yaml.j2",
    "config/crd/[=plural=].yaml": "kind/crd.yaml.j2",
    "config/rbac/[=module=]_role.yaml": "kind/role.yaml.j2",
    "config/samples/[=module=].yaml": "kind/sample.yaml.j2",
    "src/api/[=module=].rs": "kind/api.rs.j2",
    "src/controllers/[=module=].rs": "kind/controller.rs.j2",
    "tests/[=module=].rs": "kind/test.rs.j2",
    "tests/[=module=]_explore.rs": "kind/explore.rs.j2",
];

/// The templates for leader election.
pub(super) const LEADER_ELECTION: &[Template] = templates![
    "config/rbac/leader_election_role.yaml": "leader_election/role.yaml.j2",
    "tests/leader_election.rs": "leader_election/test.rs.j2",
];

/// The templates for the webhook server, which all webhooks of a project share.
pub(super) const WEBHOOK_SERVER: &[Template] = templates![
    "config/default/webhook_deployment.yaml": "webhook/deployment.yaml.j2",
    "config/webhook/certificate.yaml": "webhook/certificate.yaml.j2",
    "config/webhook/kustomization.yaml": "webhook/kustomization.yaml.j2",
    "config/webhook/service.yaml": "webhook/service.yaml.j2",
    "src/webhooks.rs": "webhook/webhooks.rs.j2",
    "tests/webhook_server/mod.rs": "webhook/server_test.rs.j2",
];

/// The templates for the admission webhooks of one kind.
pub(super) const WEBHOOK: &[Template] = templates![
    "config/webhook/[=plural=].yaml": "webhook/kind.yaml.j2",
    "src/webhooks/[=module=].rs": "webhook/kind.rs.j2",
    "tests/[=module=]_webhook.rs": "webhook/test.rs.j2",
];

/// The templates for a controller that `informer add controller` adds, without those for its kind.
pub(super) const CONTROLLER: &[Template] = templates![
    "config/rbac/[=controller_module=]_role.yaml": "controller/role.yaml.j2",
    "src/controllers/[=controller_module=].rs": "controller/controller.rs.j2",
    "tests/[=controller_module=].rs": "controller/test.rs.j2",
];

/// The template for a sample object of a built-in kind, which the tests of its controller create.
pub(super) const SAMPLE: &[Template] = templates![
    "config/samples/[=sample=].yaml": "controller/sample.yaml.j2",
];

/// The templates that a kind needs once, when it gets its second version.
pub(super) const VERSIONS: &[Template] = templates![
    "src/api/[=module=]_versions.rs": "version/versions.rs.j2",
];

/// The templates for each further version of a kind.
pub(super) const VERSION: &[Template] = templates![
    "tests/[=module=]_[=new_version=].rs": "version/test.rs.j2",
];

/// The template of the conversion functions, which are appended to the Rust module of a further version.
pub(super) const CONVERSIONS: Template = templates![
    "src/api/[=module=]_[=new_version=].rs": "version/conversions.rs.j2",
][0];

/// The kustomization of the optional manifests for operating the program in a cluster, such as a
/// NetworkPolicy. It is needed if at least one of these manifests is rendered.
pub(super) const OPERATIONS: &[Template] = templates![
    "config/operations/kustomization.yaml": "operations/kustomization.yaml.j2",
];
pub(super) const NETWORK_POLICY: &[Template] = templates![
    "config/operations/network_policy.yaml": "operations/network_policy.yaml.j2",
];
pub(super) const POD_DISRUPTION_BUDGET: &[Template] = templates![
    "config/operations/pod_disruption_budget.yaml": "operations/pod_disruption_budget.yaml.j2",
];
pub(super) const SERVICE_MONITOR: &[Template] = templates![
    "config/operations/service_monitor.yaml": "operations/service_monitor.yaml.j2",
];

/// Generates Helm templates from the Kubernetes manifests among the rendered files of a project, and returns
/// them with the files.
pub(super) fn with_chart(project: &str, files: Vec<File>) -> Vec<File> {
    let manifests = Manifests::of_project(project);
    let generated: Vec<File> = files
        .iter()
        .filter_map(|(path, content)| manifests.chart_template(&path.to_string_lossy(), content))
        .map(|(path, content)| (path.into(), content))
        .collect();
    files.into_iter().chain(generated).collect()
}

/// Renders templates with the given values. Returns the paths and contents of the files.
pub(super) fn render(templates: &[Template], values: &Value) -> Result<Vec<File>, Failure> {
    let environment = environment()?;
    let rendered = |path: &str, content: &str| {
        let path = environment.render_str(path, values)?;
        Ok((PathBuf::from(path), environment.render_str(content, values)?))
    };
    let failed = |path: &str, error: minijinja::Error| Failure::caused(format!("render {path}"), error);
    templates
        .iter()
        .map(|(path, content)| rendered(path, content).map_err(|error| failed(path, error)))
        .collect()
}

fn environment() -> Result<Environment<'static>, Failure> {
    let syntax = SyntaxConfig::builder()
        .variable_delimiters("[=", "=]")
        .block_delimiters("<%", "%>")
        .comment_delimiters("<#", "#>")
        .line_statement_prefix("%%")
        .keep_trailing_newline(true)
        .build()
        .map_err(|error| Failure::caused("the delimiters of templates are invalid", error))?;
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    // The rendered files are YAML, JSON and Rust, so the escaping of HTML is disabled.
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    Ok(environment)
}
