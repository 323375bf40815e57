//! The descriptor of a built-in kind: its rules, table cells and hooks.

use std::fmt;

use serde_json::Value;

use crate::model::json::Object;
use crate::model::kinds::Traits;
use crate::model::rules::Rules;
use crate::model::rules::checks::{Check, NameFormat};
use crate::model::table::TableRow;
use crate::model::user::User;
use crate::model::write_options::WriteMode;

/// The properties of a built-in kind that the schema table does not contain.
///
/// Each kind has a static of this type in `kinds/<group>/<kind>.rs`, or in `kinds/<group>.rs` if it has no
/// rules. [`super::registry`] lists them. Objects of a kind without a descriptor are stored without
/// defaulting or validation.
pub(crate) struct KindDescriptor {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) traits: Traits,
    /// Fields that field selectors of this kind support, in addition to `metadata.name` and
    /// `metadata.namespace`.
    pub(crate) selectable: &'static [&'static str],
    /// Deprecated field names in field selectors, each with the field that replaces it.
    pub(crate) field_aliases: &'static [(&'static str, &'static str)],
    /// The JSON members that follow `metadata` in the object of a bookmark event of this kind, such as
    /// `,"spec":{}`.
    pub(crate) bookmark: &'static str,
    pub(crate) deprecated: Option<&'static str>,
    /// The format of names. Without a format, a name must only be a segment of a URL path, which is checked
    /// if the object is valid otherwise.
    pub(crate) name_format: Option<NameFormat>,
    /// The JSON of the status of a new object, for kinds with a `/status` subresource.
    pub(crate) initial_status: &'static str,
    /// The fields that the server sets in a write to the main resource, so that no field manager owns them.
    /// If the list is empty, this is the status of kinds with a `/status` subresource.
    pub(crate) reset_fields: &'static [&'static str],
    /// The fields that the server takes from the stored object on an update of `/status`.
    pub(crate) status_reset_fields: &'static [&'static str],
    /// The subresources whose updates have their own rules.
    pub(crate) subresources: &'static [SubresourceStrategy],
    /// The field with a list that is stored as `null` if it is empty.
    pub(crate) null_list: Option<&'static str>,
    /// The path of the pod or pod template in objects of this kind.
    pub(crate) pod_template: Option<&'static [&'static str]>,
    /// The group and version in which objects are stored, if it differs from that of this kind.
    pub(crate) stored_as: Option<(&'static str, &'static str)>,
    /// Defaults and validation. Without rules, objects are stored as the client sent them, and not in the
    /// form that Go encodes.
    pub(crate) rules: Option<Rules>,
    /// Returns the table cells of an object, for the columns in the schema table. Without this function a
    /// table has the columns `Name` and `Created At`.
    pub(crate) cells: Option<fn(&TableRow<'_>) -> Vec<Value>>,
    pub(crate) hooks: Hooks,
}

/// The rules of updates through a subresource, if they are not those that most kinds have for `/status`. This
/// is an update strategy of kube-apiserver.
pub(crate) struct SubresourceStrategy {
    pub(crate) mode: WriteMode,
    /// Replaces all fields that the subresource does not change by those of the stored object, which is the
    /// first argument. The last argument is the time. This is the counterpart of `PrepareForUpdate`.
    pub(crate) prepare: fn(&Value, &mut Value, &str),
    /// Validation of the prepared object, and of its changes.
    pub(crate) checks: &'static [Check],
    /// The fields that the server sets, so that no field manager owns them.
    pub(crate) reset_fields: &'static [&'static str],
}

type WarningHook = fn(&Value, Option<&Value>) -> Vec<String>;

/// Kind-specific functions, in the order in which a write calls them. Kinds without special behavior have
/// none.
#[derive(Clone, Copy)]
pub(crate) struct Hooks {
    pub(crate) after_decode: Option<fn(&mut Object)>,
    /// Changes an object after it was converted to the form that Go encodes.
    pub(crate) after_normalization: Option<fn(&mut Object)>,
    /// Sets the spec and the status of a new object, instead of using `initial_status`.
    pub(crate) initialize: Option<fn(&mut Object)>,
    /// Records the user who creates an object.
    pub(crate) set_requester: Option<fn(&mut Value, &User)>,
    /// Applies admission plugins to an object that the embedding program loads.
    pub(crate) admit_loaded: Option<fn(&mut Value)>,
    /// Copies fields that an update cannot change from the stored object. Runs before the validation.
    pub(crate) carry_over: Option<fn(&Object, &mut Object, WriteMode)>,
    /// Applies the admission plugins that change updated objects. The first argument is the stored object.
    pub(crate) admit_update: Option<fn(&Value, &mut Value)>,
    /// Sets the fields of a new object that depend on its content, its UID and the time.
    pub(crate) prepare_for_create: Option<fn(&mut Value, &str, WriteMode)>,
    /// Sets the fields of an updated object that depend on its difference to the stored object.
    pub(crate) prepare_for_update: Option<fn(&Value, &mut Value)>,
    /// Returns the warnings for a valid object. The second argument is the stored object if the write is an
    /// update.
    pub(crate) warnings: Option<WarningHook>,
    pub(crate) status_warnings: Option<fn(&Value) -> Vec<String>>,
    pub(crate) conversion: Option<fn(&mut Object)>,
    pub(crate) before_store: Option<fn(&mut Object)>,
}

