//! The objects on the embedded server of the examples, and changes of these objects.

use informer::Gvr;
use informer_apiserver::{ApiError, ApiServer};
use serde_json::{Value, json};

/// The applications whose objects are created: namespace, name and number of replicas.
const APPS: [(&str, &str, u32); 3] = [("default", "web", 4), ("default", "api", 4), ("shop", "db", 4)];

pub(crate) fn fill(server: &ApiServer) -> Result<(), ApiError> {
    let (pods, deployments, config_maps) =
        (pods(), Gvr::new("apps", "v1", "deployments"), Gvr::new("", "v1", "configmaps"));
    server.create(&Gvr::new("", "v1", "namespaces"), "", json!({"metadata": {"name": "shop"}}))?;
    for (namespace, app, replicas) in APPS {
        let labels = json!({"app": app});
        let template = json!({
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": app, "image": format!("example.com/{app}:1.0")}]},
        });
        let deployment = json!({
            "metadata": {"name": app, "labels": labels},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        });
        server.create(&deployments, namespace, deployment)?;
        let settings =
            json!({"metadata": {"name": format!("{app}-settings")}, "data": {"log-level": "info"}});
        server.create(&config_maps, namespace, settings)?;
        for number in 0..replicas {
            server.create(&pods, namespace, pod(app, number, 0))?;
        }
    }
    Ok(())
}

pub(crate) fn change(server: &ApiServer, step: u64) -> Result<(), ApiError> {
    let restarts = step / 4 + 1;
    match step % 4 {
        0 => server.update(&pods(), "default", pod("web", 0, restarts)).map(drop),
        1 => server.update(&pods(), "shop", pod("db", 0, restarts)).map(drop),
        2 => server.delete(&pods(), "default", "api-3"),
        _ => server.create(&pods(), "default", pod("api", 3, 0)).map(drop),
    }
}

fn pods() -> Gvr {
    Gvr::new("", "v1", "pods")
}

fn pod(app: &str, number: u32, restarts: u64) -> Value {
    let image = format!("example.com/{app}:1.0");
    json!({
        "metadata": {
            "name": format!("{app}-{number}"),
            "labels": {"app": app, "number": number.to_string()},
            "annotations": {"example.com/note": "a long text that controllers seldom read ".repeat(20)},
            "managedFields": [{
                "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:status": {"f:phase": {}, "f:podIP": {}, "f:containerStatuses": {}}},
            }],
        },
        "spec": {
            "nodeName": format!("worker-{}", number % 3 + 1),
            "serviceAccountName": app,
            "containers": [{"name": app, "image": image, "resources": {"requests": {"cpu": "100m"}}}],
        },
        "status": {
            "phase": "Running",
            "podIP": format!("10.0.0.{number}"),
            "containerStatuses": [{
                "name": app, "image": image, "imageID": "", "ready": true, "restartCount": restarts,
            }],
        },
    })
}
