use serde_json::Value;

/// Formats a label selector as a string. Labels and expressions are sorted by key.
pub(crate) fn selector_text(selector: &Value) -> String {
    let labelled = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    let labels = if labelled { &selector["matchLabels"] } else { selector };
    let mut terms: Vec<(String, String)> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        terms.push((
            key.to_owned(),
            match expression["operator"].as_str().unwrap_or_default() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                _ => format!("!{key}"),
            },
        ));
    }
    terms.sort();
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}
