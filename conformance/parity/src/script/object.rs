use std::str::FromStr;

use serde_json::{Map, Value, json};

/// Shorthand for an object: `[NAMESPACE/]NAME@VERSION[#UID] [app=VALUE]`. The namespace defaults to
/// `default`, and the uid to one that is derived from the name. A name or a version may be empty, as in
/// responses of broken servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectText {
    namespace: String,
    name: String,
    version: String,
    uid: String,
    app: Option<String>,
}

impl ObjectText {
    /// Returns the object as the JSON of a ConfigMap. Events contain the kind (`with_type`); the items of a
    /// list do not.
    pub fn json(&self, with_type: bool) -> Value {
        let mut metadata = Map::new();
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                metadata.insert(name.to_owned(), value.into());
            }
        };
        put("name", &self.name);
        put("namespace", &self.namespace);
        put("uid", &self.uid);
        put("resourceVersion", &self.version);
        if let Some(app) = &self.app {
            metadata.insert("labels".to_owned(), json!({ "app": app }));
        }
        let mut object = json!({ "metadata": metadata, "data": { "text": "something" } });
        if with_type {
            object["kind"] = "ConfigMap".into();
            object["apiVersion"] = "v1".into();
        }
        object
    }
}

impl FromStr for ObjectText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("{text:?} is not an object; write it as \"[NAMESPACE/]NAME@VERSION[#UID] [app=VALUE]\"")
        };
        let mut words = text.split(' ');
        let what = words.next().unwrap_or_default();
        let app = words.next().map(|label| label.strip_prefix("app=").map(str::to_owned).ok_or_else(bad));
        if words.next().is_some() {
            return Err(bad());
        }
        let (key, rest) = what.split_once('@').ok_or_else(bad)?;
        let (namespace, name) = key.split_once('/').unwrap_or(("default", key));
        let (version, uid) = match rest.split_once('#') {
            Some((version, uid)) => (version, format!("uid-{uid}")),
            None => (rest, format!("uid-{name}")),
        };
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            uid,
            app: app.transpose()?,
        })
    }
}
