use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use informer::Gvr;
use informer::client::Client;
use serde_json::{Value, json};

/// A client that writes and reads objects as JSON without an informer. Scenarios use it to change objects on
/// the server and to compare caches with the server.
#[derive(Clone, Debug)]
pub struct Api {
    client: Client,
    /// True if fields of a newer server version are added to created objects.
    newer_fields: bool,
}

/// The error of a request that got no response, or a response with an error status.
#[derive(Debug)]
pub struct ApiError {
    /// The HTTP status of the response; 0 if there was no response.
    pub status: u16,
    message: String,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.status)
    }
}

impl std::error::Error for ApiError {}

impl Api {
    /// Creates a JSON client that sends its requests through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, newer_fields: false }
    }

    /// Adds fields of a newer server version to every created object: to its metadata, and to the elements of
    /// its lists.
    pub(crate) fn with_newer_fields(self) -> Self {
        Self { newer_fields: true, ..self }
    }

    /// Creates an object and returns it as stored by the server.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn create(&self, gvr: &Gvr, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let mut object = Cow::Borrowed(object);
        if self.newer_fields {
            let object = object.to_mut();
            add_newer_fields_of_lists(object);
            let metadata = &mut object["metadata"];
            metadata["region"] = json!("north");
            metadata["origin"] = json!({"name": "parent"});
        }
        self.send(Method::POST, &collection(gvr, namespace), "application/json", &object).await
    }

    /// Replaces an object.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn replace(&self, gvr: &Gvr, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{}/{name}", collection(gvr, namespace));
        self.send(Method::PUT, &path, "application/json", object).await
    }

    /// Changes some fields of an object with a merge patch.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn merge(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let path = format!("{}/{name}", collection(gvr, namespace));
        self.send(Method::PATCH, &path, "application/merge-patch+json", patch).await
    }

    /// Deletes an object immediately.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn delete(&self, gvr: &Gvr, namespace: &str, name: &str) -> Result<Value, ApiError> {
        let path = format!("{}/{name}", collection(gvr, namespace));
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
        self.send(Method::DELETE, &path, "application/json", &options).await
    }

    /// Returns all objects of a collection, read consistently in pages, and the resource version of the list.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn list(&self, gvr: &Gvr, namespace: &str) -> Result<(Vec<Value>, String), ApiError> {
        let (mut objects, mut version, mut token) = (Vec::new(), String::new(), String::new());
        loop {
            let path = format!("{}?limit=5000&continue={token}", collection(gvr, namespace));
            let mut page = self.read(&path).await?;
            if let Value::Array(items) = page["items"].take() {
                objects.extend(items);
            }
            version = page["metadata"]["resourceVersion"].as_str().unwrap_or(&version).to_owned();
            match page["metadata"]["continue"].as_str().filter(|next| !next.is_empty()) {
                Some(next) => token = next.to_owned(),
                None => return Ok((objects, version)),
            }
        }
    }

    /// Sends a GET request for any path.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn read(&self, path: &str) -> Result<Value, ApiError> {
        let request = || Request::get(path).body(Bytes::new()).expect("paths are escaped");
        match self.exchange(request()).await {
            // The server may have closed the idle connection, so the request is sent again. A read is safe to
            // retry.
            Err(error) if error.status == 0 => self.exchange(request()).await,
            result => result,
        }
    }

    /// Sends a request with a body to any path.
    ///
    /// # Errors
    ///
    /// When the request fails or the server rejects it.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        self.exchange(request.body(Bytes::from(body.to_string())).expect("paths are escaped")).await
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Value, ApiError> {
        let what = format!("{} {}", request.method(), request.uri().path());
        let failed =
            |error: &dyn std::error::Error| ApiError { status: 0, message: format!("{what}: {error}") };
        let response = self.client.request(request).await.map_err(|error| failed(&error))?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| failed(&*error))?.to_bytes();
        if !(200..300).contains(&status) {
            let text = String::from_utf8_lossy(&body);
            let told: Value = serde_json::from_str(&text).unwrap_or_default();
            let message = told["message"].as_str().unwrap_or(&text).trim();
            return Err(ApiError { status, message: format!("{what}: {message}") });
        }
        serde_json::from_slice(&body).map_err(|error| failed(&error))
    }
}

/// Adds fields of a newer server version to the elements of all lists of containers, environment variables,
/// ports and owner references.
fn add_newer_fields_of_lists(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(add_newer_fields_of_lists),
        Value::Object(members) => {
            for (name, member) in members {
                if let Value::Array(elements) = member {
                    elements.iter_mut().filter(|element| element.is_object()).for_each(|element| match name
                        .as_str()
                    {
                        "containers" => element["shells"] = json!(["sh", "bash"]),
                        "env" => element["masked"] = json!(true),
                        "ports" => element["zone"] = json!("north"),
                        "ownerReferences" => element["weight"] = json!(3),
                        _ => {}
                    });
                }
                add_newer_fields_of_lists(member);
            }
        }
        _ => {}
    }
}

fn collection(gvr: &Gvr, namespace: &str) -> String {
    gvr.path(Some(namespace).filter(|namespace| !namespace.is_empty()))
}
