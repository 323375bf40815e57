//! Edits of YAML files. The result is parsed and compared with the expected value, so that an unusual layout
//! is an error and not a wrong file.

use serde_norway::{Mapping, Value};

use super::EditError;

/// Adds a string to a list at the top level of a YAML file. Creates the list if it is missing. Nothing
/// changes if the list already contains the string.
pub(crate) fn add_item(text: &str, list: &str, item: &str) -> Result<String, EditError> {
    add_value(text, list, &Value::from(item), item)
}

/// Adds the mapping `path: FILE` to a list at the top level of a YAML file, such as the patches of a
/// kustomization.
pub(crate) fn add_path(text: &str, list: &str, file: &str) -> Result<String, EditError> {
    let entry = [(Value::from("path"), Value::from(file))];
    add_value(text, list, &Value::from(Mapping::from_iter(entry)), &format!("path: {file}"))
}

fn add_value(text: &str, list: &str, item: &Value, line: &str) -> Result<String, EditError> {
    let mut expected = parse(text)?;
    let root = expected.as_mapping_mut().ok_or_else(|| EditError::new("it is not a mapping"))?;
    let items = root.entry(list.into()).or_insert_with(|| Value::Sequence(Vec::new()));
    let items = items.as_sequence_mut().ok_or_else(|| EditError::new(format!("{list} is not a list")))?;
    if items.contains(item) {
        return Ok(text.to_owned());
    }
    items.push(item.clone());

    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match lines.iter().position(|line| line.trim_end() == format!("{list}:")) {
        Some(key) => {
            // The list ends before the next key at the top level. A new item gets the indentation of the
            // list's first item.
            let end = lines[key + 1..].iter().position(|line| line.starts_with(|c: char| c.is_alphabetic()));
            let end = end.map_or(lines.len(), |length| key + 1 + length);
            let last = lines[..end].iter().rposition(|line| !line.trim().is_empty()).unwrap_or(key);
            let first = lines[key + 1..end].iter().find(|line| line.trim_start().starts_with("- "));
            let indent = first.map_or(0, |line| line.len() - line.trim_start().len());
            lines.insert(last + 1, format!("{}- {line}", " ".repeat(indent)));
        }
        None => lines.extend([format!("{list}:"), format!("- {line}")]),
    }
    checked(lines.join("\n") + "\n", &expected, list)
}

/// Sets a boolean in a mapping that is the value of a key at the top level of a YAML file.
pub(crate) fn set_bool(text: &str, key: &str, name: &str, value: bool) -> Result<String, EditError> {
    let mut expected = parse(text)?;
    let missing = || EditError::new(format!("there is no {key}.{name}"));
    let target = expected.get_mut(key).and_then(|inner| inner.get_mut(name)).ok_or_else(missing)?;
    *target = Value::Bool(value);

    let mut inside = false;
    let mut edited = String::new();
    for line in text.lines() {
        if line.starts_with(|c: char| c.is_alphabetic()) {
            inside = line.trim_end() == format!("{key}:");
        }
        let field = line.trim_start().split_once(':').map(|(field, _)| field);
        if inside && field == Some(name) {
            edited.push_str(&format!("{}{name}: {value}\n", &line[..line.len() - line.trim_start().len()]))
        } else {
            edited.push_str(&format!("{line}\n"))
        }
    }
    checked(edited, &expected, key)
}

fn parse(text: &str) -> Result<Value, EditError> {
    let value: Value = serde_norway::from_str(text).map_err(|error| EditError::new(error.to_string()))?;
    // A YAML parser returns null for an empty file, which is edited like an empty mapping.
    Ok(if value.is_null() { Value::Mapping(Mapping::new()) } else { value })
}

fn checked(edited: String, expected: &Value, key: &str) -> Result<String, EditError> {
    match parse(&edited) {
        Ok(value) if value == *expected => Ok(edited),
        _ => Err(EditError::new(format!("the layout of {key} is unusual"))),
    }
}
