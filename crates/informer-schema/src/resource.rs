use crate::kind::KindSchema;
use crate::schema::Schema;

/// Names apart by commas; a dash is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameList(pub(crate) &'static str);

/// Some names of the table, in its order.
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

type Response = (&'static str, &'static str, &'static str);

#[derive(Debug)]
pub(crate) struct ResourceData {
    pub(crate) group_version: u16,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) response: Response,
    pub(crate) verbs: NameList,
    pub(crate) short_names: NameList,
    pub(crate) categories: NameList,
    pub(crate) storage_hash: &'static str,
    pub(crate) on_request: bool,
    pub(crate) subresources: Vec<(&'static str, Response, NameList)>,
    pub(crate) columns: Vec<(&'static str, &'static str, &'static str, i32)>,
}

/// What a resource or subresource takes and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResponseKind {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Whether discovery names group and version: it does where they are not those of the resource.
    pub foreign: bool,
}

/// A resource of a server: a path below a group and version.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'s> {
    pub(crate) schema: &'s Schema,
    pub(crate) data: &'s ResourceData,
}

impl<'s> Resource<'s> {
    /// The group; the core group is `""`.
    pub fn group(self) -> &'static str {
        self.schema.groups[usize::from(self.data.group_version)].group
    }

    /// The version.
    pub fn version(self) -> &'static str {
        self.schema.groups[usize::from(self.data.group_version)].version
    }

    /// The name in paths: `pods`.
    pub fn plural(self) -> &'static str {
        self.data.plural
    }

    /// `pod`.
    pub fn singular(self) -> &'static str {
        self.data.singular
    }

    /// Whether its objects are in namespaces.
    pub fn is_namespaced(self) -> bool {
        self.data.namespaced
    }

    /// The kind of its objects.
    pub fn kind(self) -> Option<KindSchema<'s>> {
        let response = self.response_kind();
        self.schema.kind(&informer_core::Gvk::new(response.group, response.version, response.kind))
    }

    /// The kind that it takes and answers, as discovery tells it.
    pub fn response_kind(self) -> ResponseKind {
        self.complete(self.data.response)
    }

    fn complete(self, (group, version, kind): Response) -> ResponseKind {
        match version {
            "" => ResponseKind { group: self.group(), version: self.version(), kind, foreign: false },
            _ => ResponseKind { group, version, kind, foreign: true },
        }
    }

    /// What may be done, in alphabetical order.
    pub fn verbs(self) -> Names {
        Names::new(self.data.verbs.0)
    }

    /// `po`.
    pub fn short_names(self) -> Names {
        Names::new(self.data.short_names.0)
    }

    /// `all`.
    pub fn categories(self) -> Names {
        Names::new(self.data.categories.0)
    }

    /// The hash of the version in which a server keeps it, as legacy discovery tells it; `""` where it tells none.
    pub fn storage_version_hash(self) -> &'static str {
        self.data.storage_hash
    }

    /// Whether a server without flags has it. The others need `--runtime-config`.
    pub fn is_served_by_default(self) -> bool {
        !self.data.on_request
    }

    /// `status`, `scale` and the like.
    pub fn subresources(self) -> impl ExactSizeIterator<Item = SubresourceInfo> + 's {
        self.data.subresources.iter().map(move |(name, response, verbs)| SubresourceInfo {
            name,
            response_kind: self.complete(*response),
            verbs: Names::new(verbs.0),
        })
    }

    /// The columns of its table.
    pub fn columns(self) -> impl ExactSizeIterator<Item = Column> + 's {
        self.data.columns.iter().map(|&(name, kind, format, priority)| Column {
            name,
            kind,
            format,
            priority,
        })
    }
}

/// A part of a resource with a path of its own.
#[derive(Clone, Debug)]
pub struct SubresourceInfo {
    /// The last part of the path.
    pub name: &'static str,
    /// What it takes and answers.
    pub response_kind: ResponseKind,
    /// What may be done, in alphabetical order.
    pub verbs: Names,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// The title.
    pub name: &'static str,
    /// The type in OpenAPI terms.
    pub kind: &'static str,
    /// `name` for the column with the name, else mostly `""`.
    pub format: &'static str,
    /// 0 is always shown, others when more is asked for.
    pub priority: i32,
}
