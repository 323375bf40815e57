//! Paths and query strings of list and watch requests.

use form_urlencoded::Serializer;
use informer_cache::source::{ListRequest, VersionMatch, WatchRequest};
use informer_core::{Gvr, Object};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{HashShares, Selection};

/// The `Accept` headers for requests of one kind: one that accepts only JSON, and one that prefers protobuf
/// to JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accept {
    pub(crate) json: &'static str,
    pub(super) protobuf: &'static str,
}

pub(super) const OBJECTS: Accept =
    Accept { json: "application/json", protobuf: "application/vnd.kubernetes.protobuf,application/json" };
pub(crate) const METADATA: Accept = Accept {
    json: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
    protobuf: "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
};
pub(crate) const METADATA_LIST: Accept = Accept {
    json: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
    protobuf: "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
};

/// The characters that are escaped in a path segment of a URL.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Names are escaped, so that a name with `/` or `?` cannot address another resource.
pub(crate) fn path(gvr: &Gvr, namespace: Option<&str>) -> String {
    let gvr = Gvr::new(escaped(&gvr.group), escaped(&gvr.version), escaped(&gvr.resource));
    gvr.path(namespace.map(escaped).as_deref())
}

pub(crate) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Returns the URI of a request with this path and query, which must be escaped. The only possible error is
/// therefore an excessive length, caused by a very long continue token or selector.
pub(crate) fn address(path: &str, query: &str) -> Result<http::Uri, String> {
    let mark = if query.is_empty() { "" } else { "?" };
    let address = format!("{path}{mark}{query}");
    let length = address.len();
    http::Uri::try_from(address)
        .map_err(|error| format!("the request URL of {length} bytes is invalid or too long: {error}"))
}

pub(super) fn list<O: Object>(selection: &Selection, request: &ListRequest<O>) -> String {
    let mut query = Query::default();
    query.add("continue", request.continue_token.as_deref());
    query.select(selection);
    query.add("limit", request.limit.map(|limit| limit.to_string()).as_deref());
    // `resourceVersion` is not sent with a continue token, because the token contains the version and servers
    // reject a request with both.
    if request.continue_token.is_none() && !request.version.is_empty() {
        query.add("resourceVersion", Some(&request.version.to_string()));
        query.add(
            "resourceVersionMatch",
            match request.version_match {
                VersionMatch::Unset => None,
                VersionMatch::NotOlderThan => Some("NotOlderThan"),
                VersionMatch::Exact => Some("Exact"),
            },
        );
    }
    query.share(selection);
    query.parameters(selection);
    query.finish()
}

pub(super) fn watch<O: Object>(selection: &Selection, request: &WatchRequest<O>) -> String {
    let mut query = Query::default();
    query.add("allowWatchBookmarks", request.bookmarks.then_some("true"));
    query.select(selection);
    if !request.version.is_empty() {
        query.add("resourceVersion", Some(&request.version.to_string()));
    }
    if request.send_initial_events {
        query.add("resourceVersionMatch", Some("NotOlderThan"));
        query.add("sendInitialEvents", Some("true"));
    }
    query.share(selection);
    // `timeoutSeconds` is at least 1, because 0 would let the server choose the timeout.
    query.add("timeoutSeconds", Some(&request.timeout.as_secs().max(1).to_string()));
    query.add("watch", Some("true"));
    query.parameters(selection);
    query.finish()
}

pub(crate) struct Query(Serializer<'static, String>);

impl Default for Query {
    fn default() -> Self {
        Self(Serializer::new(String::new()))
    }
}

impl Query {
    pub(crate) fn add(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.0.append_pair(name, value);
        }
    }

    fn select(&mut self, selection: &Selection) {
        self.add("fieldSelector", selection.fields.as_deref());
        self.add("labelSelector", selection.labels.as_deref());
    }

    fn share(&mut self, selection: &Selection) {
        self.add("shardSelector", selection.shares.as_ref().map(HashShares::selector).as_deref());
    }

    fn parameters(&mut self, selection: &Selection) {
        selection.parameters.iter().for_each(|(name, value)| self.add(name, Some(value)));
    }

    pub(crate) fn finish(mut self) -> String {
        self.0.finish()
    }
}
