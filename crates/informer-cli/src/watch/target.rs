//! Parses the kinds and objects to watch that are named on the command line.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// The kind as the user has typed it: its kind, plural or short name, with or without the group.
    pub(super) kind: String,
    /// The name of the object to watch; `None` to watch all objects of the kind.
    pub(super) name: Option<String>,
}

/// One command-line argument: kinds or objects to watch, separated by commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Targets(pub(super) Vec<Target>);

/// Parses an argument such as `pods`, `pods,secrets` or `pods/web-0`.
pub(super) fn parse(text: &str) -> Result<Targets, String> {
    text.split(',').map(target).collect::<Result<_, _>>().map(Targets)
}

fn target(text: &str) -> Result<Target, String> {
    let (kind, name) = match text.split_once('/') {
        Some((kind, name)) => (kind, Some(name)),
        None => (text, None),
    };
    let is_valid = |part: &str| !part.is_empty() && !part.contains('/');
    if !is_valid(kind) || !name.is_none_or(is_valid) {
        return Err(format!("{text:?} is neither a kind nor KIND/NAME; write it as pods or pods/web-0"));
    }
    Ok(Target { kind: kind.to_owned(), name: name.map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_names_kinds_and_objects() {
        let target =
            |kind: &str, name: Option<&str>| Target { kind: kind.to_owned(), name: name.map(str::to_owned) };
        assert_eq!(parse("pods"), Ok(Targets(vec![target("pods", None)])));
        let several = vec![target("po", Some("web-0")), target("deployments.apps", None)];
        assert_eq!(parse("po/web-0,deployments.apps"), Ok(Targets(several)));
        for invalid in ["", "pods,", "/web-0", "pods/", "pods/default/web-0"] {
            assert!(parse(invalid).is_err(), "{invalid:?}");
        }
    }
}
