use crate::schema::kind::Message;
use crate::schema::resource::Names;
use crate::schema::{MessageId, Schema};

/// The cardinality of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// One value. An absent value and a zero value (`""`, `0`, `false`) are the same.
    Value,
    /// An optional value. An absent value and a zero value differ.
    Pointer,
    /// An ordered list of values.
    List,
    /// A map from strings to values.
    Map,
}

/// The type of a field's value, or of each value of a list or map.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum BaseType<'s> {
    /// A string.
    String,
    /// `true` or `false`.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A 64-bit floating point number.
    Double,
    /// Bytes; base64 in JSON.
    Bytes,
    /// A timestamp with seconds.
    Time,
    /// A timestamp with microseconds.
    MicroTime,
    /// A duration such as `1h30m0s`.
    Duration,
    /// A quantity such as `250Mi`.
    Quantity,
    /// An integer or a string.
    IntOrString,
    /// An object of any kind (Go type `RawExtension`).
    RawExtension,
    /// The `FieldsV1` of managed fields.
    FieldsV1,
    /// Any JSON value.
    Json,
    /// A list of strings that protobuf encodes as a message of its own (Go type `ExtraValue`, for example).
    Strings,
    /// A `JSONSchemaProps` or a list of them (Go type `JSONSchemaPropsOrArray`).
    SchemaOrArray,
    /// A `JSONSchemaProps` or a boolean (Go type `JSONSchemaPropsOrBool`).
    SchemaOrBool,
    /// A `JSONSchemaProps` or a list of strings (Go type `JSONSchemaPropsOrStringArray`).
    SchemaOrStrings,
    /// A struct with the fields of this message type.
    Message(Message<'s>),
}

/// How server-side apply merges a list (`x-kubernetes-list-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListType {
    /// The list is replaced as a whole.
    Atomic,
    /// The values of the list are unique. The list is the union of the values that all field managers
    /// applied.
    Set,
    /// Entries are identified by their [keys](Field::list_map_keys).
    Map,
}

/// How a strategic merge patch merges a field. `merge` and `retain_keys` may both be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PatchStrategy {
    /// Lists are merged instead of being replaced.
    pub merge: bool,
    /// The patch may contain `$retainKeys` with the keys to keep.
    pub retain_keys: bool,
    /// Objects and lists are replaced as a whole.
    pub replace: bool,
}

/// The encoding of a value. For a message, it contains the index of the message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    String,
    Bool,
    Int32,
    Int64,
    Double,
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    Raw,
    Fields,
    Json,
    Any,
    Strings(MessageId),
    SchemaOrArray(MessageId),
    SchemaOrBool(MessageId),
    SchemaOrStrings(MessageId),
    Message(MessageId),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) omit_empty: bool,
    pub(crate) omit_zero: bool,
    pub(crate) inline: bool,
    pub(crate) required: bool,
}

impl Flags {
    pub(crate) fn parse(letters: &str) -> Self {
        let has = |letter| letters.contains(letter);
        Self { omit_empty: has('e'), omit_zero: has('z'), inline: has('i'), required: has('r') }
    }
}

impl Base {
    /// Returns true if values of this type are structs in Go, which `omitempty` never omits from JSON.
    fn is_struct(self) -> bool {
        !matches!(
            self,
            Self::String
                | Self::Bool
                | Self::Int32
                | Self::Int64
                | Self::Double
                | Self::Bytes
                | Self::Strings(_)
        )
    }

    pub(crate) fn is_quiet(self, shape: Shape, flags: Flags) -> bool {
        let never_empty = shape == Shape::Value && self.is_struct();
        flags.omit_empty && !never_empty || flags.omit_zero && matches!(self, Self::Time | Self::MicroTime)
    }
}

#[derive(Debug)]
pub(crate) struct FieldData {
    pub(crate) name: &'static str,
    /// The protobuf field number; 0 if protobuf does not contain the field.
    pub(crate) number: u8,
    pub(crate) shape: Shape,
    pub(crate) base: Base,
    pub(crate) flags: Flags,
    /// True if JSON omits the field when protobuf does not contain it.
    pub(crate) quiet: bool,
    /// The index, plus 1, of the rare attributes of the field in the `extras` of its [`Schema`]. 0 if the
    /// field has no such attributes: nine of ten fields have none, so `FieldData` stays small.
    pub(crate) extra: u16,
}

#[derive(Debug, Default)]
pub(crate) struct Extra {
    list: Option<ListType>,
    /// The keys by which server-side apply matches list entries, separated by commas.
    keys: Option<&'static str>,
    merge: Option<&'static str>,
    strategy: PatchStrategy,
    atomic: bool,
    enums: Option<&'static str>,
    default: Option<&'static str>,
    since: Option<&'static str>,
}

