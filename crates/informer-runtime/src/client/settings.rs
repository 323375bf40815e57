use std::fmt;
use std::sync::Arc;

use super::operation::{Operation, OperationVerb};
use super::{CachedClient, Intercept, WriteError};
use crate::BoxError;

/// The longest field owner that the API server accepts, in bytes.
pub(crate) const MAX_FIELD_OWNER_BYTES: usize = 128;

#[derive(Clone)]
pub(super) struct ClientSettings {
    pub(super) dry_run: bool,
    /// Whether a server-side apply is sent with `force=true`. With `None`, only the client of a controller
    /// forces.
    pub(super) force: Option<bool>,
    /// The field owner that the program has set; `None` if the name in `default_owner` is used.
    pub(super) field_owner: Option<Arc<str>>,
    pub(super) default_owner: DefaultOwner,
    pub(super) field_validation: Option<FieldValidation>,
    pub(super) namespace: Option<Arc<str>>,
    pub(super) skip_unchanged_applies: bool,
    /// The interceptors, in the order in which they were added. The interceptor that was added last is called
    /// first.
    pub(super) interceptors: Vec<Arc<dyn Intercept>>,
    pub(super) fences: Vec<Arc<dyn Fn() -> Result<(), BoxError> + Send + Sync>>,
    /// The counts of the controller's writes that the console shows; `None` outside of controllers.
    #[cfg(feature = "console")]
    pub(super) writes: Option<Arc<super::writes::WriteCounts>>,
}

/// The field owner of a client for which the program has set none.
#[derive(Clone)]
pub(super) enum DefaultOwner {
    /// The name of the program: the field owner of a client that does not belong to a controller. Its
    /// server-side applies fail on a conflict with another field owner.
    Program(Arc<str>),
    /// The name of the controller: the field owner of a client that belongs to a controller. Its server-side
    /// applies are sent with `force=true` and take over fields of other owners.
    Controller(Arc<str>),
}

impl DefaultOwner {
    fn name(&self) -> &str {
        match self {
            Self::Program(name) | Self::Controller(name) => name,
        }
    }

    fn forces(&self) -> bool {
        matches!(self, Self::Controller(_))
    }
}

/// Returns the reason for which the API server would reject a field owner; `None` if the field owner is
/// valid.
pub(crate) fn field_owner_problem(owner: &str) -> Option<&'static str> {
    match owner {
        "" => Some("is empty"),
        owner if owner.len() > MAX_FIELD_OWNER_BYTES => Some("is longer than 128 bytes"),
        owner if !owner.chars().all(is_printable) => Some("has non-printable characters"),
        _ => None,
    }
}

/// Returns true for a character that a field owner may contain. The API server accepts letters, marks,
/// numbers, punctuation, symbols and the ASCII space. This check also accepts unassigned characters and some
/// format characters, which the server rejects.
fn is_printable(char: char) -> bool {
    char == ' ' || !(char.is_control() || char.is_whitespace())
}

/// The way in which the API server treats fields of a written object that the schema of its kind does not
/// have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// The server drops fields that the schema of the kind does not have.
    Ignore,
    /// The server drops fields that the schema of the kind does not have, and returns a warning. This is the
    /// server's default.
    Warn,
    /// The server rejects an object with fields that the schema of its kind does not have.
    Strict,
}

impl FieldValidation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

impl CachedClient {
    pub(super) fn with(&self, change: impl FnOnce(&mut ClientSettings)) -> Self {
        let mut settings = ClientSettings::clone(&self.settings);
        change(&mut settings);
        Self { shared: Arc::clone(&self.shared), settings: Arc::new(settings) }
    }

    /// Returns a client for dry runs: the server validates and admits its writes, but does not store them.
    pub fn dry_run(&self) -> Self {
        self.with(|settings| settings.dry_run = true)
    }

    /// Returns a client whose writes own their fields under this name (query parameter `fieldManager`).
    ///
    /// By default, the client of a [controller](crate::Context) uses the name of the controller, and any
    /// other client uses the [name of the program](informer_client::program_name).
    ///
    /// A valid field owner has 1 to 128 bytes of printable characters. Writes of a client with an invalid
    /// field owner fail with [`WriteError::FieldOwner`], and no request is sent.
    pub fn field_owner(&self, owner: impl Into<Arc<str>>) -> Self {
        self.with(|settings| settings.field_owner = Some(owner.into()))
    }

    /// Returns a client that takes over fields of other owners when it [applies](Self::apply), instead of
    /// failing with a conflict.
    ///
    /// The client of a [controller](crate::Context) forces by default, so that it restores fields that it
    /// owns after another field manager changed them.
    pub fn force(&self) -> Self {
        self.with(|settings| settings.force = Some(true))
    }

