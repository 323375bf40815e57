//! The webhooks of a scenario: a small server that sends prepared responses and records its requests.
//!
//! # Lock order
//!
//! The lock of `Kept` is never held together with another lock, nor across an await.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::target::Target;

/// The address at which the embedded server reaches the webhooks. No socket listens on it, since connections
/// use pipes in memory.
const IN_PROCESS: &str = "127.0.0.1:9443";
const PIPE_BYTES: usize = 64 << 10;

/// The prepared response of a webhook.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reply {
    /// The `response` field of the review that the webhook returns. Its uid is filled in, and a patch given
    /// as a list is encoded.
    pub response: Option<Value>,
    /// Top-level fields of the webhook's response. They replace those of the review that is otherwise
    /// returned.
    #[serde(default)]
    pub envelope: BTreeMap<String, Value>,
    /// The literal body of the webhook's response.
    pub raw: Option<String>,
    /// The HTTP status of the webhook's response; 200 by default.
    pub status: Option<u16>,
    /// True if the webhook never responds.
    #[serde(default)]
    pub silent: bool,
    /// The fields that a conversion webhook adds to each converted object. Each object also gets the
    /// requested version.
    pub convert: Option<Value>,
    /// In a conversion, one field of `spec` is renamed. This map has the name of the field in each version.
    #[serde(default)]
    pub names: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Hooks {
    kept: Arc<Mutex<Kept>>,
    authority: String,
    ca: String,
}

#[derive(Debug, Default)]
struct Kept {
    replies: BTreeMap<String, Reply>,
    asked: BTreeMap<String, Vec<Value>>,
}

impl Hooks {
    /// Starts the webhooks of a scenario, at addresses that the server can reach.
    pub(crate) async fn start(target: &Target, replies: &BTreeMap<String, Reply>) -> io::Result<Self> {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
        let acceptor = acceptor(&made)?;
        let kept = Arc::new(Mutex::new(Kept { replies: replies.clone(), asked: BTreeMap::new() }));
        let authority = match target {
            Target::Embedded(server) => {
                let (acceptor, kept) = (acceptor, Arc::clone(&kept));
                server.webhooks().connect_with(IN_PROCESS, move || {
                    let (client, own) = tokio::io::duplex(PIPE_BYTES);
                    drop(tokio::spawn(serve(own, acceptor.clone(), Arc::clone(&kept))));
                    client
                });
                IN_PROCESS.to_owned()
            }
            Target::Real { .. } => {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                let authority = listener.local_addr()?.to_string();
                let kept = Arc::clone(&kept);
                drop(tokio::spawn(async move {
                    while let Ok((socket, _)) = listener.accept().await {
                        drop(tokio::spawn(serve(socket, acceptor.clone(), Arc::clone(&kept))));
                    }
                }));
                authority
            }
        };
        Ok(Self { kept, authority, ca: STANDARD.encode(made.cert.pem()) })
    }

    /// Returns the placeholders that scenarios use for the webhooks, and their values.
    pub(crate) fn names(&self) -> [(&'static str, String); 2] {
        [("webhook", format!("https://{}", self.authority)), ("ca", self.ca.clone())]
    }

    /// Removes and returns the requests that a webhook has received since the last call.
    pub(crate) fn asked(&self, name: &str) -> Vec<Value> {
        self.kept.lock().asked.remove(name).unwrap_or_default()
    }
}

fn acceptor(made: &rcgen::CertifiedKey<rcgen::KeyPair>) -> io::Result<TlsAcceptor> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?.with_no_client_auth();
    let config = builder.with_single_cert(vec![made.cert.der().clone()], key).map_err(io::Error::other)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves one connection to a webhook. A client that does not trust the webhook's certificate closes the
/// connection.
async fn serve<S>(socket: S, acceptor: TlsAcceptor, kept: Arc<Mutex<Kept>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Ok(socket) = acceptor.accept(socket).await else { return };
    let service = hyper::service::service_fn(move |request| respond(request, Arc::clone(&kept)));
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await);
}

async fn respond(
    request: Request<Incoming>,
    kept: Arc<Mutex<Kept>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let reply = {
        let mut kept = kept.lock();
        kept.asked.entry(name.clone()).or_default().push(asked.clone());
        // One webhook converts all objects of a CRD, so the name of the first object selects a special
        // response.
        let object = asked["request"]["objects"][0]["metadata"]["name"].as_str().unwrap_or_default();
        let of_object = kept.replies.get(&format!("{name}.{object}"));
        of_object.or_else(|| kept.replies.get(&name)).cloned()
    };
    let reply = reply.unwrap_or(Reply { status: Some(404), raw: Some(String::new()), ..Reply::default() });
    if reply.silent {
        std::future::pending::<()>().await;
    }
    let mut response = Response::new(Full::new(Bytes::from(body_of(&reply, &asked))));
    *response.status_mut() = reply.status.and_then(|code| code.try_into().ok()).unwrap_or_default();
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn body_of(reply: &Reply, asked: &Value) -> String {
    if let Some(raw) = &reply.raw {
        return raw.clone();
    }
    let mut whole = json!({"apiVersion": asked["apiVersion"], "kind": asked["kind"]});
    let mut response = reply.response.clone().unwrap_or_else(|| json!({}));
    if let Some(members) = &reply.convert {
        response = converted(reply, members, &asked["request"]);
    }
    if response.get("uid").is_none() {
        response["uid"] = asked["request"]["uid"].clone();
    }
    if response["patch"].is_array() {
        response["patch"] = STANDARD.encode(response["patch"].to_string()).into();
    }
    whole["response"] = response;
    for (name, value) in &reply.envelope {
        whole[name] = value.clone();
    }
    whole.to_string()
}

/// Returns the response of a conversion webhook that changes the version of the objects, renames a field, and
/// adds other fields.
fn converted(reply: &Reply, members: &Value, request: &Value) -> Value {
    let mut objects = request["objects"].clone();
    let version =
        |api_version: &Value| api_version.as_str().and_then(|text| Some(text.rsplit_once('/')?.1.to_owned()));
    let name = |api_version: &Value| version(api_version).and_then(|version| reply.names.get(&version));
    for object in objects.as_array_mut().into_iter().flatten() {
        if let (Some(from), Some(to)) = (name(&object["apiVersion"]), name(&request["desiredAPIVersion"]))
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.clone(), value);
        }
        object["apiVersion"] = request["desiredAPIVersion"].clone();
        for (name, value) in members.as_object().into_iter().flatten() {
            match (object.get_mut(name).and_then(Value::as_object_mut), value.as_object()) {
                (Some(there), Some(more)) => there.extend(more.clone()),
                _ => object[name] = value.clone(),
            }
        }
    }
    json!({"convertedObjects": objects, "result": {"status": "Success"}})
}