impl Extra {
    /// Parses the `key=value` pairs with which the line of a field ends in the schema table. Tabs separate
    /// the pairs.
    pub(crate) fn parse(text: &'static str) -> Self {
        let mut extra = Self::default();
        for (key, value) in text.split('\t').filter_map(|pair| pair.split_once('=')) {
            match key {
                "list" => extra.list = Some(ListType::parse(value)),
                "keys" => extra.keys = Some(value),
                "merge" => extra.merge = Some(value),
                "strategy" => extra.strategy = PatchStrategy::parse(value),
                "map" => extra.atomic = value == "atomic",
                "enum" => extra.enums = Some(value),
                "default" => extra.default = Some(value),
                "since" => extra.since = Some(value),
                _ => {}
            }
        }
        extra
    }
}

impl ListType {
    fn parse(word: &str) -> Self {
        match word {
            "set" => Self::Set,
            "map" => Self::Map,
            _ => Self::Atomic,
        }
    }
}

impl PatchStrategy {
    fn parse(words: &str) -> Self {
        let mut strategy = Self::default();
        for word in words.split(',') {
            match word {
                "merge" => strategy.merge = true,
                "retainKeys" => strategy.retain_keys = true,
                "replace" => strategy.replace = true,
                _ => {}
            }
        }
        strategy
    }
}

/// One field of a [`Message`].
#[derive(Clone, Copy)]
pub struct Field<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) data: &'s FieldData,
}

impl<'s> Field<'s> {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        self.data.name
    }

    /// Returns the protobuf field number; `None` if the field exists only in JSON (`apiVersion`, `kind`,
    /// tables).
    pub fn number(self) -> Option<u32> {
        (self.data.number > 0).then_some(u32::from(self.data.number))
    }

    /// Returns the cardinality.
    pub fn shape(self) -> Shape {
        self.data.shape
    }

    /// Returns the type of the field's value, or of each value of a list or map.
    pub fn base(self) -> BaseType<'s> {
        match self.data.base {
            Base::String => BaseType::String,
            Base::Bool => BaseType::Bool,
            Base::Int32 => BaseType::Int32,
            Base::Int64 => BaseType::Int64,
            Base::Double => BaseType::Double,
            Base::Bytes => BaseType::Bytes,
            Base::Time => BaseType::Time,
            Base::MicroTime => BaseType::MicroTime,
            Base::Duration => BaseType::Duration,
            Base::Quantity => BaseType::Quantity,
            Base::IntOrString => BaseType::IntOrString,
            Base::Raw => BaseType::RawExtension,
            Base::Fields => BaseType::FieldsV1,
            Base::Json | Base::Any => BaseType::Json,
            Base::Strings(_) => BaseType::Strings,
            Base::SchemaOrArray(_) => BaseType::SchemaOrArray,
            Base::SchemaOrBool(_) => BaseType::SchemaOrBool,
            Base::SchemaOrStrings(_) => BaseType::SchemaOrStrings,
            Base::Message(id) => BaseType::Message(self.schema.message_at(id)),
        }
    }

    /// Returns the message type of the field's values, if they are messages.
    pub fn message(self) -> Option<Message<'s>> {
        self.schema.message_of(self.data.base)
    }

    /// Returns true if JSON omits the field when it is empty.
    pub fn omits_empty(self) -> bool {
        self.data.flags.omit_empty
    }

    /// Returns true if JSON always contains the field. An absent value is then written as zero or `null`.
    pub fn is_always_written(self) -> bool {
        !self.data.quiet
    }

    /// Returns true if the OpenAPI schema that servers publish lists the field as required.
    pub fn is_required(self) -> bool {
        self.data.flags.required
    }

    fn extra(self) -> Option<&'s Extra> {
        self.schema.extras.get(usize::from(self.data.extra).checked_sub(1)?)
    }

    /// Returns how a strategic merge patch merges the field.
    pub fn patch_strategy(self) -> PatchStrategy {
        self.extra().map_or_else(PatchStrategy::default, |extra| extra.strategy)
    }

    /// Returns the key by which a strategic merge patch matches the entries of a list.
    pub fn merge_key(self) -> Option<&'static str> {
        self.extra()?.merge
    }

    /// Returns how server-side apply merges this list; `None` means that the list is treated as atomic.
    pub fn list_type(self) -> Option<ListType> {
        self.extra()?.list
    }

    /// Returns the keys by which server-side apply matches the entries of a list.
    pub fn list_map_keys(self) -> Names {
        Names::new(self.extra().and_then(|extra| extra.keys).unwrap_or("-"))
    }

    /// Returns true if server-side apply replaces this object or map as a whole.
    pub fn is_atomic(self) -> bool {
        self.extra().is_some_and(|extra| extra.atomic) || self.message().is_some_and(Message::is_atomic)
    }

    /// Returns the allowed values (`enum`) of the field, if the OpenAPI schema of the server contains them.
    pub fn enum_values(self) -> Option<Names> {
        self.extra()?.enums.map(Names::new)
    }

    /// Returns the default of the field as JSON, if the OpenAPI schema of the server contains a default that
    /// is not the zero value.
    pub fn default_json(self) -> Option<&'static str> {
        self.extra()?.default
    }

    /// Returns the first Kubernetes release that has the field, such as `1.37`; `None` if the server of
    /// [`Schema::server_version`] has it.
    pub fn since(self) -> Option<&'static str> {
        self.extra()?.since
    }
}

impl std::fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Field({} {:?})", self.data.name, self.data.shape)
    }
}
