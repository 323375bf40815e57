use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::status::StatusForm;
use super::{Attempt, End, ListResponse, ObjectText, RequestKind, Response, Script, ScriptError, Step};
use crate::peer::Command;

/// The resync period of scripts that set none. It is too long to elapse within a script.
const NO_RESYNC: Duration = Duration::from_secs(3600);

/// The maximum of every duration in a script, such as a wait, a delay or a resync period. The limit exists
/// because a script must end within a minute.
const MAX_WAIT: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ScriptForm {
    about: String,
    #[serde(default)]
    streaming: bool,
    resync: Option<String>,
    #[serde(default)]
    transforms: bool,
    attempts: Vec<AttemptForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct AttemptForm {
    expect: Option<RequestKind>,
    delay: Option<String>,
    list: Option<ListForm>,
    status: Option<StatusForm>,
    stream: Option<Vec<StepForm>>,
    end: Option<End>,
    drop: Option<End>,
    refuse: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ListForm {
    #[serde(default)]
    version: String,
    #[serde(default)]
    items: Vec<String>,
    #[serde(rename = "continue")]
    continue_token: Option<String>,
    /// A string that is sent as the body of the response, instead of a list with `items`. It may be invalid
    /// JSON.
    raw: Option<String>,
    kind: Option<String>,
    content_type: Option<String>,
    broken: Option<End>,
}

/// One step of a stream in the YAML of a script. Exactly one of the fields is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct StepForm {
    added: Option<String>,
    modified: Option<String>,
    deleted: Option<String>,
    bookmark: Option<String>,
    /// The resourceVersion of a bookmark that marks the end of the initial events of a streaming list.
    end_bookmark: Option<String>,
    error: Option<StatusForm>,
    event: Option<Value>,
    raw: Option<String>,
    /// An added object. Only the first half of its event is sent, to cut an event off.
    half: Option<String>,
    wait: Option<String>,
    #[serde(rename = "do")]
    command: Option<Command>,
}

pub(super) fn script(name: &str, text: &str) -> Result<Script, ScriptError> {
    let bad = |problem: String| ScriptError::Form { name: name.to_owned(), problem };
    let form: ScriptForm = serde_norway::from_str(text).map_err(|error| bad(error.to_string()))?;
    let resync = form.resync.map_or(Ok(NO_RESYNC), |text| duration(&text)).map_err(bad)?;
    if form.attempts.is_empty() {
        return Err(bad("the script has no attempts".to_owned()));
    }
    let attempts = form.attempts.into_iter().enumerate().map(|(index, attempt)| {
        read_attempt(attempt).map_err(|problem| ScriptError::Attempt {
            name: name.to_owned(),
            attempt: index + 1,
            problem,
        })
    });
    Ok(Script {
        name: name.to_owned(),
        about: form.about,
        streaming: form.streaming,
        resync,
        transforms: form.transforms,
        attempts: attempts.collect::<Result<_, _>>()?,
    })
}

fn read_attempt(form: AttemptForm) -> Result<Attempt, String> {
    let delay = form.delay.map_or(Ok(Duration::ZERO), |text| duration(&text))?;
    let mut responses = Vec::new();
    if let Some(list) = form.list {
        responses.push(Response::List(read_list(list)?));
    }
    if let Some(status) = form.status {
        responses.push(Response::Status(status.read()?));
    }
    if let Some(refuse) = &form.refuse {
        responses.push(Response::Refuse(duration(refuse)?));
    }
    if let Some(end) = form.drop {
        responses.push(Response::Drop(end));
    }
    match (form.stream, form.end) {
        (Some(steps), Some(end)) => {
            let steps = steps.into_iter().enumerate().map(|(index, step)| {
                read_step(step).map_err(|problem| format!("step {}: {problem}", index + 1))
            });
            responses.push(Response::Stream(steps.collect::<Result<_, _>>()?, end));
        }
        (None, Some(end)) => responses.push(Response::Stream(Vec::new(), end)),
        (Some(_), None) => {
            return Err("a stream needs an `end`: close, cut, cut-chunk, reset or hold".to_owned());
        }
        (None, None) => {}
    }
    let [response] = <[Response; 1]>::try_from(responses).map_err(|responses| {
        format!(
            "the attempt has {} responses; give one of list, status, stream, drop, refuse",
            responses.len()
        )
    })?;
    check_fit(form.expect, &response)?;
    Ok(Attempt { expect: form.expect, delay, response })
}

/// Checks that a server could send this kind of response to this kind of request: for example, a watch cannot
/// have a list as response.
fn check_fit(expect: Option<RequestKind>, response: &Response) -> Result<(), String> {
    let watches = matches!(expect, Some(RequestKind::Watch | RequestKind::WatchList));
    match (response, expect) {
        (Response::Refuse(_), Some(_)) => Err("a closed port receives no request; omit `expect`".to_owned()),
        (Response::Refuse(_), None) => Ok(()),
        (_, None) => Err("`expect` is missing; name the request that the attempt responds to".to_owned()),
        (Response::List(_), Some(kind)) if watches => {
            Err(format!("a {kind} request cannot have a list as response"))
        }
        (Response::Stream(..), Some(kind)) if !watches => {
            Err(format!("a {kind} request cannot have a stream as response"))
        }
        _ => Ok(()),
    }
}

fn read_list(form: ListForm) -> Result<ListResponse, String> {
    let items = form.items.iter().map(|item| Ok(item.parse::<ObjectText>()?.json(false)));
    let items = items.collect::<Result<Vec<Value>, String>>()?;
    let mut metadata = json!({ "resourceVersion": form.version });
    if let Some(token) = form.continue_token {
        metadata["continue"] = token.into();
    }
    let kind = form.kind.unwrap_or_else(|| "ConfigMapList".to_owned());
    let list = json!({ "kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items });
    Ok(ListResponse {
        body: form.raw.unwrap_or_else(|| list.to_string()),
        content_type: form.content_type.unwrap_or_else(|| "application/json".to_owned()),
        broken: form.broken,
    })
}

fn read_step(form: StepForm) -> Result<Step, String> {
    let mut steps = Vec::new();
    for (event_type, object) in
        [("ADDED", form.added), ("MODIFIED", form.modified), ("DELETED", form.deleted)]
    {
        if let Some(object) = object {
            steps.push(event(event_type, &object.parse::<ObjectText>()?.json(true)));
        }
    }
    if let Some(version) = form.bookmark {
        steps.push(event("BOOKMARK", &bookmark(&version)));
    }
    if let Some(version) = form.end_bookmark {
        let mut object = bookmark(&version);
        object["metadata"]["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        steps.push(event("BOOKMARK", &object));
    }
    if let Some(status) = form.error {
        steps.push(Step::Error(status.read()?));
    }
    if let Some(any) = form.event {
        steps.push(Step::Send(any.to_string() + "\n"));
    }
    if let Some(object) = form.half {
        let Step::Send(text) = event("ADDED", &object.parse::<ObjectText>()?.json(true)) else {
            return Err("an event is not a `Send` step".to_owned());
        };
        steps.push(Step::Send(text[..text.len() / 2].to_owned()));
    }
    steps.extend(form.raw.map(Step::Send));
    steps.extend(form.wait.map(|text| duration(&text)).transpose()?.map(Step::Wait));
    steps.extend(form.command.map(Step::Do));
    match <[Step; 1]>::try_from(steps) {
        Ok([step]) => Ok(step),
        Err(steps) => Err(format!("the step has {} actions; give exactly one", steps.len())),
    }
}

fn bookmark(version: &str) -> Value {
    json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "resourceVersion": version } })
}

pub(crate) fn event_line(event_type: &str, object: &Value) -> String {
    json!({ "type": event_type, "object": object }).to_string() + "\n"
}

fn event(event_type: &str, object: &Value) -> Step {
    Step::Send(event_line(event_type, object))
}

fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration; write it as 800ms or 2s, at most {MAX_WAIT:?}");
    let duration = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => Duration::from_millis(number.parse().map_err(|_| bad())?),
        (None, Some(number)) => Duration::from_secs(number.parse().map_err(|_| bad())?),
        (None, None) => return Err(bad()),
    };
    if duration > MAX_WAIT { Err(bad()) } else { Ok(duration) }
}
