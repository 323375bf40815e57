//! Selects the clients and writes into whose requests `informer explore` injects faults.

use informer_apiserver::RequestRecord;

/// The API groups of CRDs and webhook configurations, which test suites install before their controllers
/// start. A fault at such a write would only make the setup of the suite fail, so these writes receive no
/// faults by default.
const SETUP_GROUPS: [&str; 2] = ["apiextensions.k8s.io", "admissionregistration.k8s.io"];

/// The prefix of kubectl's User-Agent. Test suites call kubectl and controllers do not, so its requests
/// receive no faults by default.
const KUBECTL: &str = "kubectl/";

/// The value of the option `--resource`, which selects the writes of a resource and subresource as in RBAC
/// rules: `websites`, `websites/status`, `*` or `*/status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResourceFilter(String);

pub(super) fn parse(text: &str) -> Result<ResourceFilter, String> {
    let valid = |part: &str| {
        part == "*"
            || (!part.is_empty()
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
    };
    let (resource, subresource) = text.split_once('/').unwrap_or((text, "status"));
    if valid(resource) && valid(subresource) && subresource != "*" {
        Ok(ResourceFilter(text.to_owned()))
    } else {
        Err("write the plural name of a resource in lower case, as websites or websites/status".to_owned())
    }
}

impl ResourceFilter {
    fn matches(&self, resource: &str, subresource: Option<&str>) -> bool {
        let (wanted, wanted_subresource) = match self.0.split_once('/') {
            Some((wanted, subresource)) => (wanted, Some(subresource)),
            None => (&*self.0, None),
        };
        self.0 == "*" || ((wanted == "*" || wanted == resource) && wanted_subresource == subresource)
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// The requests into which faults may be injected, as the options of `informer explore` select them.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    user_agent: Option<String>,
    user: Option<String>,
    resources: Vec<ResourceFilter>,
}

impl Selection {
    pub(super) fn new(
        user_agent: Option<String>,
        user: Option<String>,
        resources: Vec<ResourceFilter>,
    ) -> Self {
        Self { user_agent, user, resources }
    }

    /// Returns true if faults may affect the client that sends the request. Without the options
    /// `--user-agent` and `--user`, faults may affect all clients except kubectl.
    pub(super) fn selects_client(&self, request: &RequestRecord) -> bool {
        match (&self.user_agent, &self.user) {
            (None, None) => !request.user_agent.starts_with(KUBECTL),
            (agent, user) => {
                agent.as_ref().is_none_or(|part| request.user_agent.contains(part))
                    && user.as_ref().is_none_or(|user| request.user == *user)
            }
        }
    }

    /// Returns true if the request is a write at which faults may be injected; such writes are numbered.
    /// Without the option `--resource`, writes of CRDs and webhook configurations are not selected.
    pub(super) fn selects_write(&self, request: &RequestRecord) -> bool {
        let Some(gvr) = request.gvr.as_ref().filter(|_| request.counts_as_write()) else { return false };
        let subresource = request.subresource.as_deref();
        let resource = match self.resources.as_slice() {
            [] => !SETUP_GROUPS.contains(&&*gvr.group),
            resources => resources.iter().any(|filter| filter.matches(&gvr.resource, subresource)),
        };
        resource && self.selects_client(request)
    }

    /// Returns the options that the user should change if they select no request, for an error message.
    pub(super) fn options(&self) -> String {
        let mut options = Vec::new();
        options.extend(self.user_agent.as_ref().map(|agent| format!("--user-agent {agent}")));
        options.extend(self.user.as_ref().map(|user| format!("--user {user}")));
        options.extend(self.resources.iter().map(|resource| format!("--resource {}", resource.0)));
        if options.is_empty() {
            "the command, or add --user-agent or --resource".to_owned()
        } else {
            options.join(" or ")
        }
    }
}
