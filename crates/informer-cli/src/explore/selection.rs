//! Selects the requests into which faults are injected.

use informer_apiserver::RequestRecord;

/// The API groups whose objects test suites install before their controllers start. A fault at such a write
/// only makes the setup of the suite fail.
const SETUP_GROUPS: [&str; 2] = ["apiextensions.k8s.io", "admissionregistration.k8s.io"];

/// The prefix of the User-Agent of kubectl, which is used by tests and not by controllers.
const KUBECTL: &str = "kubectl/";

/// A resource and subresource of writes, as in RBAC rules: `websites`, `websites/status`, `*` or `*/status`.
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

/// The requests that faults may affect.
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

    /// Returns true if faults may affect the client that sends the request. Without options, these are all
    /// clients except kubectl.
    pub(super) fn selects_client(&self, request: &RequestRecord) -> bool {
        match (&self.user_agent, &self.user) {
            (None, None) => !request.user_agent.starts_with(KUBECTL),
            (agent, user) => {
                agent.as_ref().is_none_or(|part| request.user_agent.contains(part))
                    && user.as_ref().is_none_or(|user| request.user == *user)
            }
        }
    }

    /// Returns true if the request is a numbered write. Without `--resource`, writes of CRDs and webhook
    /// configurations are not selected.
    pub(super) fn selects_write(&self, request: &RequestRecord) -> bool {
        let Some(gvr) = request.gvr.as_ref().filter(|_| request.counts_as_write()) else { return false };
        let subresource = request.subresource.as_deref();
        let resource = match self.resources.as_slice() {
            [] => !SETUP_GROUPS.contains(&&*gvr.group),
            resources => resources.iter().any(|filter| filter.matches(&gvr.resource, subresource)),
        };
        resource && self.selects_client(request)
    }

    /// Returns the options that an error names if they select nothing.
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