    /// Returns a client that fails with a [conflict](WriteError::is_conflict) when it [applies](Self::apply)
    /// a different value to a field that another field manager owns. This is the default outside of
    /// controllers.
    pub fn without_force(&self) -> Self {
        self.with(|settings| settings.force = Some(false))
    }

    /// Returns the client of a controller, whose name is the default field owner. Settings that the program
    /// has made on this client stay in effect.
    pub(crate) fn of_controller(&self, name: &str) -> Self {
        self.with(|settings| settings.default_owner = DefaultOwner::Controller(name.into()))
    }

    /// Returns a client whose writes are counted for the console.
    #[cfg(feature = "console")]
    pub(crate) fn counting_writes(&self, counts: Arc<super::writes::WriteCounts>) -> Self {
        self.with(|settings| settings.writes = Some(counts))
    }

    /// Returns a client whose writes tell the server how to treat unknown fields. This does not affect
    /// [`apply`](Self::apply), for which the server always rejects unknown fields.
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|settings| settings.field_validation = Some(validation))
    }

    /// Returns a client of one namespace. The namespace is added to objects and keys without a namespace;
    /// those with another namespace are rejected. Cluster-scoped kinds are not affected.
    pub fn in_namespace(&self, namespace: impl Into<Arc<str>>) -> Self {
        self.with(|settings| settings.namespace = Some(namespace.into()))
    }

    /// Returns a client that calls `fence` immediately before each write, and does not send the write if
    /// `fence` fails, for programs that may write only while they hold a lease. Reads are not affected.
    pub fn fenced(&self, fence: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.fences.push(Arc::new(fence)))
    }

    /// Returns a client whose operations pass through `interceptor` first, for tests and cross-cutting
    /// concerns.
    pub fn intercept(&self, interceptor: impl Intercept) -> Self {
        self.with(|settings| settings.interceptors.push(Arc::new(interceptor)))
    }
}

impl ClientSettings {
    pub(super) fn new() -> Self {
        Self {
            dry_run: false,
            force: None,
            field_owner: None,
            default_owner: DefaultOwner::Program(informer_client::program_name().into()),
            field_validation: None,
            namespace: None,
            skip_unchanged_applies: false,
            interceptors: Vec::new(),
            fences: Vec::new(),
            #[cfg(feature = "console")]
            writes: None,
        }
    }

    pub(super) fn check_field_owner(&self, operation: &Operation) -> Result<(), WriteError> {
        let Some(owner) = self.field_owner.as_deref().filter(|_| operation.verb.writes_fields()) else {
            return Ok(());
        };
        match field_owner_problem(owner) {
            None => Ok(()),
            Some(problem) => Err(WriteError::FieldOwner {
                attempt: operation.to_string(),
                owner: owner.to_owned(),
                problem,
            }),
        }
    }

    /// Returns the namespace of a request: `requested`, or the namespace of this client if `requested` is
    /// unset. Returns `None` for a cluster-scoped kind.
    ///
    /// # Errors
    ///
    /// Returns an error if both namespaces are set and differ.
    pub(super) fn namespace_of(
        &self,
        operation: &Operation,
        requested: Option<&str>,
    ) -> Result<Option<String>, WriteError> {
        if operation.kind.is_cluster_scoped() {
            return Ok(None);
        }
        let requested = requested.filter(|namespace| !namespace.is_empty());
        match (requested, self.namespace.as_deref()) {
            (Some(requested), Some(own)) if requested != own => Err(WriteError::OtherNamespace {
                attempt: operation.to_string(),
                requested: requested.to_owned(),
                own: own.to_owned(),
            }),
            (requested, own) => Ok(requested.or(own).map(str::to_owned)),
        }
    }

    /// Returns the field owner of writes.
    pub(super) fn owner(&self) -> &str {
        self.field_owner.as_deref().unwrap_or(self.default_owner.name())
    }

    pub(super) fn parameters(&self, verb: &OperationVerb) -> Vec<(&'static str, String)> {
        let mut parameters = Vec::new();
        if !verb.is_write() {
            return parameters;
        }
        if self.dry_run {
            parameters.push(("dryRun", "All".to_owned()));
        }
        let applies = *verb == OperationVerb::Apply;
        if verb.writes_fields() {
            parameters.push(("fieldManager", self.owner().to_owned()));
        }
        if applies && self.force.unwrap_or(self.default_owner.forces()) {
            parameters.push(("force", "true".to_owned()));
        }
        if let Some(validation) = self.field_validation.filter(|_| verb.writes_fields() && !applies) {
            parameters.push(("fieldValidation", validation.as_str().to_owned()));
        }
        parameters
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings")
            .field("dry_run", &self.dry_run)
            .field("field_owner", &self.field_owner)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
