use informer_core::Header;
use informer_store::{
    ExpirationCache, Indexer, Indexers, Lister, MutationCache, NamespacedLister, Snapshot, Store,
    StoreBuilder, StoreChange, StoreWriter, ThreadSafeStore, TransactionError, UndeltaStore,
};

fn shared_between_threads<T: Send + Sync + 'static>() {}

#[test]
fn every_handle_may_cross_and_be_shared_by_threads() {
    shared_between_threads::<StoreWriter<Header>>();
    shared_between_threads::<Indexer<Header>>();
    shared_between_threads::<Snapshot<Header>>();
    shared_between_threads::<Store<Header>>();
    shared_between_threads::<ThreadSafeStore<Header>>();
    shared_between_threads::<Lister<Header>>();
    shared_between_threads::<NamespacedLister<Header>>();
    shared_between_threads::<StoreBuilder<Header>>();
    shared_between_threads::<Indexers<Header>>();
    shared_between_threads::<StoreChange<Header>>();
    shared_between_threads::<ExpirationCache<Header>>();
    shared_between_threads::<MutationCache<Header>>();
    shared_between_threads::<UndeltaStore<Header>>();
    shared_between_threads::<TransactionError>();
}
