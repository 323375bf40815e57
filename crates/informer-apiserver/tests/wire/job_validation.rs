//! Validation of Jobs and CronJobs, compared with that of kube-apiserver.

use informer_apiserver::ApiServer;
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{causes_of, dry_create, json, read, send_with};

const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn job_spec(fields: Value) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]});
    let mut spec = json!({"template": {"spec": pod}});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    spec
}

fn job(fields: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": job_spec(fields)})
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

#[tokio::test]
async fn manager_of_a_job_is_a_domain_prefixed_path() {
    let server = ApiServer::builder().build();
    for manager in ["kubernetes.io/job-controller", "example.com/a/b~c%20"] {
        let created = dry_create(&server, JOBS, &job(json!({"managedBy": manager}))).await;
        assert_eq!(created, (201, vec![]), "{manager}");
    }
    let long = format!("example.com/{}", "a".repeat(52));
    for (manager, cause) in [
        ("", "Required spec.managedBy"),
        ("manager", "Invalid spec.managedBy"),
        ("example.com/", "Invalid spec.managedBy"),
        ("Example.com/a", "Invalid spec.managedBy"),
        ("example.com/a b", "Invalid spec.managedBy"),
        (&*long, "TooLong spec.managedBy"),
    ] {
        let created = dry_create(&server, JOBS, &job(json!({"managedBy": manager}))).await;
        assert_eq!(created, (422, vec![cause.to_owned()]), "{manager}");
    }
}

#[tokio::test]
async fn limits_for_each_index_need_an_indexed_job() {
    let server = ApiServer::builder().build();
    let indexed = |fields: Value| {
        let mut spec = json!({"completionMode": "Indexed", "completions": 5, "parallelism": 1});
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        job(spec)
    };
    let success = |rule: Value| json!({"successPolicy": {"rules": [rule]}});
    for fields in [
        json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 5}),
        success(json!({"succeededIndexes": "0,2-4", "succeededCount": 4})),
    ] {
        assert_eq!(dry_create(&server, JOBS, &indexed(fields.clone())).await, (201, vec![]), "{fields}");
    }
    let rule = "spec.successPolicy.rules[0]";
    for (fields, cause) in [
        (
            json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 6}),
            "Invalid spec.maxFailedIndexes".to_owned(),
        ),
        (json!({"parallelism": 100_001}), "Invalid spec.parallelism".to_owned()),
        (success(json!({})), format!("Required {rule}")),
        (success(json!({"succeededIndexes": "5"})), format!("Invalid {rule}.succeededIndexes")),
        (success(json!({"succeededIndexes": "2,1"})), format!("Invalid {rule}.succeededIndexes")),
        (
            success(json!({"succeededIndexes": "1", "succeededCount": 2})),
            format!("Invalid {rule}.succeededCount"),
        ),
    ] {
        assert_eq!(dry_create(&server, JOBS, &indexed(fields.clone())).await, (422, vec![cause]), "{fields}");
    }
    for (fields, cause) in [
        (json!({"backoffLimitPerIndex": 1}), "Invalid spec.backoffLimitPerIndex"),
        (success(json!({"succeededCount": 1})), "Invalid spec.successPolicy"),
    ] {
        let created = dry_create(&server, JOBS, &job(fields.clone())).await;
        assert_eq!(created, (422, vec![cause.to_owned()]), "{fields}");
    }
}

#[tokio::test]
async fn pod_failure_policy_needs_pods_that_are_not_restarted() {
    let server = ApiServer::builder().build();
    let policy = |values: Value| {
        let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": values}});
        json!({"podFailurePolicy": {"rules": [rule]}})
    };
    assert_eq!(dry_create(&server, JOBS, &job(policy(json!([1, 2])))).await, (201, vec![]));
    let unordered = "Invalid spec.podFailurePolicy.rules[0].onExitCodes.values".to_owned();
    assert_eq!(dry_create(&server, JOBS, &job(policy(json!([2, 1])))).await, (422, vec![unordered]));
    let mut restarted = job(policy(json!([1])));
    restarted["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    let cause = "Invalid spec.template.spec.restartPolicy".to_owned();
    assert_eq!(dry_create(&server, JOBS, &restarted).await, (422, vec![cause]));
    assert_eq!(json(&server, "POST", JOBS, &job(json!({})).to_string()).await.0, 201);
}

#[tokio::test]
async fn loaded_cron_job_can_have_a_time_zone_in_its_schedule() {
    let server = ApiServer::builder().build();
    let object = cron_job(json!({"schedule": "TZ=UTC 0 * * * *"}));
    let url = "/apis/batch/v1/namespaces/default/cronjobs";
    let rejected = (422, vec!["Invalid spec.schedule".to_owned()]);
    assert_eq!(dry_create(&server, url, &object).await, rejected);
    server.create(&Gvr::new("batch", "v1", "cronjobs"), "default", object).unwrap();
}
