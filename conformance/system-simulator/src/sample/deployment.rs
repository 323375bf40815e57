use informer_simulator::Random;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use serde_json::{Value, json};

use super::{Sample, applied_metadata, change_metadata, has_denied_image, metadata, raw_metadata_change};

impl Sample for Deployment {
    fn draw(key: (&str, &str), random: &mut Random) -> Value {
        let labels = json!({"name": key.1});
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(key, random),
            "spec": {
                "replicas": random.below(5),
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [
                    {"name": "main", "image": "main:1", "shells": ["sh"], "env": [{"name": "A", "value": "1"}]},
                    {"name": "side", "image": "side:1", "ports": [{"name": "http", "containerPort": 80}]},
                ]}},
            },
        })
    }

    fn change(&mut self, random: &mut Random) -> Vec<String> {
        let spec = &mut self.spec;
        match random.below(4) {
            0 => {
                spec.replicas = Some(i32::try_from(random.below(9)).unwrap_or_default());
                vec!["spec.replicas".to_owned()]
            }
            1 | 2 => {
                let containers = spec.template.spec.as_mut().map(|spec| &mut spec.containers);
                let Some(main) = containers.and_then(|containers| containers.first_mut()) else {
                    return Vec::new();
                };
                main.image = Some(format!("image:{}", random.below(50)));
                vec![format!("spec.template.spec.containers[{}].image", main.name)]
            }
            _ => change_metadata(&mut self.metadata, random),
        }
    }

    fn raw_change(random: &mut Random) -> Value {
        match random.below(2) {
            0 => raw_metadata_change(random),
            _ => json!({"spec": {"minReadySeconds": random.below(60)}}),
        }
    }

    fn is_denied(object: &Value) -> bool {
        has_denied_image(&object["spec"]["template"]["spec"])
    }

    fn applied(key: (&str, &str), random: &mut Random) -> (Self, Vec<String>) {
        let (metadata, mut paths) = applied_metadata(key, random);
        paths.push("spec.replicas".to_owned());
        let spec = DeploymentSpec {
            replicas: Some(i32::try_from(random.below(9)).unwrap_or_default()),
            ..DeploymentSpec::default()
        };
        (Self { metadata, spec, ..Self::default() }, paths)
    }
}
