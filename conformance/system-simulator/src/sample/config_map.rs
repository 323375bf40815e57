use informer_simulator::Random;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::{DENIED_DIGITS, Sample, applied_metadata, change_metadata, metadata, raw_metadata_change};

impl Sample for ConfigMap {
    fn draw(key: (&str, &str), random: &mut Random) -> Value {
        let data = json!({"a": random.below(100).to_string(), "b": "kept"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(key, random), "data": data})
    }

    fn change(&mut self, random: &mut Random) -> Vec<String> {
        let data = self.data.get_or_insert_default();
        match random.below(4) {
            0 | 1 => {
                data.insert("a".to_owned(), random.below(1000).to_string());
                vec!["data.a".to_owned()]
            }
            2 => {
                data.remove("c");
                data.insert("d".to_owned(), random.below(1000).to_string());
                vec!["data.c".to_owned(), "data.d".to_owned()]
            }
            _ => change_metadata(&mut self.metadata, random),
        }
    }

    fn raw_change(random: &mut Random) -> Value {
        match random.below(3) {
            0 => raw_metadata_change(random),
            1 => json!({"data": {"c": random.below(1000).to_string()}}),
            _ => json!({"data": {"a": null}}),
        }
    }

    fn is_denied(object: &Value) -> bool {
        object["data"]["a"].as_str().is_some_and(|a| a.ends_with(DENIED_DIGITS))
    }

    fn applied(key: (&str, &str), random: &mut Random) -> (Self, Vec<String>) {
        let (metadata, mut paths) = applied_metadata(key, random);
        let data = [("applied".to_owned(), random.below(1000).to_string())].into();
        paths.push("data.applied".to_owned());
        (Self { metadata, data: Some(data), ..Self::default() }, paths)
    }
}
