use informer_simulator::Random;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use serde_json::{Value, json};

use super::{Sample, applied_metadata, change_metadata, has_denied_image, metadata, raw_metadata_change};

impl Sample for Pod {
    fn draw(key: (&str, &str), random: &mut Random) -> Value {
        let env = json!([{"name": "LEVEL", "value": random.below(9).to_string()}]);
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata(key, random),
            "spec": {"containers": [
                {"name": "main", "image": "main:1", "env": env, "shells": ["sh", "bash"], "resources": {"requests": {"cpu": "100m"}}},
                {"name": "side", "image": "side:1"},
            ]},
        });
        if random.one_in(2) {
            pod["spec"]["nodeName"] = json!("node-1");
        }
        pod
    }

    fn change(&mut self, random: &mut Random) -> Vec<String> {
        let containers = self.spec.as_mut().map(|spec| &mut spec.containers);
        match containers.filter(|_| random.below(3) > 0) {
            Some(containers) if !containers.is_empty() => {
                let container = random.below(containers.len());
                let container = &mut containers[container];
                container.image = Some(format!("image:{}", random.below(50)));
                vec![format!("spec.containers[{}].image", container.name)]
            }
            _ => change_metadata(&mut self.metadata, random),
        }
    }

    fn raw_change(random: &mut Random) -> Value {
        raw_metadata_change(random)
    }

    fn is_denied(object: &Value) -> bool {
        has_denied_image(&object["spec"])
    }

    fn applied(key: (&str, &str), random: &mut Random) -> (Self, Vec<String>) {
        let (metadata, mut paths) = applied_metadata(key, random);
        let image = Some(format!("applied:{}", random.below(50)));
        let container = Container { name: "main".to_owned(), image, ..Container::default() };
        paths.push("spec.containers[main].image".to_owned());
        let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
        (Self { metadata, spec: Some(spec), ..Self::default() }, paths)
    }

    fn field_selector() -> Option<&'static str> {
        Some("spec.nodeName=node-1")
    }
}
