//! Validation of Jobs and CronJobs, compared with that of kube-apiserver.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{causes_of, dry_create, read, send_with};

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

fn job_spec(fields: Value) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]});
    let mut spec = json!({"template": {"spec": pod}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    spec
}

fn cron_job(fields: Value) -> Value {
    let mut spec = json!({"schedule": "0 0 * * *", "jobTemplate": {"spec": job_spec(json!({}))}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": spec})
}

#[tokio::test]
async fn names_of_time_zones_are_those_of_the_database() {
    let server = ApiServer::builder().build();
    for zone in
        ["UTC", "Europe/Berlin", "America/Argentina/ComodRivadavia", "US/Eastern", "Etc/GMT+8", "EST5EDT"]
    {
        let created = dry_create(&server, CRON_JOBS, &cron_job(json!({"timeZone": zone}))).await;
        assert_eq!(created, (201, vec![]), "{zone}");
    }
    let invalid = "Invalid spec.timeZone".to_owned();
    for (zone, problems) in [
        ("", 1),
        ("europe/berlin", 1),
        ("utc", 1),
        ("Etc/Unknown", 1),
        ("Mars/Olympus", 1),
        ("Europe//Berlin", 1),
        ("../etc/localtime", 1),
        ("Local", 1),
        ("local", 2),
    ] {
        let created = dry_create(&server, CRON_JOBS, &cron_job(json!({"timeZone": zone}))).await;
        assert_eq!(created, (422, vec![invalid.clone(); problems]), "{zone}");
    }
}

#[tokio::test]
async fn schedules_are_parsed_like_those_of_kube_apiserver() {
    let server = ApiServer::builder().build();
    let valid = [
        "*/5 0-6,22 ? JAN-mar MON",
        "@every 1h30m",
        "@hourly",
        "5/10 * * * *",
        "0 0 31 2 *",
        "*-x * * * *",
        ", * * * *",
    ];
    for schedule in valid {
        let created = dry_create(&server, CRON_JOBS, &cron_job(json!({"schedule": schedule}))).await;
        assert_eq!(created, (201, vec![]), "{schedule}");
    }
    let invalid = "Invalid spec.schedule".to_owned();
    for (schedule, problems) in [
        ("60 * * * *", 1),
        ("* * 0 * *", 1),
        ("5-1 * * * *", 1),
        ("*/0 * * * *", 1),
        ("1-2-3 * * * *", 1),
        ("x * * * *", 1),
        ("* * * *", 1),
        (" ", 1),
        ("@sometimes", 1),
        ("@every day", 1),
        ("TZ=UTC 0 0 * * *", 1),
        ("CRON_TZ=Mars/Olympus 0 0 * * *", 2),
        ("TZ=0", 2),
    ] {
        let created = dry_create(&server, CRON_JOBS, &cron_job(json!({"schedule": schedule}))).await;
        assert_eq!(created, (422, vec![invalid.clone(); problems]), "{schedule}");
    }
}

#[tokio::test]
async fn stored_time_zone_of_a_schedule_can_be_kept() {
    let server = ApiServer::builder().build();
    let gvr = Gvr::new("batch", "v1", "cronjobs");
    let stored = cron_job(json!({"schedule": "TZ=UTC 0 0 * * *"}));
    server.raw().create(&gvr, "default", stored).unwrap();
    for (patch, causes) in [
        (json!({"schedule": "TZ=UTC 1 0 * * *"}), vec![]),
        (json!({"timeZone": "UTC"}), vec!["Invalid spec.schedule".to_owned()]),
    ] {
        let headers = [("content-type", "application/merge-patch+json")];
        let body = json!({"spec": patch}).to_string();
        let url = format!("{CRON_JOBS}/a");
        let (_, body) = read(send_with(&server, "PATCH", &url, &headers, &body).await).await;
        assert_eq!(causes_of(&serde_json::from_str(&body).unwrap()), causes, "{patch}");
    }
}

#[tokio::test]
async fn cron_job_with_a_long_name_or_a_job_selector_is_rejected() {
    let server = ApiServer::builder().build();
    let mut long = cron_job(json!({}));
    long["metadata"]["name"] = "a".repeat(52).into();
    assert_eq!(dry_create(&server, CRON_JOBS, &long).await, (201, vec![]));
    long["metadata"]["name"] = "a".repeat(53).into();
    let name = "Invalid metadata.name".to_owned();
    assert_eq!(dry_create(&server, CRON_JOBS, &long).await, (422, vec![name]));
    let fields = json!({"selector": {"matchLabels": {"a": "b"}}, "manualSelector": true});
    let selected = cron_job(json!({"jobTemplate": {"spec": job_spec(fields)}}));
    let causes =
        ["Invalid spec.jobTemplate.spec.selector", "NotSupported spec.jobTemplate.spec.manualSelector"];
    assert_eq!(dry_create(&server, CRON_JOBS, &selected).await, (422, causes.map(str::to_owned).to_vec()));
}
