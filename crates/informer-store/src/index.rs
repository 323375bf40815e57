//! Index functions, which compute the values under which an object is indexed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informer_core::{FieldPath, KeyError, Object, ObjectKey};

/// The error of an index function. The operator `?` converts any error to this type.
pub type IndexFnError = Box<dyn std::error::Error + Send + Sync>;

/// The name under which client-go's informers register their [`namespace`] index.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Computes the values of an object in one index: zero, one or several values.
///
/// Closures that return owned strings implement this trait: `|pod: &Pod| Some(..)` and `|pod: &Pod|
/// vec![..]`, of `String` or `&'static str`. [`borrowed`] wraps a closure that borrows from the object, and
/// [`fallible`] one that can fail. [`namespace`], [`field`], [`label`] and [`owner_uid`] cover the common
/// cases without decoding the object.
///
/// # Contract
///
/// - The result must depend on the object alone. The function is called once per object and index, when the
///   object is written or the index is added. The store keeps the result, so a function whose result changes
///   later leaves no stale entries.
/// - The function runs under no lock of the store and may read the store. Such a read may return a state
///   older than the current transaction.
/// - **If the function fails or panics, the object is stored anyway and has no value in that index** until it
///   is written again. The other indexes are not affected.
///   [`Indexer::index_failures`](crate::Indexer::index_failures) counts and names the failure. (client-go
///   panics here with its lock held.)
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an index function of `{O}`",
    label = "not an index function",
    note = "a closure takes `&{O}` and returns the values as `Option<String>` or `Vec<String>`",
    note = "for a field, a label or the owners, use `field(\"spec.nodeName\")`, `label(\"app\")` \
            or `owner_uid()`"
)]
pub trait IndexFn<O>: Send + Sync + 'static {
    /// Computes the values of `object` in this index, and calls `emit` with each of them. A value that is
    /// emitted twice counts once.
    ///
    /// # Errors
    ///
    /// Returns an error if the values cannot be computed. Values that were emitted before the error are then
    /// discarded.
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError>;

    /// Returns the kind of the index. A [`Lister`](crate::Lister) uses an index only if its kind shows which
    /// objects each value selects, so it never uses an [`IndexKind::Custom`] index.
    fn kind(&self) -> IndexKind {
        IndexKind::Custom
    }
}

/// Describes which values an index contains, so that lists can use the index instead of scanning all objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IndexKind {
    /// Each object has exactly one value, its namespace; cluster-scoped objects have none.
    Namespace,
    /// Each object has exactly one value, that of its label with this key; objects without the label have
    /// none.
    Label(Arc<str>),
    /// The index function computes values of unknown meaning, so a [`Lister`](crate::Lister) cannot use the
    /// index.
    Custom,
}

#[diagnostic::do_not_recommend]
impl<O, F, R> IndexFn<O> for F
where
    F: Fn(&O) -> R + Send + Sync + 'static,
    R: IntoIterator,
    R::Item: AsRef<str>,
{
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        self(object).into_iter().for_each(|value| emit(value.as_ref()));
        Ok(())
    }
}

/// Returns an index function for the namespace of objects. Informers register it as [`NAMESPACE_INDEX`].
pub fn namespace() -> ByNamespace {
    ByNamespace
}

/// Returns an index function for the scalar at a field path such as `spec.nodeName`. Object representations
/// that can read a single field do so without decoding the whole object. Objects without the field are not in
/// the index.
///
/// # Panics
///
/// Panics if `path` is not a valid field path. Parse untrusted paths first and pass them to
/// [`ByField::from`].
#[track_caller]
pub fn field(path: &str) -> ByField {
    match path.parse() {
        Ok(path) => ByField { path },
        Err(error) => panic!("{error}"),
    }
}

/// Returns an index function for the value of one label. Lists whose selector requires that label use the
/// index.
pub fn label(key: impl Into<Arc<str>>) -> ByLabel {
    ByLabel { key: key.into() }
}

/// Returns an index function for the uids of an object's owners.
pub fn owner_uid() -> ByOwnerUid {
    ByOwnerUid
}

/// Creates an index function from a closure whose values borrow from the object.
///
/// ```
/// use informer_core::{Header, Object};
/// use informer_store::{StoreBuilder, borrowed};
///
/// let by_shard = borrowed(|pod: &Header| pod.labels().get("shard").map(Into::into).into_iter().collect());
/// let writer = StoreBuilder::<Header>::new().index("shard", by_shard).writer();
/// # drop(writer);
/// ```
pub fn borrowed<O, F>(function: F) -> Borrowed<F>
where
    F: for<'a> Fn(&'a O) -> Vec<Cow<'a, str>>,
{
    Borrowed(function)
}

/// Creates an index function from a closure that can fail; [`IndexFn`] describes the effect of a failure.
pub fn fallible<O, F>(function: F) -> Fallible<F>
where
    F: for<'a> Fn(&'a O) -> Result<Vec<Cow<'a, str>>, IndexFnError>,
{
    Fallible(function)
}

