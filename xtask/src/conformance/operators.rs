//! The suite operators: runs the example operators, each under a service account that has the permissions of
//! the operator's ClusterRole and no others.
//!
//! On a real server that this suite starts, allowed and denied requests are read from the audit log. A denied
//! request is a problem, and so is a permission that the operator does not use. On the embedded and on a real
//! server, each operator is run again without one necessary permission. It must then fail, which shows that
//! the server denies requests.

mod audit;
mod kubectl;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::served::{For, Running, with_administrator};
use super::{Conformance, Kind};
use crate::cargo::cargo;
use crate::deadline::Deadline;
use crate::go::target;
use crate::real::last_lines;
use crate::report::Report;
use audit::Permission;
use kubectl::Kubectl;

const NAMESPACE: &str = "operators";
/// Time limit of a run of an operator with all permissions. It is longer than any timeout inside an operator.
const OPERATOR_WAIT: Duration = Duration::from_secs(180);
/// Minimum time limit of a run of an operator that lacks a permission. If twice the time of its run with all
/// permissions is longer, that is the limit.
const LACKING_WAIT: Duration = Duration::from_secs(10);
/// Time limit until the garbage collector has deleted the objects whose owner was deleted.
const COLLECTED_WITHIN: Duration = Duration::from_secs(60);

struct Operator {
    name: &'static str,
    /// The name of the operator's ClusterRole, service account and bindings.
    role: &'static str,
    /// Namespaces in which the ClusterRole is bound; if empty, it is bound in all namespaces.
    namespaces: &'static [&'static str],
    /// Strings that the operator's output must contain, in this order.
    says: &'static [&'static str],
    /// A resource and a verb on it. Without this permission the operator must fail.
    needs: (&'static str, &'static str),
}

const OPERATORS: [Operator; 6] = [
    Operator {
        name: "sample_controller",
        role: "website-controller",
        namespaces: &[],
        says: &[
            "created: a deployment of 2",
            "scaled: a deployment of 3",
            "reported: in the status, and by an event",
            "deleted: the finalizer was removed",
            "deleted: the deployment was deleted with its owner",
        ],
        needs: ("deployments", "create"),
    },
    Operator {
        name: "multi_namespace",
        role: "inventory",
        namespaces: &["example-blue", "example-green"],
        says: &[
            "example-blue has 2 config maps",
            "example-green has 1 config maps",
            "example-red is not watched",
        ],
        needs: ("configmaps", "create"),
    },
    Operator {
        name: "janitor",
        role: "janitor",
        namespaces: &[],
        says: &["10 of 100 config maps deleted", "only metadata"],
        needs: ("configmaps", "delete"),
    },
    Operator {
        name: "sharded",
        role: "sharded",
        namespaces: &["example-sharded"],
        says: &[
            "3 replicas share 60 config maps",
            "b was killed",
            "c was paused past its lease",
            "c was stopped",
            "0 of them under an older fence",
        ],
        needs: ("configmaps", "patch"),
    },
    Operator {
        name: "standby",
        role: "standby",
        namespaces: &["example-standby"],
        says: &[
            "was killed",
            "was stopped",
            "0 late, and 0 in the ledger",
            "was paused past its lease: 0 late",
        ],
        needs: ("configmaps", "patch"),
    },
    Operator {
        name: "webhook_server",
        role: "webhook-server",
        namespaces: &[],
        says: &[
            "filled in: team blue",
            "denied: data.password: put it into a Secret",
            "an update is validated, too",
        ],
        needs: ("mutatingwebhookconfigurations", "create"),
    },
];

pub(super) fn run(root: &Path, options: &Conformance) -> Report {
    let mut report = Report::new("conformance operators");
    let part = options.scenario.as_deref().unwrap_or_default();
    let operators: Vec<&Operator> =
        OPERATORS.iter().filter(|operator| operator.name.contains(part)).collect();
    let outcome = build(root, &operators).and_then(|()| {
        let log = target(root).join("operators-audit.log");
        // kube-apiserver appends to the audit log, so the log of an earlier run is removed: its requests must
        // not be counted.
        let _ = fs::remove_file(&log);
        let flags = audit::flags(&target(root).join("operators-audit.yaml"), &log)?;
        let asking = For { name: "operators", flags: &flags };
        with_administrator(root, options, asking, &mut report, |config, report| {
            let kubectl = Kubectl::new(root, config)?;
            let audited = options.server == Kind::Real && options.dir.is_none();
            let proof = Proof { root, kubectl, config, log: audited.then_some(log) };
            proof.all(&operators, options, report)
        })
    });
    if let Err(error) = outcome {
        report.problems.push(error);
    }
    report
}

