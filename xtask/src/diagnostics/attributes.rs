//! The messages of this library: the texts of its `#[diagnostic::on_unimplemented]` attributes.

use std::fmt;
use std::fs;
use std::path::Path;

use regex::Regex;
use syn::{Attribute, Item, ItemTrait, LitStr};

/// The part of a compiler error that a `#[diagnostic::on_unimplemented]` attribute sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Message,
    Label,
    Note,
}

impl Role {
    fn of(path: &syn::Path) -> Option<Self> {
        match path.get_ident()?.to_string().as_str() {
            "message" => Some(Self::Message),
            "label" => Some(Self::Label),
            "note" => Some(Self::Note),
            _ => None,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message => "message",
            Self::Label => "label",
            Self::Note => "note",
        })
    }
}

/// A text of a `#[diagnostic::on_unimplemented]` attribute, with placeholders such as `{Self}`.
#[derive(Debug)]
struct Template {
    trait_name: String,
    role: Role,
    /// The parts of the text before, between and after the placeholders.
    literals: Vec<String>,
    pattern: Regex,
}

impl Template {
    fn new(trait_name: &str, role: Role, text: &str) -> Result<Self, String> {
        let literals = literals(text);
        let escaped: Vec<_> = literals.iter().map(|literal| regex::escape(literal)).collect();
        let pattern = Regex::new(&format!("(?s)^{}$", escaped.join("(.*?)")))
            .map_err(|error| format!("{trait_name}: the {role} cannot be matched: {error}"))?;
        Ok(Self { trait_name: trait_name.to_owned(), role, literals, pattern })
    }

    /// If this template can have produced a text of the compiler, returns the text with shortened names of
    /// types, otherwise `None`.
    fn shorten(&self, text: &str) -> Option<String> {
        let captures = self.pattern.captures(text)?;
        let values = captures.iter().skip(1).map(|value| value.map_or("", |value| value.as_str()));
        let mut shortened = self.literals[0].clone();
        for (value, literal) in values.zip(&self.literals[1..]) {
            shortened.push_str(&short_type(value));
            shortened.push_str(literal);
        }
        Some(shortened)
    }
}

/// Splits a format string at its placeholders, and replaces the escapes `{{` and `}}` with `{` and `}`.
fn literals(text: &str) -> Vec<String> {
    let mut literals = vec![String::new()];
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let last = literals.last_mut().expect("it begins with one literal and never becomes empty");
        match character {
            '{' | '}' if rest.peek() == Some(&character) => last.extend(rest.next()),
            '{' => {
                rest.by_ref().take_while(|character| *character != '}').for_each(drop);
                literals.push(String::new());
            }
            _ => last.push(character),
        }
    }
    literals
}

/// Removes the parts of a type's name that depend on the version of rustc and on the position of the code:
/// the paths of modules and the locations of closures. Generic arguments with closures are also removed,
/// because rustc may abbreviate them.
fn short_type(name: &str) -> String {
    if let Some((generic, arguments)) = name.split_once('<')
        && arguments.contains("{closure")
    {
        return format!("{}<..>", without_modules(generic));
    }
    let mut short = String::new();
    let mut rest = name;
    while let Some((before, kind, after)) = next_location(rest) {
        short.push_str(&without_modules(before));
        short.push_str(&format!("{{{kind}}}"));
        rest = after;
    }
    short + &without_modules(rest)
}

/// Splits a type's name at its first part in braces, such as `{closure@FILE:LINE:COLUMN: LINE:COLUMN}`.
/// Returns the text before it, its kind (`closure`) and the text after it.
fn next_location(name: &str) -> Option<(&str, &str, &str)> {
    let (before, located) = name.split_once('{')?;
    let (inner, after) = located.split_once('}')?;
    let (kind, _) = inner.split_once('@').unwrap_or((inner, ""));
    Some((before, kind, after))
}

fn without_modules(name: &str) -> String {
    let mut kept = String::new();
    for part in name.split_inclusive(|character: char| !is_in_path(character)) {
        let end = part.find(|character| !is_in_path(character)).unwrap_or(part.len());
        let (path, separator) = part.split_at(end);
        kept.push_str(path.rsplit("::").next().unwrap_or(path));
        kept.push_str(separator);
    }
    kept
}

fn is_in_path(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == ':'
}

/// The texts of the `#[diagnostic::on_unimplemented]` attributes of all traits of the library crates.
#[derive(Debug)]
pub(super) struct Attributes {
    templates: Vec<Template>,
}

