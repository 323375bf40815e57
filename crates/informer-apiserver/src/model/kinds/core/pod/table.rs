//! The table cells of Pods, which `kubectl get pods` prints.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::model::rules::warnings::{list, text};
use crate::model::table::TableRow;
use crate::model::table::text::{NONE, human_duration, number, or, size};

/// The status cell summarizes the states of the Pod's containers.
pub(crate) fn cells(row: &TableRow<'_>) -> Vec<Value> {
    let (pod, now) = (row.object, row.now);
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut reason = or(&status["reason"], text(&status["phase"])).to_owned();
    let mut restarts = Restarts::default();
    let starting = init_status(pod, &mut restarts);
    let mut ready = 0;
    if let Some(starting) = &starting {
        reason.clone_from(starting);
    }
    let started = list(&status["containerStatuses"]);
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
            let is_ready = list(&status["conditions"]).any(|c| c["type"] == "Ready" && c["status"] == "True");
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
    let ip = list(&status["podIPs"]).next().map_or(text(&status["podIP"]), |ip| text(&ip["ip"]));
    vec![
        row.name(),
        json!(format!("{ready}/{}", size(&spec["containers"]))),
        json!(reason),
        json!(restarts.summary(now)),
        row.age(),
        json!(if ip.is_empty() { NONE } else { ip }),
        json!(or(&spec["nodeName"], NONE)),
        json!(or(&status["nominatedNodeName"], NONE)),
        json!(gates(pod)),
    ]
}

/// Returns the status cell of a Pod whose init containers are not finished.
fn init_status(pod: &Value, restarts: &mut Restarts) -> Option<String> {
    let all = size(&pod["spec"]["initContainers"]);
    for (index, container) in list(&pod["status"]["initContainerStatuses"]).enumerate() {
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
        list(&pod["spec"]["readinessGates"]).map(|gate| text(&gate["conditionType"])).collect();
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = |gate: &&&str| {
        list(&pod["status"]["conditions"]).any(|c| text(&c["type"]) == **gate && c["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(open).count(), gates.len())
}