impl Hooks {
    const NONE: Self = Self {
        after_decode: None,
        after_normalization: None,
        initialize: None,
        set_requester: None,
        admit_loaded: None,
        carry_over: None,
        admit_update: None,
        prepare_for_create: None,
        prepare_for_update: None,
        warnings: None,
        status_warnings: None,
        conversion: None,
        before_store: None,
    };
}

/// The descriptor of built-in kinds without special behavior.
pub(crate) static PLAIN: KindDescriptor = KindDescriptor::new("", "", "", Traits::NONE);
pub(crate) static CUSTOM: KindDescriptor =
    KindDescriptor::new("", "", "", Traits::CUSTOM).status_reset_fields(&["metadata", "spec"]);

impl KindDescriptor {
    pub(crate) const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        traits: Traits,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            traits,
            selectable: &[],
            field_aliases: &[],
            bookmark: "",
            deprecated: None,
            name_format: Some(NameFormat::Subdomain),
            initial_status: "{}",
            reset_fields: &[],
            status_reset_fields: &["spec"],
            subresources: &[],
            null_list: None,
            pod_template: None,
            stored_as: None,
            rules: None,
            cells: None,
            hooks: Hooks::NONE,
        }
    }

    pub(crate) const fn with_traits(mut self, traits: Traits) -> Self {
        self.traits = self.traits.with(traits);
        self
    }

    pub(crate) const fn selectable(mut self, selectable: &'static [&'static str]) -> Self {
        self.selectable = selectable;
        self
    }

    pub(crate) const fn field_aliases(
        mut self,
        field_aliases: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.field_aliases = field_aliases;
        self
    }

    pub(crate) const fn bookmark(mut self, bookmark: &'static str) -> Self {
        self.bookmark = bookmark;
        self
    }

    pub(crate) const fn deprecated(mut self, deprecated: &'static str) -> Self {
        self.deprecated = Some(deprecated);
        self
    }

    pub(crate) const fn name_format(mut self, name_format: Option<NameFormat>) -> Self {
        self.name_format = name_format;
        self
    }

    pub(crate) const fn initial_status(mut self, initial_status: &'static str) -> Self {
        self.initial_status = initial_status;
        self
    }

    pub(crate) const fn status_reset_fields(mut self, status_reset_fields: &'static [&'static str]) -> Self {
        self.status_reset_fields = status_reset_fields;
        self
    }

    pub(crate) const fn reset_fields(mut self, reset_fields: &'static [&'static str]) -> Self {
        self.reset_fields = reset_fields;
        self
    }

    pub(crate) const fn subresources(mut self, subresources: &'static [SubresourceStrategy]) -> Self {
        self.subresources = subresources;
        self
    }

    pub(crate) const fn null_list(mut self, null_list: &'static str) -> Self {
        self.null_list = Some(null_list);
        self
    }

    pub(crate) const fn pod_template(mut self, pod_template: &'static [&'static str]) -> Self {
        self.pod_template = Some(pod_template);
        self
    }

    pub(crate) const fn rules(mut self, rules: Rules) -> Self {
        self.rules = Some(rules);
        self
    }

    pub(crate) const fn cells(mut self, cells: fn(&TableRow<'_>) -> Vec<Value>) -> Self {
        self.cells = Some(cells);
        self
    }

    pub(crate) const fn stored_as(mut self, group: &'static str, version: &'static str) -> Self {
        self.stored_as = Some((group, version));
        self
    }

    pub(crate) const fn after_decode(mut self, hook: fn(&mut Object)) -> Self {
        self.hooks.after_decode = Some(hook);
        self
    }

    pub(crate) const fn after_normalization(mut self, hook: fn(&mut Object)) -> Self {
        self.hooks.after_normalization = Some(hook);
        self
    }

    pub(crate) const fn initialize(mut self, hook: fn(&mut Object)) -> Self {
        self.hooks.initialize = Some(hook);
        self
    }

    pub(crate) const fn set_requester(mut self, hook: fn(&mut Value, &User)) -> Self {
        self.hooks.set_requester = Some(hook);
        self
    }

    pub(crate) const fn admit_loaded(mut self, hook: fn(&mut Value)) -> Self {
        self.hooks.admit_loaded = Some(hook);
        self
    }

    pub(crate) const fn carry_over(mut self, hook: fn(&Object, &mut Object, WriteMode)) -> Self {
        self.hooks.carry_over = Some(hook);
        self
    }

    pub(crate) const fn admit_update(mut self, hook: fn(&Value, &mut Value)) -> Self {
        self.hooks.admit_update = Some(hook);
        self
    }

    pub(crate) const fn prepare_for_create(mut self, hook: fn(&mut Value, &str, WriteMode)) -> Self {
        self.hooks.prepare_for_create = Some(hook);
        self
    }

    pub(crate) const fn prepare_for_update(mut self, hook: fn(&Value, &mut Value)) -> Self {
        self.hooks.prepare_for_update = Some(hook);
        self
    }

    pub(crate) const fn warnings(mut self, hook: WarningHook) -> Self {
        self.hooks.warnings = Some(hook);
        self
    }

    pub(crate) const fn status_warnings(mut self, hook: fn(&Value) -> Vec<String>) -> Self {
        self.hooks.status_warnings = Some(hook);
        self
    }

    pub(crate) const fn conversion(mut self, hook: fn(&mut Object)) -> Self {
        self.hooks.conversion = Some(hook);
        self
    }

    pub(crate) const fn before_store(mut self, hook: fn(&mut Object)) -> Self {
        self.hooks.before_store = Some(hook);
        self
    }
}

impl fmt::Debug for KindDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.group, self.version, self.kind)
    }
}
