//! The schema of a custom resource: defaulting, pruning and validation of objects, with CEL rules and their
//! cost.

#[cfg(feature = "cel")]
pub(crate) mod costs;
mod defaulting;
pub(crate) mod embedded;
pub(crate) mod formats;
pub(crate) mod keywords;
mod list_type;
pub(crate) mod pruning;
mod ratchet;
pub(crate) mod rules;
mod scale;
pub(crate) mod validate;

#[cfg(feature = "cel")]
pub(crate) use costs::cost_of_expression;
pub(crate) use formats::unrecognized_formats;
pub(crate) use scale::ScalePaths;

use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};

use crate::model::cause::Cause;
use crate::model::rules::as_value;
use crate::model::write_options::WriteMode;
use rules::CompiledRules;

/// Maximum number of regular expressions that are compiled for one schema, as a limit for hostile schemas.
const MAX_PATTERNS: usize = 1000;

/// The schema of one CRD version, with its compiled patterns and CEL rules.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Value,
    patterns: HashMap<String, Regex>,
    rules: CompiledRules,
}

impl Schema {
    /// Compiles a schema. A `pattern` that the regex engine does not support matches every string.
    pub(crate) fn new(root: Value) -> Self {
        let mut patterns = HashMap::new();
        collect_patterns(&root, &mut patterns);
        Self { rules: CompiledRules::new(&root), root, patterns }
    }

    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// Decodes the object of a request: drops unknown fields and invalid nulls, and applies the defaults.
    /// Returns the paths of the unknown fields in order.
    ///
    /// # Errors
    ///
    /// Returns Go's message for metadata of a wrong type.
    pub(crate) fn decode(
        &self,
        kinds: &informer_schema::Schema,
        object: &mut Map<String, Value>,
    ) -> Result<Vec<String>, String> {
        let meta = embedded::type_of(kinds);
        let mut unknown = Vec::new();
        if let (Some(meta), Some(metadata)) =
            (meta, object.get_mut("metadata").and_then(Value::as_object_mut))
        {
            // An empty list of managed fields resets them, so they are kept as they are.
            let managed = metadata.remove("managedFields");
            let dropped = embedded::decode(meta, metadata)?;
            unknown.extend(dropped.iter().map(|name| format!("metadata.{name}")));
            metadata.extend(managed.map(|managed| ("managedFields".to_owned(), managed)));
        }
        unknown.extend(pruning::prune(&self.root, object));
        pruning::prune_nulls(&self.root, object);
        if let Some(meta) = meta {
            unknown.extend(embedded::coerce(meta, &self.root, object)?);
        }
        defaulting::apply(&self.root, object);
        Ok(unknown)
    }

    /// Decodes the result of a server-side apply like [`decode`](Self::decode), but keeps nulls, which
    /// validation then rejects, and metadata of a wrong type.
    pub(crate) fn decode_applied(&self, object: &mut Map<String, Value>) -> Vec<String> {
        let unknown = pruning::prune(&self.root, object);
        defaulting::apply(&self.root, object);
        unknown
    }

    /// Reads a stored object: drops the fields that the schema no longer contains, and applies the defaults.
    pub(crate) fn read(&self, object: &mut Map<String, Value>) {
        self.prune(object);
        defaulting::apply(&self.root, object);
    }

    pub(crate) fn fill(&self, object: &mut Map<String, Value>) {
        defaulting::apply(&self.root, object);
    }

    /// Drops unknown fields and invalid nulls without a default.
    pub(crate) fn prune(&self, object: &mut Map<String, Value>) {
        pruning::prune(&self.root, object);
        pruning::prune_nulls(&self.root, object);
    }

    /// Validates a custom resource. Errors of parts that an update leaves unchanged are dropped.
    ///
    /// Also returns warnings about failed rules of unchanged parts.
    pub(crate) fn check(
        &self,
        object: &mut Map<String, Value>,
        old: Option<&Value>,
        (mode, scale): (WriteMode, Option<&ScalePaths>),
    ) -> (Vec<Cause>, Vec<String>) {
        as_value(object, |object| self.check_value(object, old, (mode, scale)))
    }

    fn check_value(
        &self,
        object: &Value,
        old: Option<&Value>,
        (mode, scale): (WriteMode, Option<&ScalePaths>),
    ) -> (Vec<Cause>, Vec<String>) {
        let mut warnings = Vec::new();
        let mut causes = match mode {
            WriteMode::Status => self.check_status(object, old),
            _ => validate::validate(self, object, old),
        };
        if let Some(scale) = scale {
            if mode != WriteMode::Status {
                causes.extend(scale::check_spec(scale, object));
            }
            causes.extend(scale::check_status(scale, object));
        }
        if mode != WriteMode::Status {
            causes.extend(embedded::validate(&self.root, object, ""));
        }
        // The items of a list stay valid if they were invalid before.
        if old.is_none_or(|old| list_type::validate(&self.root, old).is_empty()) {
            causes.extend(list_type::validate(&self.root, object));
        }
        let is_blocking = |cause: &Cause| {
            matches!(
                cause.reason,
                "FieldValueRequired"
                    | "FieldValueTypeInvalid"
                    | "FieldValueNotSupported"
                    | "FieldValueTooLong"
                    | "FieldValueTooMany"
            )
        };
        match (causes.iter().any(is_blocking), self.rules.is_empty()) {
            (true, false) => causes.push(Cause {
                reason: "FieldValueInvalid",
                message:
                    "Invalid value: null: some validation rules were not checked because the object was \
                          invalid; correct the existing errors to complete validation"
                        .to_owned(),
                field: validate::NO_PATH.to_owned(),
            }),
            (false, false) => {
                let is_unchanged =
                    |path: &str| old.is_some_and(|old| ratchet::is_unchanged(&self.root, old, object, path));
                for (cause, ratchets) in self.rules.check(object, old) {
                    if ratchets && is_unchanged(&cause.field) {
                        warnings.push(format!("{}: {}", cause.field, cause.message));
                    } else {
                        causes.push(cause);
                    }
                }
            }
            _ => {}
        }
        (causes, warnings)
    }

    /// Validates the status of an update of `/status`. As in kube-apiserver, the messages contain paths that
    /// are relative to the status.
    fn check_status(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let (Some(status), Some(schema)) = (object.get("status"), self.root["properties"].get("status"))
        else {
            return Vec::new();
        };
        let old = old.and_then(|old| old.get("status"));
        validate::prefix("status", validate::validate_part(self, schema, status, old)).collect()
    }
}

fn collect_patterns(schema: &Value, patterns: &mut HashMap<String, Regex>) {
    if patterns.len() >= MAX_PATTERNS {
        return;
    }
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(pattern)) = members.get("pattern")
                && let Ok(regex) = crate::model::re2::compile(pattern)
            {
                patterns.insert(pattern.clone(), regex);
            }
            members.values().for_each(|member| collect_patterns(member, patterns));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_patterns(item, patterns)),
        _ => {}
    }
}
