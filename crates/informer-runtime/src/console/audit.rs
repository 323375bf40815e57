//! Records the actions of the console as Kubernetes Events.
//!
//! # Invariants
//!
//! Recording neither waits nor fails: the [`EventRecorder`] has a bounded buffer, and sends its Events in a
//! task of the manager. It logs an Event that the API server rejects.

use super::ConsoleData;
use super::actions::Action;
use crate::{EventRecorder, EventSubject, EventType};

/// The reporting controller of the Events.
pub(crate) const REPORTER: &str = "informer-console";

/// Records each action with its user and its result.
pub(crate) struct ActionAudit {
    recorder: EventRecorder,
    /// The Pod of this process, if the environment names it.
    pod: Option<EventSubject>,
    /// The namespace of the program.
    namespace: String,
}

impl ActionAudit {
    pub(crate) fn new(recorder: EventRecorder, namespace: &str) -> Self {
        let pod = pod(|name| std::env::var(name).ok(), namespace);
        Self { recorder, pod, namespace: namespace.to_owned() }
    }

    /// Records an action. `result` is its message, or the problem for which it failed.
    pub(super) fn record(
        &self,
        data: &ConsoleData,
        (action, user): (&Action, Option<&str>),
        result: Result<&str, &str>,
    ) {
        let kind = action.kind();
        let user =
            user.map_or_else(|| "a user without authentication".to_owned(), |user| format!("user {user}"));
        let (event_type, note) = match result {
            Ok(message) => (EventType::Normal, format!("{} by {user}: {message}", kind.name())),
            Err(problem) => (EventType::Warning, format!("{} by {user} failed: {problem}", kind.name())),
        };
        let regarding = action.object(data).unwrap_or_else(|| self.program(data));
        self.recorder.record_distinct(event_type, regarding, kind.reason(), note);
    }

    /// Returns the object that represents the program: its Pod, else the Lease of its leader election, else
    /// its namespace.
    fn program(&self, data: &ConsoleData) -> EventSubject {
        let election = || data.instrumentation().election_lease();
        self.pod.clone().or_else(election).unwrap_or_else(|| {
            // The API server accepts an Event only in the namespace of its object, and one without a
            // namespace only in `default`. There the program may have no permission.
            EventSubject::new("v1", "Namespace", &self.namespace, &self.namespace)
        })
    }
}

/// Returns the Pod of this process from the variables that the downward API usually sets.
fn pod(variable: impl Fn(&str) -> Option<String>, namespace: &str) -> Option<EventSubject> {
    let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
    let namespace = variable("POD_NAMESPACE").unwrap_or_else(|| namespace.to_owned());
    let pod = EventSubject::new("v1", "Pod", &namespace, &variable("POD_NAME")?);
    Some(EventSubject { uid: variable("POD_UID").unwrap_or_default(), ..pod })
}

#[cfg(test)]
mod tests {
    use super::pod;

    #[test]
    fn pod_is_known_from_the_variables_of_the_downward_api() {
        let all = [("POD_NAME", "web-0"), ("POD_NAMESPACE", "shop"), ("POD_UID", "1-2")];
        let of = |set: &[(&str, &str)]| {
            let set = set.to_vec();
            pod(
                move |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()),
                "a",
            )
        };
        let known = of(&all).expect("a Pod");
        assert_eq!((known.to_string().as_str(), known.uid()), ("Pod shop/web-0", "1-2"));
        let named = of(&all[..1]).expect("a Pod");
        assert_eq!((named.to_string().as_str(), named.uid()), ("Pod a/web-0", ""));
        assert_eq!(of(&[("POD_NAME", ""), ("POD_NAMESPACE", "shop")]), None);
    }
}
