//! Formats requests for the log of `serve` and the trace of `explore`.

use informer_apiserver::RequestRecord;

/// Returns the first part of a request's User-Agent, which names the program, such as `manager/v1.2`.
pub(crate) fn agent(request: &RequestRecord) -> &str {
    request.user_agent.split(' ').next().filter(|agent| !agent.is_empty()).unwrap_or("(no User-Agent)")
}

/// Returns the verb and the object of a request, such as `update pods/status default/web-0`. For a request
/// that is not for an object, returns the verb and the path.
pub(crate) fn request(request: &RequestRecord) -> String {
    let verb = request.verb.name();
    let Some(gvr) = &request.gvr else { return format!("{verb} {}", request.path) };
    let subresource =
        request.subresource.as_ref().map(|subresource| format!("/{subresource}")).unwrap_or_default();
    let object = match (request.namespace.as_deref(), request.name.as_deref()) {
        (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
        (None, Some(name)) => format!(" {name}"),
        (Some(namespace), None) => format!(" in {namespace}"),
        (None, None) => String::new(),
    };
    format!("{verb} {}{subresource}{object}", gvr.resource)
}
