//! Index functions: which values an object has in an index.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informer_core::{FieldPath, KeyError, Object, ObjectKey};

/// What an index function fails with; any error converts with `?`.
pub type IndexFnError = Box<dyn std::error::Error + Send + Sync>;

/// The name under which client-go's informers keep [`namespace`].
pub const NAMESPACE_INDEX: &str = "namespace";

/// Computes the values that an object has in one index: none, one, or many.
///
/// A closure that returns owned text is one: `|pod: &Pod| Some(..)`, `|pod: &Pod| vec![..]`, of `String` or
/// `&'static str`. [`borrowed`] takes one that borrows from the object, [`fallible`] one that may fail.
/// [`namespace`], [`field`], [`label`] and [`owner_uid`] cover the usual ones without a decode.
///
/// # Contract
///
/// - It depends on the object alone. It is called once per object and index, when the object is written or the index
///   added; the answer is kept, so that a later change of mind cannot leave stale entries.
/// - It runs under no lock of the store and may read the store, but what it reads may be older than the transaction.
/// - **If it fails or panics, the object is stored all the same and has no value in that index**, until it is written
///   again. The other indexes are not affected. [`Indexer::index_failures`](crate::Indexer::index_failures) counts
///   and names it. (client-go panics here with its lock held.)
pub trait IndexFn<O>: Send + Sync + 'static {
    /// Calls `emit` with each value. Values given twice count once.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from an answer; the values emitted before are dropped.
    fn index(&self, object: &O, emit: &mut dyn FnMut(&str)) -> Result<(), IndexFnError>;

    /// What listers may conclude from the index; [`IndexKind::Custom`] promises nothing.
    fn kind(&self) -> IndexKind {
        IndexKind::Custom
    }
}

/// What an index is known to hold, so that lists can use it instead of looking at every object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IndexKind {
    /// The one value of each object is its namespace; cluster-scoped objects have none.
    Namespace,
    /// The one value of each object is its label of this key; objects without the label have none.
    Label(Arc<str>),
    /// Anything.
    Custom,
}

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

/// Indexes objects by their namespace. Informers keep it under [`NAMESPACE_INDEX`].
pub fn namespace() -> ByNamespace {
    ByNamespace
}

/// Indexes objects by the scalar at a path, as `spec.nodeName`, read without a full decode where the representation
/// can. Objects without the field are not in the index.
///
/// # Panics
///
/// When `path` is not a field path. A path from outside is parsed first and given to [`ByField::from`].
#[track_caller]
pub fn field(path: &str) -> ByField {
    match path.parse() {
        Ok(path) => ByField { path },
        Err(error) => panic!("{error}"),
    }
}

/// Indexes objects by the value of one label. Lists with a selector on that label use it.
pub fn label(key: impl Into<Arc<str>>) -> ByLabel {
    ByLabel { key: key.into() }
}

/// Indexes objects by the uids of their owners.
pub fn owner_uid() -> ByOwnerUid {
    ByOwnerUid
}

/// An index function from a closure whose values borrow from the object.
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

/// An index function from a closure that may fail; see [`IndexFn`] for what follows.
pub fn fallible<O, F>(function: F) -> Fallible<F>
where
    F: for<'a> Fn(&'a O) -> Result<Vec<Cow<'a, str>>, IndexFnError>,
{
    Fallible(function)
}

/// A key function from an index function: the key is the one value of the object. Client-go's
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
        let answer = function.index(object, &mut |value| values.push(value.to_owned()));
        let error = |cause: IndexFnError| KeyError::new(object.key().to_string(), cause);
        answer.map_err(error)?;
        match <[String; 1]>::try_from(values) {
            Ok([value]) => Ok(ObjectKey::explicit(value)),
            Err(values) => Err(error(format!("it has {} values, and a key is one", values.len()).into())),
        }
    }
}

/// See [`namespace`].
#[derive(Debug, Clone, Copy)]
pub struct ByNamespace;

/// See [`field`].
#[derive(Debug, Clone)]
pub struct ByField {
    path: FieldPath,
}

/// See [`label`].
#[derive(Debug, Clone)]
pub struct ByLabel {
    key: Arc<str>,
}

/// See [`owner_uid`].
#[derive(Debug, Clone, Copy)]
pub struct ByOwnerUid;

/// See [`borrowed`].
#[derive(Clone)]
pub struct Borrowed<F>(F);

/// See [`fallible`].
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

/// Index functions by name. Adding a name again replaces the function before it.
pub struct Indexers<O> {
    functions: BTreeMap<Arc<str>, Arc<dyn IndexFn<O>>>,
}

impl<O> Indexers<O> {
    /// No index.
    pub fn new() -> Self {
        Self { functions: BTreeMap::new() }
    }

    /// Adds an index.
    pub fn index(mut self, name: impl Into<Arc<str>>, function: impl IndexFn<O>) -> Self {
        self.functions.insert(name.into(), Arc::new(function));
        self
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(|name| &**name)
    }

    /// The function of a name.
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