impl Attributes {
    /// Reads the attributes of the traits in all Rust files below `crates`.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut attributes = Self { templates: Vec::new() };
        attributes.read_folder(&root.join("crates"))?;
        Ok(attributes)
    }

    fn read_folder(&mut self, folder: &Path) -> Result<(), String> {
        let entries = fs::read_dir(folder).map_err(|error| format!("read {}: {error}", folder.display()))?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                self.read_folder(&path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text =
                    fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
                self.read_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, text: &str) -> Result<(), String> {
        // Only files that contain the name of the attribute are parsed. Parsing all files would take
        // several seconds.
        if !text.contains("diagnostic::on_unimplemented") {
            return Ok(());
        }
        let file = syn::parse_file(text).map_err(|error| error.to_string())?;
        let traits = file.items.iter().filter_map(|item| match item {
            Item::Trait(item) => Some(item),
            _ => None,
        });
        traits.into_iter().try_for_each(|item| self.read_trait(item))
    }

    fn read_trait(&mut self, item: &ItemTrait) -> Result<(), String> {
        let name = item.ident.to_string();
        for attribute in item.attrs.iter().filter(|attribute| is_message(attribute)) {
            let mut texts = Vec::new();
            let read = attribute.parse_nested_meta(|meta| {
                let role = Role::of(&meta.path).ok_or_else(|| meta.error("unknown part of a message"))?;
                texts.push((role, meta.value()?.parse::<LitStr>()?.value()));
                Ok(())
            });
            read.map_err(|error| format!("{name}: {error}"))?;
            for (role, text) in texts {
                self.templates.push(Template::new(&name, role, &text)?);
            }
        }
        Ok(())
    }

    /// If a text of the compiler is from an attribute, returns it with shortened names of types, otherwise
    /// `None`.
    pub(super) fn shorten(&self, role: Role, text: &str) -> Option<String> {
        let mut templates = self.templates.iter().filter(|template| template.role == role);
        templates.find_map(|template| template.shorten(text))
    }

    /// Returns the names of the traits whose attribute sets the message of the compiler's error.
    pub(super) fn traits(&self) -> impl Iterator<Item = &str> {
        let messages = self.templates.iter().filter(|template| template.role == Role::Message);
        messages.map(|template| template.trait_name.as_str())
    }

    /// Returns the names of the traits whose message is in `expected`, the content of an expected file.
    pub(super) fn traits_in(&self, expected: &str) -> Vec<&str> {
        let messages: Vec<_> =
            expected.lines().filter_map(|line| line.trim_start().strip_prefix("message: ")).collect();
        let templates = self.templates.iter().filter(|template| template.role == Role::Message);
        let shown = templates.filter(|template| messages.iter().any(|text| template.pattern.is_match(text)));
        shown.map(|template| template.trait_name.as_str()).collect()
    }
}

fn is_message(attribute: &Attribute) -> bool {
    let segments: Vec<_> =
        attribute.path().segments.iter().map(|segment| segment.ident.to_string()).collect();
    segments == ["diagnostic", "on_unimplemented"]
}

#[cfg(test)]
impl Attributes {
    /// Reads the attributes of the traits in `text`, the source of one file.
    pub(super) fn of(text: &str) -> Self {
        let mut attributes = Self { templates: Vec::new() };
        attributes.read_file(text).unwrap();
        attributes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAIT: &str = r#"
        #[diagnostic::on_unimplemented(
            message = "`{Self}` is no index of `{O}`",
            label = "not an index",
            note = "write \
                    `|object| async move {{ .. }}`"
        )]
        pub trait Index<O> {}
        pub trait Other {}
    "#;

    #[test]
    fn texts_of_an_attribute_are_recognized_with_any_types() {
        let attributes = Attributes::of(TRAIT);
        assert_eq!(attributes.traits().collect::<Vec<_>>(), ["Index"]);
        let message = attributes.shorten(Role::Message, "`a::My<b::c::D>` is no index of `&str`");
        assert_eq!(message.as_deref(), Some("`My<D>` is no index of `&str`"));
        let note = "write `|object| async move { .. }`";
        assert_eq!(attributes.shorten(Role::Note, note).as_deref(), Some(note));
        assert_eq!(attributes.shorten(Role::Label, note), None);
        assert_eq!(attributes.shorten(Role::Message, "the trait `Index` is not implemented"), None);
    }

    #[test]
    fn locations_of_closures_are_left_out() {
        assert_eq!(short_type("{closure@src/a.rs:12:35: 12:44}"), "{closure}");
        assert_eq!(short_type("{async block@src/a.rs:1:2: 1:3}"), "{async block}");
        assert_eq!(short_type("{integer}"), "{integer}");
    }

    #[test]
    fn generic_arguments_with_closures_are_left_out() {
        let long = "a::Map<{closure@src/a.rs:12:35: 12:44}, for<'a> fn(&'a core::Pod) -> [k::Request; 1]>";
        assert_eq!(short_type(long), "Map<..>");
        assert_eq!(short_type("Map<{closure@src/a.rs:12:35}, fn(&Pod) -> ...>"), "Map<..>");
    }

    #[test]
    fn shown_traits_are_those_whose_message_is_expected() {
        let attributes = Attributes::of(TRAIT);
        assert_eq!(
            attributes.traits_in("error[E0277] in line 3\n  message: `A` is no index of `B`\n"),
            ["Index"]
        );
        assert!(attributes.traits_in("error[E0277] in line 3\n  label: not an index\n").is_empty());
    }
}