/// Creates a key function from an index function that returns exactly one value, like client-go's
/// `IndexFuncToKeyFuncAdapter`.
///
/// ```
/// use informer_core::Header;
/// use informer_store::{StoreBuilder, field, key_by};
///
/// let by_uid = StoreBuilder::<Header>::new().key(key_by(field("metadata.uid"))).build();
/// by_uid.add(Header::new("default/web".parse()?).with_uid("u-1").into())?;
/// assert!(by_uid.contains("u-1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn key_by<O: Object>(
    function: impl IndexFn<O>,
) -> impl Fn(&O) -> Result<ObjectKey, KeyError> + Send + Sync + 'static {
    move |object| {
        let mut values = Vec::new();
        let result = function.index(object, &mut |value| values.push(value.to_owned()));
        let error = |cause: IndexFnError| KeyError::new(object.key().to_string(), cause);
        result.map_err(error)?;
        match <[String; 1]>::try_from(values) {
            Ok([value]) => Ok(ObjectKey::explicit(value)),
            Err(values) => Err(error(format!("it has {} values, and a key needs one", values.len()).into())),
        }
    }
}

/// The index function that [`namespace`] returns.
#[derive(Debug, Clone, Copy)]
pub struct ByNamespace;

/// The index function that [`field`] returns.
#[derive(Debug, Clone)]
pub struct ByField {
    path: FieldPath,
}

/// The index function that [`label`] returns.
#[derive(Debug, Clone)]
pub struct ByLabel {
    key: Arc<str>,
}

/// The index function that [`owner_uid`] returns.
#[derive(Debug, Clone, Copy)]
pub struct ByOwnerUid;

/// An index function that calls a closure whose values borrow from the object; see [`borrowed`].
#[derive(Clone)]
pub struct Borrowed<F>(F);

/// An index function that calls a closure that can fail; see [`fallible`].
#[derive(Clone)]
pub struct Fallible<F>(F);

impl From<FieldPath> for ByField {
    fn from(path: FieldPath) -> Self {
        Self { path }
    }
}

impl<O: Object> IndexFn<O> for ByNamespace {
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        object.key().namespace().into_iter().for_each(emit);
        Ok(())
    }

    fn kind(&self) -> IndexKind {
        IndexKind::Namespace
    }
}

impl<O: Object> IndexFn<O> for ByField {
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        object.field(&self.path).as_deref().into_iter().for_each(emit);
        Ok(())
    }
}

impl<O: Object> IndexFn<O> for ByLabel {
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        object.labels().get(&self.key).into_iter().for_each(emit);
        Ok(())
    }

    fn kind(&self) -> IndexKind {
        IndexKind::Label(self.key.clone())
    }
}

impl<O: Object> IndexFn<O> for ByOwnerUid {
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        object.owners().iter().for_each(|owner| emit(owner.uid()));
        Ok(())
    }
}

impl<O, F> IndexFn<O> for Borrowed<F>
where
    F: for<'a> Fn(&'a O) -> Vec<Cow<'a, str>> + Send + Sync + 'static,
{
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        self.0(object).iter().for_each(|value| emit(value));
        Ok(())
    }
}

impl<O, F> IndexFn<O> for Fallible<F>
where
    F: for<'a> Fn(&'a O) -> Result<Vec<Cow<'a, str>>, IndexFnError> + Send + Sync + 'static,
{
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError> {
        self.0(object)?.iter().for_each(|value| emit(value));
        Ok(())
    }
}

impl<F> fmt::Debug for Borrowed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Borrowed(..)")
    }
}

impl<F> fmt::Debug for Fallible<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fallible(..)")
    }
}

/// A set of index functions with their names. A function that is added under the name of an earlier one
/// replaces the earlier one.
pub struct Indexers<O> {
    functions: BTreeMap<Arc<str>, Arc<dyn IndexFn<O>>>,
}

impl<O> Indexers<O> {
    /// Creates an empty set of index functions.
    pub fn new() -> Self {
        Self { functions: BTreeMap::new() }
    }

    /// Adds an index function under a name.
    pub fn index(mut self, name: impl Into<Arc<str>>, function: impl IndexFn<O>) -> Self {
        self.functions.insert(name.into(), Arc::new(function));
        self
    }

    /// Returns the names of the index functions, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(|name| &**name)
    }

    /// Returns the index function with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn IndexFn<O>>> {
        self.functions.get(name)
    }

    pub(crate) fn into_functions(self) -> BTreeMap<Arc<str>, Arc<dyn IndexFn<O>>> {
        self.functions
    }

    pub(crate) fn insert(&mut self, name: Arc<str>, function: Arc<dyn IndexFn<O>>) {
        self.functions.insert(name, function);
    }
}

impl<O> Default for Indexers<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> Clone for Indexers<O> {
    fn clone(&self) -> Self {
        Self { functions: self.functions.clone() }
    }
}

impl<O> fmt::Debug for Indexers<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
