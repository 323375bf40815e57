//! Requests to subresources that need a kubelet, such as `exec`, `portforward` and `log`.
//!
//! No kubelet runs, so these requests fail if kube-apiserver would connect to one. A connection passes
//! admission first, as in kube-apiserver, so that webhooks and policies for the operation CONNECT can be
//! tested.

mod destination;

use informer_schema::{BaseType, Shape};
use serde_json::{Map, Value, json};

use crate::admission::{AdmissionAttributes, AdmissionRequest, Phase};
use crate::http::call::Call;
use crate::http::response::ApiResponse;
use crate::model::error::ApiError;
use crate::model::kinds::Subresource;
use crate::model::query::decoded_path;

impl Call<'_> {
    /// Responds to a request to the subresource `sub`, which needs a kubelet: with the error of admission,
    /// with the response that kube-apiserver gives without a connection, or else with 501.
    pub(crate) async fn respond_without_kubelet(&self, sub: &str) -> Result<ApiResponse, ApiError> {
        let warnings =
            if Subresource::is_connection(sub) { self.admit_connection().await? } else { Vec::new() };
        match self.check_destination(sub) {
            Ok(Some(response)) => Ok(response),
            Ok(None) => {
                let why = format!("cannot respond to {sub}: this server has no kubelet");
                Err(ApiError::new(501, "NotImplemented", why).warned(warnings))
            }
            Err(error) => Err(error.warned(warnings)),
        }
    }

    /// Runs admission for a connection, and returns its warnings. The object in admission contains the
    /// options of the connection.
    async fn admit_connection(&self) -> Result<Vec<String>, ApiError> {
        if !self.query.all("dryRun").is_empty() {
            return Err(ApiError::bad_request("dryRun is not supported"));
        }
        let attributes = AdmissionAttributes { connects: true, ..self.attributes(self.name().to_owned()) };
        let options = self.connection_options(&attributes.kind.kind)?;
        if !self.shared.has_hooks() {
            return Ok(Vec::new());
        }
        let request = AdmissionRequest::new(attributes);
        let admitted = async {
            let options = self.shared.run_admission(&request, Phase::Mutate, Some(options), None).await?;
            self.shared.run_admission(&request, Phase::Validate, options, None).await
        };
        match admitted.await {
            Ok(_) => Ok(request.warnings()),
            Err(error) => Err(error.warned(request.warnings())),
        }
    }

    /// Returns the path of a proxied request, which follows the subresource in the path of the request.
    fn proxied_path(&self) -> Option<String> {
        let mut path = self.route.proxied.join("/");
        if !path.is_empty() && !path.starts_with('/') {
            path.insert(0, '/');
        }
        if decoded_path(self.head.uri.path()).ends_with('/') && !path.ends_with('/') {
            path.push('/');
        }
        Some(path).filter(|path| !path.is_empty())
    }

    /// Decodes the options of a connection, for example `PodExecOptions`, from the query.
    fn connection_options(&self, kind: &str) -> Result<Map<String, Value>, ApiError> {
        let mut options = Map::new();
        options.insert("kind".to_owned(), kind.into());
        options.insert("apiVersion".to_owned(), "v1".into());
        let known = self.shared.schema.kind_by_api_version("v1", kind);
        let fields = known.map(|known| known.fields()).unwrap_or_default();
        // `apiVersion` and `kind` have no number.
        for field in fields.into_iter().filter(|field| field.number().is_some()) {
            let name = field.name();
            let given = self.query.all(name);
            let value = match (field.shape(), field.base()) {
                (_, BaseType::String) if name == "path" => self.proxied_path().map(Value::from),
                (Shape::List, BaseType::Int32) => ports(&given)?,
                (Shape::List, _) => (!given.is_empty()).then(|| json!(given)),
                (_, BaseType::Bool) => self.query.flag(name).filter(|set| *set).map(Value::from),
                _ => Some(self.query.text(name)).filter(|text| !text.is_empty()).map(Value::from),
            };
            match value {
                Some(value) => drop(options.insert(name.to_owned(), value)),
                None if field.omits_empty() => {}
                None => drop(options.insert(name.to_owned(), Value::Null)),
            }
        }
        Ok(options)
    }
}

/// Parses the ports of a port-forward, which are separated by commas. Returns `None` if there are none.
fn ports(given: &[String]) -> Result<Option<Value>, ApiError> {
    let ports = given.iter().flat_map(|text| text.split(',')).map(|text| {
        // Unlike Go, `parse` accepts a sign.
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = text.parse::<u16>().ok().filter(|_| digits);
        port.ok_or_else(|| {
            let why = if digits { "value out of range" } else { "invalid syntax" };
            let quoted = Value::from(text);
            let message = format!("cannot convert to []int32: strconv.ParseUint: parsing {quoted}: {why}");
            ApiError::bad_request(message)
        })
    });
    let ports = ports.collect::<Result<Vec<u16>, _>>()?;
    Ok((!ports.is_empty()).then(|| json!(ports)))
}
