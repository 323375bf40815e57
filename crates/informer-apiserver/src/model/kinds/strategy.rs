//! The stages of a write whose behavior depends on the kind. Each function calls a hook in the kind's
//! descriptor.

use informer_schema::{Message, Shape};
use serde_json::{Map, Value};

use crate::model::cause::{Cause, Causes};
use crate::model::json::Object;
use crate::model::kinds::core::pod::disabled_fields::drop_disabled_fields;
use crate::model::kinds::core::pod::validation;
use crate::model::kinds::descriptor::SubresourceStrategy;
use crate::model::kinds::{KindDefinition, Traits};
use crate::model::rules::checks::FieldView;
use crate::model::rules::path::each_mut;
use crate::model::rules::{Rules, as_value, checks, get, with_value};
use crate::model::write_options::WriteMode;

impl SubresourceStrategy {
    pub(crate) fn check(&self, object: &mut Object, old: &Value) -> Vec<Cause> {
        as_value(object, |object| {
            let mut causes = Causes::default();
            checks::run(&FieldView::root(object, Some(old)), self.checks, &mut causes);
            causes.into_vec()
        })
    }
}

impl KindDefinition {
    pub(crate) fn rules(&self) -> Option<&'static Rules> {
        self.descriptor.rules.as_ref()
    }

    pub(crate) fn fill_defaults(&self, message: Message<'_>, object: &mut Object) {
        let Some(rules) = self.rules() else { return };
        // In the Go types these fields are structs and not pointers, so they exist even if the client omits
        // them.
        for name in ["spec", "roleRef"] {
            let member = message.field(name).is_some_and(|field| field.shape() == Shape::Value);
            if member && object.get(name).is_none_or(Value::is_null) {
                object.insert(name.to_owned(), Value::Object(Map::new()));
            }
        }
        rules.fill(object);
    }

    /// Adds the initial status of the kind to a new object. Fields of a status that the object already has
    /// take precedence.
    pub(crate) fn fill_status(&self, object: &mut Object) {
        if !self.traits.has(Traits::STATUS) || self.is_custom() {
            return;
        }
        let mut status: Object = serde_json::from_str(self.descriptor.initial_status)
            .expect("the initial statuses of this crate are JSON objects");
        if let Some(Value::Object(given)) = object.remove("status") {
            status.extend(given);
        }
        object.insert("status".into(), status.into());
    }

    pub(crate) fn admit_loaded(&self, object: &mut Object) {
        if let Some(admit) = self.descriptor.hooks.admit_loaded {
            with_value(object, admit);
        }
    }

    pub(crate) fn carry_over(&self, old: &Object, object: &mut Object, mode: WriteMode) {
        if let Some(carry_over) = self.descriptor.hooks.carry_over {
            carry_over(old, object, mode);
        }
    }

    pub(crate) fn admit_update(&self, old: &Value, object: &mut Object, mode: WriteMode) {
        if mode != WriteMode::Whole {
            self.drop_disabled_fields(object, Some(old));
        }
        if let Some(admit) = self.descriptor.hooks.admit_update {
            with_value(object, |object| admit(old, object));
        }
    }

    /// Returns the rules of a write to a subresource that has its own; `None` for all other writes.
    pub(crate) fn subresource_strategy(&self, mode: WriteMode) -> Option<&'static SubresourceStrategy> {
        self.descriptor.subresources.iter().find(|strategy| strategy.mode == mode)
    }

    pub(crate) fn prepare_subresource(
        &self,
        strategy: &SubresourceStrategy,
        (old, object): (&Value, &mut Object),
        now: &str,
    ) {
        with_value(object, |object| (strategy.prepare)(old, object, now));
        self.drop_disabled_fields(object, Some(old));
    }

    /// The counterpart of `PrepareForCreate` in kube-apiserver.
    pub(crate) fn prepare_for_create(&self, object: &mut Object, now: &str, mode: WriteMode) {
        // Manifests that the embedding program loads may come from clusters with other feature gates.
        if mode != WriteMode::Whole {
            self.drop_disabled_fields(object, None);
        }
        if let Some(prepare) = self.descriptor.hooks.prepare_for_create {
            with_value(object, |object| prepare(object, now, mode));
        }
        self.encode_empty_list_as_null(object);
    }

    /// The counterpart of `PrepareForUpdate` in kube-apiserver.
    pub(crate) fn prepare_for_update(&self, old: &Value, object: &mut Object) {
        if let Some(prepare) = self.descriptor.hooks.prepare_for_update {
            with_value(object, |object| prepare(old, object));
        }
        self.encode_empty_list_as_null(object);
    }

    /// Drops the fields of a pod or pod template that are disabled by default.
    fn drop_disabled_fields(&self, object: &mut Object, old: Option<&Value>) {
        let Some(template) = self.descriptor.pod_template else { return };
        let path: Vec<&str> = template.iter().copied().chain(["spec"]).collect();
        let path = path.join(".");
        with_value(object, |object| {
            let old = old.and_then(|old| get(old, &path));
            each_mut(object, &path, &mut |spec| drop_disabled_fields(spec, old));
        });
    }

    /// Validates the fields of a new pod or pod template that depend on feature gates.
    pub(crate) fn check_disabled_fields(&self, object: &mut Object) -> Vec<Cause> {
        let Some(template) = self.descriptor.pod_template else { return Vec::new() };
        let path = template.iter().copied().chain(["spec"]).collect::<Vec<&str>>().join(".");
        as_value(object, |object| {
            let mut causes = Causes::default();
            let whole = FieldView::root(object, None);
            validation::check_disabled_fields(&whole.part(&path), &mut causes);
            causes.into_vec()
        })
    }

    fn encode_empty_list_as_null(&self, object: &mut Object) {
        if let Some(list) = self.descriptor.null_list
            && checks::is_missing(object.get(list))
        {
            object.insert(list.to_owned(), Value::Null);
        }
    }

    /// Returns the warnings for a write. `old` is the stored object if the write is an update.
    pub(crate) fn warnings(&self, object: &Value, old: Option<&Value>, mode: WriteMode) -> Vec<String> {
        let hooks = &self.descriptor.hooks;
        match mode {
            WriteMode::Main => hooks.warnings.map(|warnings| warnings(object, old)).unwrap_or_default(),
            WriteMode::Status => hooks.status_warnings.map(|warnings| warnings(object)).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}
