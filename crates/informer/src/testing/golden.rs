//! Golden files, which contain the expected objects of tests.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::serde::Serialize;
use serde_json::{Map, Value};

use super::fields::{is_time, path_segments, remove_path};
use super::files::{read_text, write_text};

/// The name of the environment variable that makes [`assert_golden`] write the files instead of comparing
/// them. Any value enables it.
pub const GOLDEN_VARIABLE: &str = "UPDATE_GOLDEN";

/// The maximum number of diff lines in the error for an object that differs from its golden file.
const MAX_DIFF_LINES: usize = 200;

/// The names of fields whose values the server chooses. They are left out of golden files, because each test
/// run has other values.
const VOLATILE: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink"];

/// Top-level fields that contain the desired state or the data of an object. Golden files contain all fields
/// below them, even those with the name of a field that the server chooses elsewhere.
const DESIRED: [&str; 4] = ["spec", "data", "stringData", "binaryData"];

/// Compares an object with the YAML file at a path, relative to the folder of the package.
///
/// The environment variable [`UPDATE_GOLDEN`](GOLDEN_VARIABLE) writes the file instead. [`Golden`] has
/// options, and describes the fields that are left out.
///
/// ```no_run
/// use informer::testing::assert_golden;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # fn config_map_for(_: &str) -> ConfigMap { ConfigMap::default() }
///
/// assert_golden("tests/golden/config_map.yaml", &config_map_for("shop"));
/// ```
///
/// # Panics
///
/// Panics if the file is missing, or differs from the object. The message has the different lines.
#[track_caller]
pub fn assert_golden<T: Serialize>(path: impl Into<PathBuf>, object: &T) {
    Golden::new(path).assert(object);
}

/// A golden file: the expected YAML of an object or of a list of objects.
///
/// These fields are left out, because the server chooses them: `uid`, `resourceVersion`, `managedFields`,
/// `selfLink`, `creationTimestamp`, `deletionTimestamp`, and other fields whose name ends in `Time` or
/// `Timestamp` and whose value is a time. In `spec` and in the data of ConfigMaps and Secrets, nothing is
/// left out. Fields are sorted by name.
///
/// ```
/// use informer::testing::Golden;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # let folder = std::env::temp_dir().join(format!("informer-golden-{}", std::process::id()));
/// # let path = folder.join("settings.yaml");
/// let mut settings = ConfigMap::default();
/// settings.metadata.name = Some("settings".to_owned());
/// settings.metadata.uid = Some("ca3b5b8f-6b3c-4b6e-9d8c-000000000001".to_owned());
/// Golden::new(&path).update(true).assert(&settings);
/// assert_eq!(
///     std::fs::read_to_string(&path)?,
///     "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n"
/// );
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "call `assert` or `check`"]
pub struct Golden {
    path: PathBuf,
    ignored: Vec<Vec<String>>,
    update: bool,
}

/// The error of comparing an object with a golden file.
#[derive(Debug)]
#[non_exhaustive]
pub enum GoldenError {
    /// The golden file could not be read or written.
    Io {
        /// The failed operation on the file: `read` or `write`.
        operation: &'static str,
        /// The path of the golden file.
        path: PathBuf,
        /// The error that the file system returned.
        source: io::Error,
    },
    /// The object could not be encoded as YAML for the golden file with this path.
    Encode(PathBuf, Box<dyn Error + Send + Sync>),
    /// The golden file does not exist, and was not written.
    Missing(PathBuf),
    /// The object differs from the golden file.
    Different {
        /// The path of the golden file.
        path: PathBuf,
        /// The different lines as a unified diff: `-` is a line of the golden file, `+` one of the object.
        diff: String,
    },
}

