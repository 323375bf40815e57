//! Compares the validation of built-in kinds: sends generated objects, most of them invalid, to the embedded
//! and the real API server, and compares the verdicts.
//!
//! Each object is a valid object of `validation/kinds.yaml` with one or two changes. Half of them are
//! created, the others replace the valid object. All requests are dry runs, so objects do not depend on each
//! other.

mod compare;
mod generate;
mod send;
mod values;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use futures_util::{StreamExt, TryStreamExt};
use informer_schema::{KindSchema, Resource, Schema};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use thiserror::Error;

use crate::target::{SendError, Target};
pub use compare::{Comparison, KindFigures, Mismatch, Verdict};
use generate::Change;
use send::{Connection, Response};

/// The number of generated objects whose requests are in flight.
const PARALLEL: usize = 6;

const KINDS: &str = include_str!("../validation/kinds.yaml");

/// The error of a comparison that could not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ValidationError {
    /// A server did not respond.
    #[error("send a {kind} to the {server} server")]
    Send {
        /// The kind of the object.
        kind: String,
        /// `embedded` or `real`.
        server: &'static str,
        /// The error of the request.
        source: SendError,
    },
    /// The file with the kinds is invalid, or a server has rejected one of its objects.
    #[error("{kind} of validation/kinds.yaml: {problem}")]
    Base {
        /// The kind of the object.
        kind: String,
        /// The reason.
        problem: String,
    },
}

/// One kind with its valid object.
struct Subject {
    kind: KindSchema<'static>,
    base: Value,
    path: String,
    /// The valid object as the embedded and the real server have stored it.
    stored: [Value; 2],
}

impl Subject {
    fn new(schema: &'static Schema, base: Value) -> Result<Self, ValidationError> {
        let text = |name: &str| base[name].as_str().unwrap_or_default().to_owned();
        let (api_version, name) = (text("apiVersion"), text("kind"));
        let unknown =
            |problem: &str| ValidationError::Base { kind: name.clone(), problem: problem.to_owned() };
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = schema.kind(&informer_core::Gvk::new(group, version, &name));
        let kind = kind.ok_or_else(|| unknown("the kind is unknown"))?;
        let resource = kind.resource().ok_or_else(|| unknown("the kind has no resource"))?;
        Ok(Self { kind, base, path: path(resource), stored: Default::default() })
    }

    fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Creates the valid object and its namespace, and returns the object as the server has stored it.
    async fn create(&self, connection: &mut Connection<'_>) -> Result<Value, ValidationError> {
        if let Some(namespace) = namespace_of(&self.path) {
            let namespace = json!({"metadata": {"name": namespace}});
            self.send(connection, "POST", "/api/v1/namespaces", &namespace).await?;
        }
        let created = self.send(connection, "POST", &self.path, &self.base).await?;
        match created.status {
            200..300 => Ok(created.body),
            _ => Err(ValidationError::Base { kind: self.name().to_owned(), problem: created.to_string() }),
        }
    }

    async fn send(
        &self,
        connection: &mut Connection<'_>,
        method: &str,
        path: &str,
        object: &Value,
    ) -> Result<Response, ValidationError> {
        let server = connection.server();
        let sent = connection.send(method, path, object).await;
        sent.map_err(|source| ValidationError::Send { kind: self.name().to_owned(), server, source })
    }

