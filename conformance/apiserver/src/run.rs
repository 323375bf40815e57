//! Runs a scenario on a server and records the responses.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::hooks::Hooks;
use crate::normal::Names;
use crate::scenario::{Scenario, Step};
use crate::target::{Lines, PATIENCE, SendError, Stream, Target, read_all};

/// The response headers that are compared, because clients act on them.
const HEADERS: [&str; 9] = [
    "cache-control",
    "content-encoding",
    "content-type",
    "location",
    "retry-after",
    "vary",
    "warning",
    "www-authenticate",
    "x-content-type-options",
];
const AGAIN: Duration = Duration::from_millis(50);

/// The responses of a server to the steps of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transcript {
    /// The responses to the steps of the scenario whose responses are compared.
    #[serde(rename = "answers")]
    pub responses: Vec<StepResponse>,
}

/// The response to one step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepResponse {
    /// The request or the read of the step, as it is written in the scenario.
    pub step: String,
    /// The HTTP status of the response, if the step is a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The headers of the response that are compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Vec<String>>,
    /// The body of the response: parsed if it is JSON, otherwise a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The events that the step has read from a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<Value>>,
}

/// The error of a scenario that could not be run.
#[derive(Debug, Error)]
#[error("step {step} of scenario {scenario}: {why}")]
pub struct RunError {
    scenario: String,
    step: usize,
    why: String,
    #[source]
    cause: Option<SendError>,
}

/// Runs a scenario on a server. `id` makes the names of its objects unique.
///
/// # Errors
///
/// When the server cannot be reached, or a step of the scenario is invalid.
pub async fn run(scenario: &Scenario, target: &Target, id: &str) -> Result<Transcript, RunError> {
    let failed =
        |step: usize, (why, cause): Failed| RunError { scenario: scenario.name.clone(), step, why, cause };
    let mut names = Names::new(id);
    let mut hooks = None;
    if !scenario.webhooks.is_empty() {
        let started = Hooks::start(target, &scenario.webhooks).await;
        let started =
            started.map_err(|error| failed(0, (format!("cannot start the webhooks: {error}"), None)))?;
        started.names().into_iter().for_each(|(name, value)| names.capture(name, &value.into()));
        hooks = Some(started);
    }
    let mut run = Run { target, names, streams: BTreeMap::new(), hooks, responses: Vec::new() };
    let namespace = json!({"metadata": {"name": run.names.fill("{ns}")}});
    let setup = Step {
        request: Some("POST /api/v1/namespaces".to_owned()),
        body: Some(namespace),
        setup: true,
        ..Step::default()
    };
    run.step(&setup).await.map_err(|why| failed(0, why))?;
    for (index, step) in scenario.steps.iter().enumerate() {
        run.step(step).await.map_err(|why| failed(index + 1, why))?;
    }
    let Run { names, mut responses, .. } = run;
    names.normalize(&mut responses);
    Ok(Transcript { responses })
}

type Failed = (String, Option<SendError>);

struct Run<'a> {
    target: &'a Target,
    names: Names,
    streams: BTreeMap<String, Lines>,
    hooks: Option<Hooks>,
    responses: Vec<StepResponse>,
}

