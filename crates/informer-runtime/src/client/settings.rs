use std::fmt;
use std::sync::Arc;

use super::operation::{Operation, OperationVerb};
use super::{Client, Intercept, WriteError};
use crate::BoxError;

/// Who applied fields belong to, unless the client says otherwise.
const FIELD_OWNER: &str = "informer";

/// What a client does with everything that it sends.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) dry_run: bool,
    pub(super) force: bool,
    pub(super) field_owner: Option<Arc<str>>,
    pub(super) field_validation: Option<FieldValidation>,
    pub(super) namespace: Option<Arc<str>>,
    /// The last one is asked first.
    pub(super) interceptors: Vec<Arc<dyn Intercept>>,
    /// All of them have to let a write pass.
    pub(super) fences: Vec<Arc<dyn Fn() -> Result<(), BoxError> + Send + Sync>>,
}

/// What a server does about fields that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// It drops them.
    Ignore,
    /// It drops them and warns: what it does if nothing is said.
    Warn,
    /// It refuses the object.
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

impl Client {
    pub(super) fn with(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::clone(&self.settings);
        change(&mut settings);
        Self { shared: Arc::clone(&self.shared), settings: Arc::new(settings) }
    }

    /// A client whose writes the server checks, admits and answers, and does not store.
    pub fn dry_run(&self) -> Self {
        self.with(|settings| settings.dry_run = true)
    }

    /// A client whose writes own their fields under this name. `informer` by default for [`apply`](Self::apply), and what the
    /// server makes of the User-Agent for other writes.
    pub fn field_owner(&self, owner: impl Into<Arc<str>>) -> Self {
        self.with(|settings| settings.field_owner = Some(owner.into()))
    }

    /// A client that takes over the fields of others when it applies, in place of a conflict: what controllers should do with
    /// what they own.
    pub fn force(&self) -> Self {
        self.with(|settings| settings.force = true)
    }

    /// A client whose writes say what the server does about fields that it does not know. Nothing of
    /// [`apply`](Self::apply), which always refuses them.
    pub fn field_validation(&self, validation: FieldValidation) -> Self {
        self.with(|settings| settings.field_validation = Some(validation))
    }

    /// A client of one namespace: objects and keys without a namespace get it, and those of another one are refused. Kinds without
    /// namespaces pass as they are.
    pub fn in_namespace(&self, namespace: impl Into<Arc<str>>) -> Self {
        self.with(|settings| settings.namespace = Some(namespace.into()))
    }

    /// A client that asks `fence` before each write is sent, after everything else, and does not send it where that fails: for those who may
    /// write only while they hold a lease. Reads pass.
    pub fn fenced(&self, fence: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.fences.push(Arc::new(fence)))
    }

    /// A client whose operations pass through `interceptor` first, for tests and for what concerns every request.
    pub fn intercept(&self, interceptor: impl Intercept) -> Self {
        self.with(|settings| settings.interceptors.push(Arc::new(interceptor)))
    }
}

impl Settings {
    /// The namespace that is meant where `asked` is.
    pub(super) fn namespace_of(
        &self,
        operation: &Operation,
        asked: Option<&str>,
    ) -> Result<Option<String>, WriteError> {
        if operation.kind.is_cluster_scoped() {
            return Ok(None);
        }
        let asked = asked.filter(|namespace| !namespace.is_empty());
        match (asked, self.namespace.as_deref()) {
            (Some(asked), Some(own)) if asked != own => Err(WriteError::OtherNamespace {
                attempt: operation.to_string(),
                asked: asked.to_owned(),
                own: own.to_owned(),
            }),
            (asked, own) => Ok(asked.or(own).map(str::to_owned)),
        }
    }

    /// The parameters of the query that these settings add.
    pub(super) fn parameters(&self, verb: &OperationVerb) -> Vec<(&'static str, String)> {
        let mut parameters = Vec::new();
        if !verb.is_write() {
            return parameters;
        }
        if self.dry_run {
            parameters.push(("dryRun", "All".to_owned()));
        }
        let applies = *verb == OperationVerb::Apply;
        if verb.writes_fields()
            && let Some(owner) = self.field_owner.as_deref().or(applies.then_some(FIELD_OWNER))
        {
            parameters.push(("fieldManager", owner.to_owned()));
        }
        if applies && self.force {
            parameters.push(("force", "true".to_owned()));
        }
        if let Some(validation) = self.field_validation.filter(|_| verb.writes_fields() && !applies) {
            parameters.push(("fieldValidation", validation.as_str().to_owned()));
        }
        parameters
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("dry_run", &self.dry_run)
            .field("field_owner", &self.field_owner)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
