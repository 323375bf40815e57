//! The checks between admission and the connection to a kubelet, a pod or a service.

use std::net::IpAddr;

use http::Method;
use informer_core::Gvr;
use serde_json::Value;

use crate::auth::AuthorizationAttributes;
use crate::http::call::Call;
use crate::http::response::{ApiResponse, no_content};
use crate::model::cause::{Cause, Causes, NO_FIELD};
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::rules::warnings::{list, text};

/// The types of the addresses of a node that kube-apiserver connects to: the default of its flag
/// `--kubelet-preferred-address-types`.
const NODE_ADDRESSES: [&str; 5] = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];

impl Call<'_> {
    /// Checks that the destination of a request to the subresource `sub` exists, and has an address. Returns
    /// the response to a request for the log of a pod without a node.
    pub(super) fn check_destination(&self, sub: &str) -> Result<Option<ApiResponse>, ApiError> {
        match (self.kind().kind.as_str(), sub) {
            ("Pod", "proxy") => self.check_proxied_pod().map(|()| None),
            ("Service", "proxy") => self.check_proxied_service().map(|()| None),
            ("Node", "proxy") => {
                let name = ProxyName::parse("node", self.name())?.name;
                self.check_node(name).map(|()| None)
            }
            ("Pod", "log") => self.check_log(),
            _ => self.check_connection(sub).map(|()| None),
        }
    }

    /// Checks a connection to a container or port of a pod.
    fn check_connection(&self, sub: &str) -> Result<(), ApiError> {
        self.authorize_connection()?;
        let pod = self.find_object("pods", self.name())?;
        if sub != "portforward" {
            check_container(&pod, self.query.text("container"))?;
        }
        match text(&pod["spec"]["nodeName"]) {
            "" => Err(ApiError::bad_request(format!("pod {} does not have a host assigned", self.name()))),
            node => self.check_node(node),
        }
    }

    /// Checks that the user may create the subresource if the connection begins with a GET request, as a
    /// WebSocket connection does. The permission for other methods was already checked.
    fn authorize_connection(&self) -> Result<(), ApiError> {
        if self.head.method != Method::GET || !self.shared.access.enforces_rbac_for(self.user) {
            return Ok(());
        }
        let attributes = AuthorizationAttributes::of_request(&Method::POST, self.head.uri.path(), self.query);
        let allowed = self.shared.allows(self.user, &attributes);
        allowed.map(drop).map_err(|why| ApiError::forbidden(self.kind(), self.name(), &why))
    }

    fn check_proxied_pod(&self) -> Result<(), ApiError> {
        let pod = self.find_object("pods", ProxyName::parse("pod", self.name())?.name)?;
        let address = list(&pod["status"]["podIPs"]).next().map_or("", |address| text(&address["ip"]));
        if address.parse().is_ok_and(is_global_unicast) {
            Ok(())
        } else {
            Err(ApiError::bad_request("address not allowed"))
        }
    }

    fn check_proxied_service(&self) -> Result<(), ApiError> {
        let ProxyName { name, port } = ProxyName::parse("service", self.name())?;
        let unavailable = |why: String| Err(ApiError::new(503, "ServiceUnavailable", why));
        let mut port = port.to_owned();
        if let Ok(number) = port.parse::<i64>() {
            let service = self.find_object("services", name)?;
            let found = list(&service["spec"]["ports"]).find(|port| port["port"] == number);
            let Some(found) = found else {
                return unavailable(format!("no service port {number} found for service {name:?}"));
            };
            port = text(&found["name"]).to_owned();
        }
        let endpoints = self.find_object("endpoints", name).map_err(|error| self.not_found(name, error))?;
        let mut subsets = list(&endpoints["subsets"]).peekable();
        if subsets.peek().is_none() {
            return unavailable(format!("no endpoints available for service {name:?}"));
        }
        let has_port = |subset: &Value| list(&subset["ports"]).any(|found| text(&found["name"]) == port);
        if subsets.any(|subset| list(&subset["addresses"]).next().is_some() && has_port(subset)) {
            Ok(())
        } else {
            unavailable(format!("no endpoints available for service {:?}", self.name()))
        }
    }

    fn check_node(&self, name: &str) -> Result<(), ApiError> {
        let node = self.find_object("nodes", name).map_err(|error| self.not_found(name, error))?;
        let addresses = &node["status"]["addresses"];
        if list(addresses).any(|address| NODE_ADDRESSES.contains(&text(&address["type"]))) {
            return Ok(());
        }
        let known: Vec<String> = list(addresses)
            .map(|address| format!("{{{} {}}}", text(&address["type"]), text(&address["address"])))
            .collect();
        let why = format!("no preferred addresses found; known addresses: [{}]", known.join(" "));
        Err(ApiError::new(500, "", why))
    }

    fn check_log(&self) -> Result<Option<ApiResponse>, ApiError> {
        self.check_log_options()?;
        let pod = self.find_object("pods", self.name())?;
        check_container(&pod, self.query.text("container"))?;
        match text(&pod["spec"]["nodeName"]) {
            "" => Ok(Some(no_content())),
            node => self.check_node(node).map(|()| None),
        }
    }

    fn check_log_options(&self) -> Result<(), ApiError> {
        let mut causes = Causes::default();
        let mut check_minimum = |name: &str, min: i64, why: &str| {
            let value = self.query.integer(name)?;
            if let Some(value) = value.filter(|value| *value < min) {
                causes.push(Cause::invalid(name, &value.to_string(), why));
            }
            Ok::<_, ApiError>(())
        };
        check_minimum("tailLines", 0, "must be greater than or equal to 0")?;
        check_minimum("limitBytes", 1, "must be greater than 0")?;
        let since_time = self.query.text("sinceTime");
        if since_time.is_empty() {
            check_minimum("sinceSeconds", 1, "must be greater than 0")?;
        } else if self.query.integer("sinceSeconds")?.is_some() {
            causes.push(Cause::forbidden(
                NO_FIELD,
                "at most one of `sinceTime` or `sinceSeconds` may be specified",
            ));
        }
        if !self.query.text("stream").is_empty() {
            causes.push(Cause::forbidden("stream", "may not be specified"));
        }
        match causes.into_vec() {
            causes if causes.is_empty() => Ok(()),
            causes => Err(ApiError::invalid_log_options(self.name(), causes)),
        }
    }

    /// Replaces the kind in an error for a missing object by that of the request, as in kube-apiserver.
    fn not_found(&self, name: &str, error: ApiError) -> ApiError {
        if error.code == 404 { ApiError::not_found(self.kind(), name) } else { error }
    }

    /// Reads an object of the core group, in the namespace of the request.
    fn find_object(&self, resource: &str, name: &str) -> Result<Value, ApiError> {
        let resource = self.shared.resource(&Gvr::new("", "v1", resource))?;
        let namespace = self.route.namespace.as_deref().filter(|_| resource.kind.namespaced);
        let found = self.shared.find(&resource, namespace, name)?;
        Ok(parse(found.as_slice()))
    }
}

/// The name in the path of a proxied request: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
struct ProxyName<'a> {
    name: &'a str,
    port: &'a str,
}

impl<'a> ProxyName<'a> {
    fn parse(kind: &str, text: &'a str) -> Result<Self, ApiError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(ApiError::bad_request(format!("invalid {kind} request {text:?}")));
        }
        Ok(Self { name, port })
    }
}

/// Checks that a pod has the container, or only one container if no name is given.
fn check_container(pod: &Value, container: &str) -> Result<(), ApiError> {
    let spec = &pod["spec"];
    let names = ["initContainers", "containers", "ephemeralContainers"].map(|containers| &spec[containers]);
    let names = names.into_iter().flat_map(list).map(|container| text(&container["name"]));
    let pod = text(&pod["metadata"]["name"]);
    if container.is_empty() && list(&spec["containers"]).count() != 1 {
        let names: Vec<&str> = names.collect();
        let names = names.join(" ");
        return Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {pod}, choose one of: [{names}]"
        )));
    }
    if !container.is_empty() && !names.into_iter().any(|name| name == container) {
        return Err(ApiError::bad_request(format!("container {container} is not valid for pod {pod}")));
    }
    Ok(())
}

fn is_global_unicast(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !is_link_local && !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
}
