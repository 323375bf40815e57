use std::time::Duration;

use serde::Deserialize;

use crate::faults::{FaultAction, FaultFile};
use crate::http::Frontend;
use crate::model::error::ApiError;

/// Maximum number of active fault rules for which an action adds further ones. Each request is matched
/// against all rules.
const MAX_RULES: usize = 1_000;

/// Maximum of the elapsed time of the clock after an action has moved it: ten years.
const MAX_ELAPSED: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// An action of a user of the web UI, as JSON with the name of the action in the field `action`.
///
/// Variants without fields have braces, because serde ignores unknown fields of other ones.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Action {
    /// Adds the fault rules of a text in the format of `informer serve --faults`.
    AddFaults {
        rules: String,
    },
    RemoveFault {
        number: u64,
    },
    RemoveAllFaults {},
    /// Injects a fault into the open watch that the request with this number has started.
    Inject {
        watch: u64,
        fault: FaultAction,
    },
    EndWatches {},
    Rewind {
        version: u64,
    },
    Compact {},
    Advance {
        seconds: u64,
    },
}

impl Action {
    pub(super) fn parse(body: &[u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(body)
            .map_err(|error| ApiError::bad_request(format!("cannot read the action: {error}")))
    }

    /// Executes the action. Returns a sentence about the result for the user.
    pub(super) fn run(self, shared: &Frontend) -> Result<String, ApiError> {
        match self {
            Self::AddFaults { rules } => add_faults(shared, &rules),
            Self::RemoveFault { number } if shared.faults.remove(number) => {
                Ok(format!("Removed the fault rule {number}."))
            }
            Self::RemoveFault { number } => {
                Err(ApiError::bad_request(format!("cannot remove fault rule {number}: it is not active")))
            }
            Self::RemoveAllFaults {} => {
                shared.faults.clear();
                Ok("Removed all fault rules.".to_owned())
            }
            Self::Inject { watch, fault } => {
                match shared.faults.inject_into_open_watches(|request| request.number == watch, &fault) {
                    0 => Err(ApiError::bad_request(format!(
                        "cannot inject the fault into watch {watch}: the watch has ended, or the fault does not \
                         apply to an open watch"
                    ))),
                    _ => Ok(format!("Injected the fault into watch {watch}.")),
                }
            }
            Self::EndWatches {} => {
                shared.end_watches();
                Ok("Ended all watches.".to_owned())
            }
            Self::Rewind { version } => match shared.rewind(version) {
                Ok(()) => Ok(format!("Restored the objects at resourceVersion {version}.")),
                Err(old) => Err(ApiError::bad_request(format!(
                    "cannot rewind to resourceVersion {version}: the history begins at {}",
                    old.floor
                ))),
            },
            Self::Compact {} => {
                shared.compact();
                Ok("Discarded the event history.".to_owned())
            }
            Self::Advance { seconds } => {
                let by = Duration::from_secs(seconds);
                if shared.clock.elapsed().saturating_add(by) > MAX_ELAPSED {
                    return Err(ApiError::bad_request(format!(
                        "cannot move the clock by {seconds} s: it may show at most {} s after the start of the server",
                        MAX_ELAPSED.as_secs()
                    )));
                }
                shared.advance(by);
                Ok(format!("Moved the clock {seconds} s forward."))
            }
        }
    }
}

fn add_faults(shared: &Frontend, rules: &str) -> Result<String, ApiError> {
    let file = FaultFile::parse(rules).map_err(|error| {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        ApiError::bad_request(format!("{error}{}", source.unwrap_or_default()))
    })?;
    let (active, new) = (shared.faults.active().len(), file.faults.len());
    if active + new > MAX_RULES {
        return Err(ApiError::bad_request(format!(
            "cannot add {new} fault rules: {active} are active, and at most {MAX_RULES} are allowed; remove some"
        )));
    }
    shared.faults.add_all(file);
    Ok(format!("Added {new} fault rule{}.", if new == 1 { "" } else { "s" }))
}