impl Run<'_> {
    async fn step(&mut self, step: &Step) -> Result<(), Failed> {
        if let Some(name) = &step.close {
            self.streams.remove(name);
        }
        if let Some(name) = &step.reviews {
            let mut asked = self.hooks.as_ref().map(|hooks| hooks.asked(name)).unwrap_or_default();
            asked.truncate(step.events.unwrap_or(usize::MAX));
            let response = StepResponse {
                step: format!("reviews {name}"),
                events: Some(asked),
                ..StepResponse::default()
            };
            self.keep(step, response);
        }
        if let Some(name) = &step.read {
            let events = self.read(name, step.events).await?;
            self.responses.push(StepResponse {
                step: format!("read {name}"),
                events: Some(events),
                ..StepResponse::default()
            });
        }
        match &step.request {
            Some(request) => self.request(step, request).await,
            None => Ok(()),
        }
    }

    async fn read(&mut self, name: &str, events: Option<usize>) -> Result<Vec<Value>, Failed> {
        let lines =
            self.streams.get_mut(name).ok_or_else(|| (format!("no stream {name:?} is open"), None))?;
        let mut read = Vec::new();
        while events.is_none_or(|events| read.len() < events) {
            let line = lines
                .next()
                .await
                .map_err(|error| (format!("reading {name:?}, after {read:?}"), Some(error)))?;
            match line {
                Some(line) => read.push(json_or_text(&line)),
                None if events.is_none() => break,
                None => {
                    read.push("<end>".into());
                    break;
                }
            }
        }
        Ok(read)
    }

    async fn request(&mut self, step: &Step, request: &str) -> Result<(), Failed> {
        let mut waited = Duration::ZERO;
        loop {
            let response = self.target.send(self.build(step, request)?).await;
            let response = response.map_err(|error| (format!("sending {request:?}"), Some(error)))?;
            let (response, stream) = self.take(step, request, response).await?;
            let until = step.until.iter().map(|(at, wanted)| (self.names.fill(at), wanted.clone())).collect();
            if !reached(&response, &until) {
                if waited >= PATIENCE {
                    return Err((
                        format!("{request:?} never returned the awaited values; last response: {response:?}"),
                        None,
                    ));
                }
                waited += AGAIN;
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            if step.setup && response.status.is_some_and(|status| status >= 400) && step.until.is_empty() {
                return Err((format!("the setup request {request:?} was rejected: {response:?}"), None));
            }
            if let (Some(name), Some(stream)) = (&step.watch, stream) {
                self.streams.insert(name.clone(), Lines::new(stream));
            }
            for (name, pointer) in &step.capture {
                let found = response.body.as_ref().and_then(|body| body.pointer(pointer));
                let Some(found) = found else {
                    return Err((format!("nothing to capture at {pointer:?} in {response:?}"), None));
                };
                self.names.capture(name, found);
            }
            self.keep(step, response);
            return Ok(());
        }
    }

    fn keep(&mut self, step: &Step, mut response: StepResponse) {
        self.names.learn(&response);
        if step.setup {
            return;
        }
        if let (Some(body), false) = (&response.body, step.only.is_empty()) {
            let parts = step
                .only
                .iter()
                .map(|pointer| {
                    (pointer, body.pointer(&self.names.fill(pointer)).cloned().unwrap_or_default())
                })
                .map(|(pointer, part)| (pointer.clone(), part));
            response.body = Some(Value::Object(parts.collect()));
        }
        self.responses.push(response);
    }

    fn build(&self, step: &Step, request: &str) -> Result<Request<Full<Bytes>>, Failed> {
        let request = self.names.fill(request);
        let (method, path) = request.split_once(' ').unwrap_or(("GET", &request));
        let mut builder = Request::builder().method(method).uri(path).header("user-agent", "differential/1");
        match step.user.as_deref().unwrap_or("admin") {
            "nobody" => {}
            user => builder = builder.header("authorization", format!("Bearer {user}-token")),
        }
        if step.body.is_some() && !step.headers.contains_key("content-type") {
            builder = builder.header("content-type", "application/json");
        }
        for (name, value) in &step.headers {
            builder = builder.header(name, self.names.fill(value));
        }
        let body = match (&step.body, &step.raw) {
            (Some(body), _) => self.names.fill(&lengthened(body, &step.long).to_string()).into(),
            (None, Some(raw)) => self.raw(step, raw)?,
            (None, None) => Bytes::new(),
        };
        let built = builder.body(Full::new(body));
        built.map_err(|error| (format!("building {request:?}"), Some(error.into())))
    }

    fn raw(&self, step: &Step, raw: &str) -> Result<Bytes, Failed> {
        let lists = || format!("{}{}", "[".repeat(step.nested), "]".repeat(step.nested));
        let text = self.names.fill(raw).replace("{nested}", &lists());
        if !step.bytes {
            return Ok(text.into());
        }
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        bytes.map(Bytes::from).map_err(|_| (format!("{raw:?} has a character above U+00FF"), None))
    }

    async fn take(
        &self,
        step: &Step,
        request: &str,
        response: http::Response<Stream>,
    ) -> Result<(StepResponse, Option<Stream>), Failed> {
        let (head, body) = response.into_parts();
        let mut headers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in head.headers.iter().filter(|(name, _)| HEADERS.contains(&name.as_str())) {
            let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
            headers.entry(name.as_str().to_owned()).or_default().push(text);
        }
        let mut taken = StepResponse {
            step: request.to_owned(),
            status: Some(head.status.as_u16()),
            headers,
            ..StepResponse::default()
        };
        if step.watch.is_some() && head.status.is_success() {
            return Ok((taken, Some(body)));
        }
        let bytes = read_all(body)
            .await
            .map_err(|error| (format!("reading the response to {request:?}"), Some(error)))?;
        let bytes = match taken.headers.get("content-encoding").map(Vec::as_slice) {
            Some([encoding]) if encoding == "gzip" => {
                let unpacked = unpacked(&bytes);
                unpacked.map_err(|error| {
                    (format!("the response to {request:?} is not valid gzip: {error}"), None)
                })?
            }
            _ => bytes,
        };
        let yaml = taken
            .headers
            .get("content-type")
            .is_some_and(|types| types.contains(&"application/yaml".to_owned()));
        let body = if yaml {
            // YAML is parsed before it is compared, because its line breaks depend on the encoder.
            serde_norway::from_slice(&bytes).unwrap_or_else(|_| json_or_text(&bytes))
        } else {
            json_or_text(&bytes)
        };
        taken.body = Some(body).filter(|_| !bytes.is_empty() && !request.starts_with("HEAD "));
        Ok((taken, None))
    }
}

fn lengthened(body: &Value, long: &BTreeMap<String, usize>) -> Value {
    let mut body = body.clone();
    for (pointer, letters) in long {
        if let Some(place) = body.pointer_mut(pointer) {
            *place = "x".repeat(*letters).into();
        }
    }
    body
}

fn unpacked(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

fn reached(response: &StepResponse, until: &BTreeMap<String, Value>) -> bool {
    until.iter().all(|(pointer, wanted)| match pointer.as_str() {
        "status" => response.status.map(Value::from).as_ref() == Some(wanted),
        pointer => response.body.as_ref().and_then(|body| body.pointer(pointer)) == Some(wanted),
    })
}

fn json_or_text(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into_owned().into())
}