    /// Generates the object with this seed, sends it to both servers, and compares the responses.
    async fn compare(
        &self,
        seed: u64,
        connections: &mut [Connection<'_>; 2],
    ) -> Result<Comparison, ValidationError> {
        let request = self.generate(seed);
        let [embedded, real] = connections;
        let embedded = self.send(embedded, request.method, &request.path, &request.object(self, 0)).await?;
        let real = self.send(real, request.method, &request.path, &request.object(self, 1)).await?;
        Ok(Comparison::new(self.name(), seed, request.method, request.changes, real, embedded))
    }

    fn generate(&self, seed: u64) -> Generated {
        let mut rng = StdRng::seed_from_u64(seed);
        let replaces = seed % 2 == 1;
        let changes = generate::changes(self.kind, &self.base, replaces, &mut rng);
        let (method, path) = if replaces {
            ("PUT", format!("{}/base?dryRun=All", self.path))
        } else {
            ("POST", format!("{}?dryRun=All", self.path))
        };
        Generated { method, path, replaces, changes }
    }
}

/// A request with a changed object.
struct Generated {
    method: &'static str,
    path: String,
    replaces: bool,
    changes: Vec<Change>,
}

impl Generated {
    /// Returns the object for one of the servers: the valid object, or the stored one, with the changes.
    fn object(&self, subject: &Subject, server: usize) -> Value {
        let mut object = if self.replaces { subject.stored[server].clone() } else { subject.base.clone() };
        if !self.replaces {
            object["metadata"]["name"] = "created".into();
        }
        self.changes.iter().for_each(|change| change.apply(&mut object));
        object
    }
}

fn path(resource: Resource<'_>) -> String {
    let prefix = match (resource.group(), resource.version()) {
        ("", version) => format!("/api/{version}"),
        (group, version) => format!("/apis/{group}/{version}"),
    };
    let plural = resource.plural();
    if resource.is_namespaced() {
        // Each kind has its own namespace, because objects such as quotas affect those of other kinds.
        format!("{prefix}/namespaces/validation-{plural}/{plural}")
    } else {
        format!("{prefix}/{plural}")
    }
}

fn namespace_of(path: &str) -> Option<&str> {
    path.split_once("/namespaces/")?.1.split('/').next().filter(|_| path.contains("/namespaces/validation-"))
}

fn subjects() -> Result<Vec<Subject>, ValidationError> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(Schema::builtin_served);
    let bases: Vec<Value> = serde_norway::from_str(KINDS)
        .map_err(|error| ValidationError::Base { kind: "a kind".to_owned(), problem: error.to_string() })?;
    bases.into_iter().map(|base| Subject::new(&SCHEMA, base)).collect()
}

/// Sends the objects of recorded verdicts to the embedded server. Returns a description of each response that
/// differs from the recorded one of the real server.
///
/// # Errors
///
/// When the server does not respond, or rejects one of the valid objects.
pub async fn check_recorded_validation(
    recorded: &BTreeMap<String, Vec<Verdict>>,
) -> Result<Vec<String>, ValidationError> {
    let embedded = Target::embedded();
    let mut differences = Vec::new();
    for mut subject in subjects()? {
        let mut connection = Connection::new(&embedded);
        subject.stored[0] = subject.create(&mut connection).await?;
        for verdict in recorded.get(subject.name()).into_iter().flatten() {
            let request = subject.generate(verdict.seed);
            let object = request.object(&subject, 0);
            let response = subject.send(&mut connection, request.method, &request.path, &object).await?;
            let message = response.to_string();
            let found = Verdict::new(verdict.seed, response);
            if found != *verdict {
                differences.push(format!(
                    "{} seed {}: {}: recorded {verdict:?}, received {message}",
                    subject.name(),
                    verdict.seed,
                    describe(&request.changes)
                ));
            }
        }
    }
    Ok(differences)
}

/// Sends `count` generated objects of each kind whose name contains `filter` to both servers. The seeds are
/// consecutive and start with `first`.
///
/// # Errors
///
/// When a server does not respond, or rejects one of the valid objects.
pub async fn compare_validation(
    real: &Target,
    filter: &str,
    first: u64,
    count: u64,
) -> Result<BTreeMap<&'static str, KindFigures>, ValidationError> {
    let embedded = Target::embedded();
    let mut figures = BTreeMap::new();
    for mut subject in subjects()? {
        if !subject.name().contains(filter) {
            continue;
        }
        subject.stored = [
            subject.create(&mut Connection::new(&embedded)).await?,
            subject.create(&mut Connection::new(real)).await?,
        ];
        let of_kind = figures.entry(subject.name()).or_insert_with(KindFigures::default);
        let size = count.div_ceil(PARALLEL as u64);
        let batches = (0..PARALLEL as u64).map(|batch| {
            let (subject, embedded) = (&subject, &embedded);
            async move {
                let mut connections = [Connection::new(embedded), Connection::new(real)];
                let mut compared = Vec::new();
                for seed in (batch * size)..((batch + 1) * size).min(count) {
                    compared.push(subject.compare(first + seed, &mut connections).await?);
                }
                Ok::<_, ValidationError>(compared)
            }
        });
        let mut batches = futures_util::stream::iter(batches).buffered(PARALLEL);
        while let Some(compared) = batches.try_next().await? {
            compared.into_iter().for_each(|comparison| of_kind.add(comparison));
        }
    }
    Ok(figures)
}

/// Describes changes for people: one per line.
fn describe(changes: &[Change]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
