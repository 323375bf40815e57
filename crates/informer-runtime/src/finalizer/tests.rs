use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::*;

fn service(finalizers: &[&str], deleted: bool) -> Service {
    let mut metadata = json!({"name": "web", "namespace": "ns", "finalizers": finalizers});
    if deleted {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn held(service: &Service) -> Vec<&str> {
    service.metadata.finalizers.iter().flatten().map(String::as_str).collect()
}

#[test]
fn finalizer_is_added_once_and_all_occurrences_are_removed() {
    let mut web = service(&[], false);
    assert!(add_finalizer(&mut web, "a"));
    assert!(!add_finalizer(&mut web, "a"));
    assert!(contains_finalizer(&web, "a") && !contains_finalizer(&web, "b"));
    web.metadata.finalizers.as_mut().unwrap().push("a".to_owned());
    assert!(remove_finalizer(&mut web, "a"));
    assert!(!remove_finalizer(&mut web, "a"));
    assert!(held(&web).is_empty());
}

fn two(of_b: Result<(), &'static str>) -> Finalizers<Service> {
    Finalizers::new()
        .register("a", |mut web: Service| async move {
            web.metadata.labels.get_or_insert_default().insert("cleaned".to_owned(), "yes".to_owned());
            web.status.get_or_insert_default().conditions = Some(Vec::new());
            Ok(web)
        })
        .register("b", move |web: Service| async move { Ok(of_b.map(|()| web)?) })
}

#[tokio::test]
async fn missing_finalizers_are_added_to_live_objects() {
    let mut web = service(&["a", "other"], false);
    let finalized = two(Ok(())).finalize(&mut web).await.unwrap();
    assert_eq!(finalized, Finalized { updated: true, status_updated: false });
    assert_eq!(held(&web), ["a", "other", "b"]);
    let again = two(Ok(())).finalize(&mut web).await.unwrap();
    assert_eq!(again, Finalized::default());
}

#[tokio::test]
async fn present_finalizers_are_run_and_removed_when_the_object_is_deleted() {
    let mut web = service(&["a", "other"], true);
    let finalized = two(Err("it is not there and is not run")).finalize(&mut web).await.unwrap();
    assert_eq!(finalized, Finalized { updated: true, status_updated: true });
    assert_eq!(held(&web), ["other"]);
    assert_eq!(web.metadata.labels.unwrap()["cleaned"], "yes");
}

#[tokio::test]
async fn failed_finalizer_is_kept_and_others_are_run() {
    let mut web = service(&["a", "b"], true);
    let error = two(Err("the bucket is locked")).finalize(&mut web).await.unwrap_err();
    assert_eq!(error.to_string(), "finalizers failed: b");
    assert_eq!(error.failed[0].1.to_string(), "the bucket is locked");
    assert_eq!(error.finalized, Finalized { updated: true, status_updated: true });
    assert_eq!(held(&web), ["b"]);
}

#[tokio::test]
async fn second_finalizer_of_a_name_replaces_the_first() {
    let mut web = service(&["b"], true);
    let finalizers = two(Err("it was replaced")).register("b", |web: Service| async move { Ok(web) });
    finalizers.finalize(&mut web).await.unwrap();
    assert!(held(&web).is_empty());
}