impl Golden {
    /// Returns the golden file at a path, relative to the folder of the package. If the environment variable
    /// [`UPDATE_GOLDEN`](GOLDEN_VARIABLE) is set, [`check`](Self::check) and [`assert`](Self::assert) write
    /// the file and do not compare it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let update = std::env::var_os(GOLDEN_VARIABLE).is_some();
        Self { path: path.into(), ignored: Vec::new(), update }
    }

    /// Leaves a field of the object out of the golden file, for example `status.lastSync` or
    /// `metadata.annotations[example.com/checked]`. In lists, it is left out of each item, and the path has
    /// no index: `spec.containers.image`.
    pub fn ignore(mut self, path: &str) -> Self {
        self.ignored.push(path_segments(path));
        self
    }

    /// Sets whether [`check`](Self::check) and [`assert`](Self::assert) write the golden file and do not
    /// compare it. This overrides the environment variable.
    pub fn update(mut self, update: bool) -> Self {
        self.update = update;
        self
    }

    /// Compares an object, or a list of objects, with the golden file. If updates are enabled, writes the
    /// object to the file if it differs.
    ///
    /// # Errors
    ///
    /// Returns an error if the golden file is missing or differs, if it cannot be read or written, or if the
    /// object cannot be encoded as YAML.
    pub fn check<T: Serialize>(&self, object: &T) -> Result<(), GoldenError> {
        let actual = self.encode(object)?;
        let failed = |operation, source| GoldenError::Io { operation, path: self.path.clone(), source };
        let expected = read_text(&self.path).map_err(|error| failed("read", error))?;
        match expected {
            Some(expected) if expected == actual => Ok(()),
            _ if self.update => write_text(&self.path, &actual).map_err(|error| failed("write", error)),
            Some(expected) => {
                let diff = difference(&expected, &actual);
                Err(GoldenError::Different { path: self.path.clone(), diff })
            }
            None => Err(GoldenError::Missing(self.path.clone())),
        }
    }

    /// Compares an object, or a list of objects, with the golden file. If updates are enabled, writes the
    /// object to the file if it differs.
    ///
    /// # Panics
    ///
    /// Panics if [`check`](Self::check) returns an error.
    #[track_caller]
    pub fn assert<T: Serialize>(&self, object: &T) {
        if let Err(error) = self.check(object) {
            match error.source() {
                Some(cause) => panic!("{error}: {cause}"),
                None => panic!("{error}"),
            }
        }
    }

    fn encode<T: Serialize>(&self, object: &T) -> Result<String, GoldenError> {
        let failed = |error: Box<dyn Error + Send + Sync>| GoldenError::Encode(self.path.clone(), error);
        let mut value = serde_json::to_value(object).map_err(|error| failed(error.into()))?;
        self.ignored.iter().for_each(|path| remove_path(&mut value, path));
        let stable = match value {
            Value::Array(objects) => Value::Array(objects.into_iter().map(stable_object).collect()),
            object => stable_object(object),
        };
        serde_norway::to_string(&stable).map_err(|error| failed(error.into()))
    }
}

fn stable_object(object: Value) -> Value {
    let Value::Object(fields) = object else { return object };
    let fields = fields.into_iter().map(|(name, value)| {
        let value = if DESIRED.contains(&&*name) { sorted(value) } else { stable(value) };
        (name, value)
    });
    sorted_map(fields)
}

/// Removes the fields whose values the server chooses, such as `uid` and times, from a JSON value, and sorts
/// the other fields by name.
fn stable(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(stable).collect()),
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, value)| !is_volatile_field(name, value));
            sorted_map(kept.map(|(name, value)| (name, stable(value))))
        }
        value => value,
    }
}

fn is_volatile_field(name: &str, value: &Value) -> bool {
    let names_time = name.ends_with("Time") || name.ends_with("Timestamp");
    VOLATILE.contains(&name) || (names_time && value.as_str().is_some_and(is_time))
}

/// Sorts the fields of all objects in a JSON value by name, so that golden files have a fixed order.
/// Otherwise their order would depend on the features of `serde_json`, which any crate of a program may
/// enable.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Object(fields) => sorted_map(fields.into_iter().map(|(name, value)| (name, sorted(value)))),
        value => value,
    }
}

fn sorted_map(fields: impl Iterator<Item = (String, Value)>) -> Value {
    let mut fields: Vec<(String, Value)> = fields.collect();
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    Value::Object(Map::from_iter(fields))
}

/// Returns the differences between the content of the golden file and the encoded object as a unified diff.
/// The header of the diff is removed, because it contains no file names, and the diff has at most
/// [`MAX_DIFF_LINES`] lines.
fn difference(old: &str, new: &str) -> String {
    let patch = diffy::create_patch(old, new).to_string();
    let lines: Vec<&str> = patch.lines().skip_while(|line| !line.starts_with("@@")).collect();
    match lines.len().checked_sub(MAX_DIFF_LINES) {
        None | Some(0) => lines.join("\n"),
        Some(more) => format!("{}\n... {more} more lines", lines[..MAX_DIFF_LINES].join("\n")),
    }
}

impl fmt::Display for GoldenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = |f: &mut fmt::Formatter<'_>, path: &Path, problem: &str| {
            write!(
                f,
                "compare an object with {}: {problem}; set {GOLDEN_VARIABLE}=1 to write the file",
                path.display()
            )
        };
        match self {
            Self::Io { operation, path, .. } => write!(f, "{operation} {}", path.display()),
            Self::Encode(path, _) => write!(f, "encode an object as YAML for {}", path.display()),
            Self::Missing(path) => remedy(f, path, "the file does not exist"),
            Self::Different { path, diff } => {
                remedy(f, path, "the object differs (-: file, +: object)")?;
                write!(f, "\n{diff}")
            }
        }
    }
}

impl Error for GoldenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Encode(_, error) => Some(&**error),
            Self::Missing(_) | Self::Different { .. } => None,
        }
    }
}
