use crate::schema::Schema;
use crate::schema::kind::KindSchema;

/// Comma-separated names; `-` is the empty list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameList(pub(crate) &'static str);

/// An iterator over names of a resource, such as its verbs or short names, in the order of the schema table.
#[derive(Clone, Debug)]
pub struct Names(Option<std::str::Split<'static, char>>);

impl Names {
    pub(crate) fn new(list: &'static str) -> Self {
        Self((list != "-").then(|| list.split(',')))
    }
}

impl Iterator for Names {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        self.0.as_mut()?.next()
    }
}

#[derive(Debug)]
pub(crate) struct GroupVersionData {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
}

/// The kind of request and response bodies in the table. Group and version are empty for those of the
/// resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseName {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
}

#[derive(Debug)]
pub(crate) struct SubresourceData {
    pub(crate) name: &'static str,
    pub(crate) response: ResponseName,
    pub(crate) verbs: NameList,
}

#[derive(Debug)]
pub(crate) struct ResourceData {
    pub(crate) group_version: u16,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) response: ResponseName,
    pub(crate) verbs: NameList,
    pub(crate) short_names: NameList,
    pub(crate) categories: NameList,
    pub(crate) storage_hash: &'static str,
    pub(crate) on_request: bool,
    pub(crate) subresources: Vec<SubresourceData>,
    pub(crate) columns: Vec<Column>,
}

/// The kind of the objects in the request and response bodies of a resource or subresource, such as `Scale`
/// for `deployments/scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponseKind {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// True if discovery lists group and version of this kind explicitly, because they differ from those of
    /// the resource.
    pub foreign: bool,
}

/// A resource of an API server: a plural name such as `pods` under a group and version, with its verbs and
/// subresources.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) data: &'s ResourceData,
}

impl<'s> Resource<'s> {
    /// Returns the group of the resource; the core group is `""`.
    pub fn group(self) -> &'static str {
        self.schema.groups[usize::from(self.data.group_version)].group
    }

    /// Returns the version.
    pub fn version(self) -> &'static str {
        self.schema.groups[usize::from(self.data.group_version)].version
    }

    /// Returns the plural name of the resource, which is part of its paths: `pods`.
    pub fn plural(self) -> &'static str {
        self.data.plural
    }

    /// Returns the singular name: `pod`.
    pub fn singular(self) -> &'static str {
        self.data.singular
    }

    /// Returns true if the resource is namespaced.
    pub fn is_namespaced(self) -> bool {
        self.data.namespaced
    }

    /// Returns the kind of the resource's objects.
    pub fn kind(self) -> Option<KindSchema<'s>> {
        let response = self.response_kind();
        self.schema.kind(&informer_core::Gvk::new(response.group, response.version, response.kind))
    }

    /// Returns the kind of the objects in the resource's request and response bodies, as listed in discovery.
    pub fn response_kind(self) -> ResponseKind {
        self.complete(self.data.response)
    }

    fn complete(self, response: ResponseName) -> ResponseKind {
        let ResponseName { group, version, kind } = response;
        match version {
            "" => ResponseKind { group: self.group(), version: self.version(), kind, foreign: false },
            _ => ResponseKind { group, version, kind, foreign: true },
        }
    }

    /// Returns the verbs, sorted.
    pub fn verbs(self) -> Names {
        Names::new(self.data.verbs.0)
    }

    /// Returns the short names: `po`.
    pub fn short_names(self) -> Names {
        Names::new(self.data.short_names.0)
    }

    /// Returns the categories: `all`.
    pub fn categories(self) -> Names {
        Names::new(self.data.categories.0)
    }

    /// Returns the hash of the resource's storage version, as in legacy discovery; `""` if the server
    /// publishes none.
    pub fn storage_version_hash(self) -> &'static str {
        self.data.storage_hash
    }

    /// Returns true if kube-apiserver serves the resource by default. For other resources, it must be started
    /// with the flag `--runtime-config`.
    pub fn is_served_by_default(self) -> bool {
        !self.data.on_request
    }

    /// Returns the subresources, such as `status` and `scale`.
    pub fn subresources(self) -> impl ExactSizeIterator<Item = SubresourceInfo> + 's {
        self.data.subresources.iter().map(move |subresource| SubresourceInfo {
            name: subresource.name,
            response_kind: self.complete(subresource.response),
            verbs: Names::new(subresource.verbs.0),
        })
    }

    /// Returns the printer columns.
    pub fn columns(self) -> impl ExactSizeIterator<Item = Column> + 's {
        self.data.columns.iter().copied()
    }
}

/// A subresource, such as `status` or `scale`, which clients request under the path of an object.
#[derive(Clone, Debug)]
pub struct SubresourceInfo {
    /// The last segment of the subresource's path.
    pub name: &'static str,
    /// The kind of the subresource's request and response bodies.
    pub response_kind: ResponseKind,
    /// The verbs, sorted.
    pub verbs: Names,
}

/// A column of the table that `kubectl get` prints for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// The title of the column, such as `Node`.
    pub name: &'static str,
    /// The OpenAPI type of the cells: `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// The OpenAPI format of the cells: `name` for the column with the object's name, otherwise mostly `""`.
    pub format: &'static str,
    /// 0 if the column is always shown; columns with other values are shown only by `kubectl get -o wide`.
    pub priority: i32,
}
