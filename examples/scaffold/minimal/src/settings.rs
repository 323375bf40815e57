//! The settings of the program. A flag has precedence over its environment variable, the
//! variable over the file of `--config`, and the file over the default.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::Value;

#[derive(Debug, Parser)]
#[command(version, about = "Runs the operator minimal")]
pub struct Settings {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// A YAML file with values for the other flags, for example `log: debug`.
    #[arg(long, env = "CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address of /healthz, /readyz and /livez.
    #[arg(long, env = "HEALTH_ADDRESS", default_value = "0.0.0.0:8081")]
    pub health_address: String,
    /// The address of /metrics.
    #[arg(long, env = "METRICS_ADDRESS", default_value = "0.0.0.0:8080")]
    pub metrics_address: String,
    /// The log filter: a level, or levels by module, for example `info,informer=debug`.
    #[arg(long, env = "RUST_LOG", default_value = "info")]
    pub log: String,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the CustomResourceDefinitions as YAML.
    Crds,
}

impl Settings {
    /// Reads the settings of this process. Exits the process at `--help` and at a usage error.
    ///
    /// # Errors
    ///
    /// If the file of `--config` cannot be read, or has an unknown setting.
    pub fn read() -> Result<Self, Box<dyn Error>> {
        Self::from_arguments(std::env::args_os().collect())
    }

    fn from_arguments(arguments: Vec<OsString>) -> Result<Self, Box<dyn Error>> {
        let mut command = Self::command();
        let file = command
            .clone()
            .ignore_errors(true)
            .get_matches_from(&arguments);
        if let Some(path) = file.get_one::<PathBuf>("config") {
            for (name, value) in read_file(path)? {
                let id = name.replace('-', "_");
                if command.get_arguments().all(|known| *known.get_id() != id) {
                    let path = path.display();
                    return Err(format!("read {path}: unknown setting {name}; see --help").into());
                }
                command = command.mut_arg(id, |argument| argument.default_value(value));
            }
        }
        Ok(Self::from_arg_matches(
            &command.get_matches_from(arguments),
        )?)
    }
}

/// Reads a YAML file of settings. Returns the name of each setting, and its value as a
/// string in the format of the flag with this name.
fn read_file(path: &Path) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let failed = |error: &dyn Error| format!("read {}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let values: BTreeMap<String, Value> =
        serde_norway::from_str(&text).map_err(|error| failed(&error))?;
    let text_of = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(values
        .into_iter()
        .map(|(name, value)| (name, text_of(value)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(file: &str, arguments: &[&str]) -> Result<Settings, Box<dyn Error>> {
        let name = format!("minimal-{}-{}.yaml", std::process::id(), file.len());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, file)?;
        let flag = format!("--config={}", path.display());
        let given = ["minimal", &flag];
        let arguments = given.into_iter().chain(arguments.iter().copied());
        let settings = Settings::from_arguments(arguments.map(OsString::from).collect());
        fs::remove_file(path)?;
        settings
    }

    #[test]
    fn flag_has_precedence_over_the_file_and_the_file_over_the_default() {
        let file = "health-address: 127.0.0.1:1\nmetrics-address: 127.0.0.1:2\n";
        let settings = settings(file, &["--metrics-address=127.0.0.1:3"]).expect("valid settings");
        assert_eq!(settings.health_address, "127.0.0.1:1");
        assert_eq!(settings.metrics_address, "127.0.0.1:3");
    }

    #[test]
    fn unknown_setting_in_the_file_is_rejected() {
        let error = settings("health-adress: 127.0.0.1:1", &[]).expect_err("a typing error");
        assert!(
            error.to_string().contains("unknown setting health-adress"),
            "{error}"
        );
    }
}
