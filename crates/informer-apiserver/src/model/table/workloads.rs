//! The cells of Pods and of workload kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::selectors::selector_text;
use crate::model::table::text::{NONE, age as age_of, human_duration, items, joined, number, or, size, text};

/// Returns the cells of a kind in `apps` or `batch`.
pub(crate) fn cells(kind: &str, object: &Value, age: &str, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let template = &spec["template"]["spec"];
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let selector = match selector_text(&spec["selector"]) {
        none if none.is_empty() => NONE.to_owned(),
        selector => selector,
    };
    let mut cells = match kind {
        "Deployment" => vec![
            json!(format!("{}/{replicas}", number(&status["readyReplicas"]))),
            json!(number(&status["updatedReplicas"])),
            json!(number(&status["availableReplicas"])),
            json!(age),
        ],
        "ReplicaSet" => vec![
            json!(replicas),
            json!(number(&status["replicas"])),
            json!(number(&status["readyReplicas"])),
            json!(age),
        ],
        "StatefulSet" => vec![json!(format!("{}/{replicas}", number(&status["readyReplicas"]))), json!(age)],
        "DaemonSet" => vec![
            json!(number(&status["desiredNumberScheduled"])),
            json!(number(&status["currentNumberScheduled"])),
            json!(number(&status["numberReady"])),
            json!(number(&status["updatedNumberScheduled"])),
            json!(number(&status["numberAvailable"])),
            json!(match selector_text(&template["nodeSelector"]) {
                none if none.is_empty() => NONE.to_owned(),
                selector => selector,
            }),
            json!(age),
        ],
        "Job" => job(object, age, now),
        "CronJob" => {
            let job = &spec["jobTemplate"]["spec"];
            let last = &status["lastScheduleTime"];
            let mut cells = vec![
                json!(text(&spec["schedule"])),
                json!(or(&spec["timeZone"], NONE)),
                json!(spec["suspend"] == true),
                json!(size(&status["active"])),
                json!(if last.is_string() { age_of(last, now) } else { NONE.to_owned() }),
                json!(age),
            ];
            cells.extend(containers(&job["template"]["spec"]));
            cells.push(json!(match selector_text(&job["selector"]) {
                none if none.is_empty() => NONE.to_owned(),
                selector => selector,
            }));
            return cells;
        }
        _ => return Vec::new(),
    };
    cells.extend(containers(template));
    if kind != "StatefulSet" {
        cells.push(json!(selector));
    }
    cells
}

/// Returns the names and the images of the containers.
fn containers(template: &Value) -> [Value; 2] {
    let named =
        |name: &str| joined(items(&template["containers"]).map(|container| text(&container[name])), "");
    [json!(named("name")), json!(named("image"))]
}

fn job(object: &Value, age: &str, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let succeeded = number(&status["succeeded"]);
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let is = |kind: &str| {
        items(&status["conditions"])
            .any(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    let state = match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if object["metadata"]["deletionTimestamp"].is_string() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let duration = match (time(&status["startTime"]), time(&status["completionTime"])) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).as_second() - start.as_second()),
    };
    vec![json!(state), json!(completions), json!(duration), json!(age)]
}

/// Returns the cells of a Pod. The status is a summary of its container states.
pub(crate) fn pod(pod: &Value, age: &str, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut reason = or(&status["reason"], text(&status["phase"])).to_owned();
    let mut restarts = Restarts::default();
    let starting = init_status(pod, &mut restarts);
    let mut ready = 0;
    if let Some(starting) = &starting {
        reason.clone_from(starting);
    }
    let started = items(&status["containerStatuses"]);
    if starting.is_none() {
        let mut running = false;
        restarts = Restarts::default();
        for container in started.collect::<Vec<_>>().into_iter().rev() {
            restarts.add(container);
            let state = &container["state"];
            if let Some(why) = container_reason(state) {
                reason = why;
            } else if container["ready"] == true && state["running"].is_object() {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && running {
            let is_ready =
                items(&status["conditions"]).any(|c| c["type"] == "Ready" && c["status"] == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        let over = matches!(text(&status["phase"]), "Succeeded" | "Failed");
        if text(&status["reason"]) == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !over {
            reason = "Terminating".to_owned();
        }
    }
    let ip = items(&status["podIPs"]).next().map_or(text(&status["podIP"]), |ip| text(&ip["ip"]));
    vec![
        json!(format!("{ready}/{}", size(&spec["containers"]))),
        json!(reason),
        json!(restarts.summary(now)),
        json!(age),
        json!(if ip.is_empty() { NONE } else { ip }),
        json!(or(&spec["nodeName"], NONE)),
        json!(or(&status["nominatedNodeName"], NONE)),
        json!(gates(pod)),
    ]
}

/// Returns the status of a Pod whose init containers are not finished.
fn init_status(pod: &Value, restarts: &mut Restarts) -> Option<String> {
    let all = size(&pod["spec"]["initContainers"]);
    for (index, container) in items(&pod["status"]["initContainerStatuses"]).enumerate() {
        restarts.add(container);
        let (state, ended) = (&container["state"], &container["state"]["terminated"]);
        if ended.is_object() && number(&ended["exitCode"]) == 0 {
            continue;
        }
        return Some(match text(&state["waiting"]["reason"]) {
            _ if ended.is_object() => format!("Init:{}", container_reason(state).unwrap_or_default()),
            "" | "PodInitializing" => format!("Init:{index}/{all}"),
            reason => format!("Init:{reason}"),
        });
    }
    None
}

/// Returns why a container waits or terminated.
fn container_reason(state: &Value) -> Option<String> {
    let (waiting, ended) = (text(&state["waiting"]["reason"]), &state["terminated"]);
    if !waiting.is_empty() {
        return Some(waiting.to_owned());
    }
    if !ended.is_object() {
        return None;
    }
    Some(match (text(&ended["reason"]), number(&ended["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(&ended["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += number(&container["restartCount"]);
        let ended = text(&container["lastState"]["terminated"]["finishedAt"]).parse().ok();
        self.last = self.last.max(ended);
    }

    fn summary(&self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count > 0 => {
                format!("{} ({} ago)", self.count, human_duration(now.as_second() - last.as_second()))
            }
            _ => self.count.to_string(),
        }
    }
}

fn gates(pod: &Value) -> String {
    let gates: Vec<&str> =
        items(&pod["spec"]["readinessGates"]).map(|gate| text(&gate["conditionType"])).collect();
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = |gate: &&&str| {
        items(&pod["status"]["conditions"]).any(|c| text(&c["type"]) == **gate && c["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(open).count(), gates.len())
}