fn build(root: &Path, operators: &[&Operator]) -> Result<(), String> {
    let mut arguments = vec!["build", "--quiet", "--package", "informer-examples"];
    for operator in operators {
        arguments.extend(["--example", operator.name]);
    }
    if operators.is_empty() {
        Err("no operator has this string in its name".to_owned())
    } else {
        cargo(root, &arguments, None)
    }
}

struct Proof<'a> {
    root: &'a Path,
    kubectl: Kubectl,
    config: &'a Path,
    /// The path of the audit log of kube-apiserver. `None` for the embedded server, and for a real server
    /// that this suite has not started.
    log: Option<PathBuf>,
}

impl Proof<'_> {
    fn all(&self, operators: &[&Operator], options: &Conformance, report: &mut Report) -> Result<(), String> {
        self.kubectl.run(&["create", "namespace", NAMESPACE])?;
        let mut took = Vec::new();
        for operator in operators {
            match self.suffices(operator, report) {
                Ok(time) => took.push((operator, time)),
                Err(why) => report.problems.push(format!("{}: {why}", operator.name)),
            }
        }
        if options.server == Kind::Real
            && operators.iter().any(|operator| operator.name == "sample_controller")
        {
            self.controllers_have_worked()?;
        }
        for (operator, took) in took.into_iter().filter(|_| !options.quick) {
            if let Err(why) = self.is_needed(operator, LACKING_WAIT.max(took * 2), report) {
                report.problems.push(format!("{}: {why}", operator.name));
            }
        }
        Ok(())
    }

    /// Runs an operator under its ClusterRole. The operator must succeed. If the server writes an audit log,
    /// no request may be denied, and the operator must use every permission. Returns how long the operator
    /// ran.
    fn suffices(&self, operator: &Operator, report: &mut Report) -> Result<Duration, String> {
        let role = self.root.join("examples/examples").join(operator.name).join("role.yaml");
        self.kubectl.run(&["apply", "-f", &role.display().to_string()])?;
        self.kubectl.run(&["create", "serviceaccount", operator.role, "-n", NAMESPACE])?;
        self.bind(operator)?;
        let began = Deadline::after(OPERATOR_WAIT);
        let (status, said) = self.start(operator, OPERATOR_WAIT)?;
        let missing = kubectl::missing(&said, operator.says);
        if !status.is_some_and(|status| status.success()) || missing.is_some() {
            return Err(format!("status {status:?}, missing output {missing:?}: {said}"));
        }
        let took = began.elapsed();
        report.figure(format!("{}: took, s", operator.name), took.as_secs_f64());
        for (what, seconds) in said.lines().filter_map(told_seconds) {
            report.figure(format!("{}: {what}, s", operator.name), seconds);
        }
        let granted = self.granted(operator)?;
        report.figure(format!("{}: permissions", operator.name), granted.len() as f64);
        let Some(log) = &self.log else { return Ok(took) };
        let seen = audit::of_account(log, &format!("system:serviceaccount:{NAMESPACE}:{}", operator.role))?;
        report.figure(format!("{}: requests", operator.name), seen.requests as f64);
        report.figure(format!("{}: refused", operator.name), seen.refused.len() as f64);
        for permission in seen.refused {
            report.problems.push(format!("{}: was not permitted to {permission}", operator.name));
        }
        let unused = granted.difference(&seen.allowed);
        for permission in unused.filter(|permission| !permission.is_needed_elsewhere(&seen.allowed)) {
            report.problems.push(format!("{}: is permitted to {permission}, but never did", operator.name));
        }
        Ok(took)
    }

    /// Runs an operator whose ClusterRole lacks the permission `Operator::needs`. It must not succeed within
    /// the time limit.
    fn is_needed(&self, operator: &Operator, limit: Duration, report: &mut Report) -> Result<(), String> {
        let (resource, verb) = operator.needs;
        let mut role = self.kubectl.get("clusterrole", operator.role)?;
        for rule in role["rules"].as_array_mut().into_iter().flatten() {
            let names = rule["resources"].as_array().is_some_and(|named| named.contains(&json!(resource)));
            if names && let Some(verbs) = rule["verbs"].as_array_mut() {
                verbs.retain(|given| given != verb);
            }
        }
        if let Some(rules) = role["rules"].as_array_mut() {
            // Rules that have lost their only verb are removed, because the API server rejects a ClusterRole
            // with a rule without verbs.
            rules.retain(|rule| rule["verbs"] != json!([]));
        }
        self.kubectl.with_input(&["replace", "-f", "-"], &role.to_string())?;
        self.bind(operator)?;
        let (status, said) = self.start(operator, limit)?;
        if status.is_some_and(|status| status.success()) {
            return Err(format!("succeeds without the permission to {verb} {resource}: {said}"));
        }
        report.figure(format!("{}: failed without {verb} {resource}", operator.name), 1.0);
        Ok(())
    }

    /// Binds the ClusterRole of an operator to its service account: in the namespaces of
    /// `Operator::namespaces`, which are created again, or in all namespaces if that list is empty.
    fn bind(&self, operator: &Operator) -> Result<(), String> {
        let role = format!("--clusterrole={}", operator.role);
        let account = format!("--serviceaccount={NAMESPACE}:{}", operator.role);
        if operator.namespaces.is_empty() {
            if self.kubectl.get("clusterrolebinding", operator.role).is_err() {
                self.kubectl.run(&["create", "clusterrolebinding", operator.role, &role, &account])?;
            }
            return Ok(());
        }
        for namespace in operator.namespaces {
            // The namespace of an earlier run may still exist or be terminating. `kubectl delete` waits until
            // the namespace is deleted, so the following `create` succeeds.
            self.kubectl.run(&["delete", "namespace", namespace, "--ignore-not-found"])?;
            self.kubectl.run(&["create", "namespace", namespace])?;
            self.kubectl.run(&["create", "rolebinding", operator.role, "-n", namespace, &role, &account])?;
        }
        Ok(())
    }

    /// Runs an operator with two kubeconfigs. The operator's own requests use its service account. Requests
    /// that the example sends in the role of a user, such as the creation of objects, use the administrator.
    /// Returns the exit status and the last lines of the output. The status is `None` if the operator exceeds
    /// the time limit and is killed.
    fn start(&self, operator: &Operator, limit: Duration) -> Result<(Option<ExitStatus>, String), String> {
        let config = self.kubectl.config_of(operator.role, NAMESPACE, self.config)?;
        let output = self.config.with_file_name(format!("{}.log", operator.name));
        let create = || File::create(&output).map_err(|error| format!("cannot create its log: {error}"));
        let mut command = Command::new(target(self.root).join("debug/examples").join(operator.name));
        command.env("KUBECONFIG", self.config).env("OPERATOR_KUBECONFIG", config);
        command.stdin(Stdio::null()).stdout(create()?).stderr(Stdio::from(create()?));
        let mut running = Running(command.spawn().map_err(|error| format!("cannot start it: {error}"))?);
        let status = Deadline::after(limit).poll(|| running.0.try_wait().ok().flatten());
        Ok((status, last_lines(&output, 40)))
    }

    fn granted(&self, operator: &Operator) -> Result<BTreeSet<Permission>, String> {
        let role = self.kubectl.get("clusterrole", operator.role)?;
        let texts = |rule: &Value, name: &str| -> Vec<String> {
            let items = rule[name].as_array().into_iter().flatten();
            items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
        };
        let mut granted = BTreeSet::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    for verb in texts(rule, "verbs") {
                        granted.insert(Permission { group: group.clone(), resource: resource.clone(), verb });
                    }
                }
            }
        }
        Ok(granted)
    }

    /// Checks that kube-controller-manager has scaled the Deployment that `sample_controller` creates, and
    /// has garbage-collected its pods and ReplicaSets.
    fn controllers_have_worked(&self) -> Result<(), String> {
        let events = self.kubectl.run(&["get", "events", "-n", "default", "-o", "json"])?;
        for scaled in ["from 0 to 2", "from 2 to 3"] {
            if !events.contains(scaled) {
                return Err(format!(
                    "no event of a controller reports that the deployment was scaled {scaled}"
                ));
            }
        }
        let left = || {
            let left = self.kubectl.run(&[
                "get",
                "pods,replicasets",
                "-n",
                "default",
                "-l",
                "website",
                "-o",
                "name",
            ]);
            left.is_ok_and(|left| left.trim().is_empty()).then_some(())
        };
        Deadline::after(COLLECTED_WITHIN)
            .poll(left)
            .ok_or_else(|| "pods or replica sets of the website were not garbage-collected".to_owned())
    }
}

/// Parses a line of an operator's output, which has the form `STEP after SECONDS s`. Returns the step and the
/// seconds; `None` for a line of another form.
fn told_seconds(line: &str) -> Option<(&str, f64)> {
    let (what, seconds) = line.strip_suffix(" s")?.rsplit_once(" after ")?;
    Some((what, seconds.parse().ok()?))
}
