use std::sync::Arc;

use informer_core::{Object, ResourceVersion};

use crate::source::{
    ListEnd, ListPart, ListRequest, ListSource, ListStream, ListWatch, Listed, SourceError, WatchRequest,
    WatchSource, WatchStream,
};

/// A source with fixed objects and no events, for examples and for tests of code that uses an informer.
#[derive(Debug, Clone)]
pub struct StaticSource<O> {
    objects: Vec<Arc<O>>,
    version: ResourceVersion,
}

impl<O: Object> StaticSource<O> {
    /// Creates a source of the given objects, whose lists have the given resourceVersion.
    pub fn new(objects: impl IntoIterator<Item = O>, version: impl Into<ResourceVersion>) -> Self {
        Self { objects: objects.into_iter().map(Arc::new).collect(), version: version.into() }
    }
}

impl<O: Object> ListSource<O> for StaticSource<O> {
    async fn list(&self, _: ListRequest<O>) -> Result<ListStream<O>, SourceError> {
        let items = self.objects.iter().map(|object| Listed::Fresh(Arc::clone(object))).collect();
        let end = ListEnd { version: self.version.clone(), ..ListEnd::default() };
        Ok(ListStream::new(futures_util::stream::iter([Ok(ListPart::Items(items)), Ok(ListPart::End(end))])))
    }
}

impl<O: Object> WatchSource<O> for StaticSource<O> {
    async fn watch(&self, _: WatchRequest<O>) -> Result<WatchStream<O>, SourceError> {
        Ok(WatchStream::new(futures_util::stream::pending()))
    }
}

impl<O: Object> ListWatch<O> for StaticSource<O> {
    fn describe(&self) -> String {
        format!("{} fixed objects", self.objects.len())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::SharedInformer;
    use crate::testing::object;

    #[tokio::test(start_paused = true)]
    async fn list_has_all_objects_and_the_given_version() {
        let source = StaticSource::new([object("a", "1"), object("b", "2")], "7");
        assert_eq!(source.describe(), "2 fixed objects");
        let informer = SharedInformer::new(source);
        let run = informer.start();
        informer.wait_for_sync(Duration::from_secs(5)).await.unwrap();
        let state = informer.state();
        assert_eq!((state.objects, state.reflector.last_version), (2, "7".into()));
        run.stop().await;
    }
}
