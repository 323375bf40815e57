//! List and watch sources: the traits, their requests, responses and errors, re-exported from the module
//! [`informer_cache::source`].

pub use informer_cache::source::{
    DynListWatch, FilterPanicked, FilteredSource, KnownObjects, ListEnd, ListPart, ListRequest, ListSource,
    ListStream, ListWatch, ListWatchFns, Listed, ObjectFilter, ServerStatus, SourceContext, SourceError,
    SourceErrorKind, VersionMatch, WatchEvent, WatchRequest, WatchSource, WatchStream, list_watch,
};
