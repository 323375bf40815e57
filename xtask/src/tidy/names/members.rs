//! The members of the types of this workspace's crates: the names that may follow `Type::` in a document.

use std::collections::{HashMap, HashSet};

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Type};

/// The types and traits of the crates, with their members. Types of one name in several crates have separate
/// entries, since the `impl` blocks of a type are in its crate.
#[derive(Default)]
pub(super) struct Members {
    /// The outer key is the name of a type, the inner key the name of a crate that declares a type of this
    /// name or has `impl` blocks for one.
    types: HashMap<String, HashMap<String, TypeMembers>>,
}

#[derive(Default)]
struct TypeMembers {
    /// False if the crate contains only `impl` blocks of the type, which another crate declares.
    declared: bool,
    /// The names of the type's variants and fields, and of the functions, constants and types in its `impl`
    /// blocks. For a trait, the names of its items.
    own: HashSet<String>,
    /// The names of the types and traits whose members the type also has: the traits that it implements,
    /// since their provided functions are not in its `impl` blocks, and for an alias the aliased type.
    inherits: HashSet<String>,
}

impl Members {
    /// Adds the types of a file of the crate `krate`, with their methods, fields and variants. Test modules
    /// are ignored.
    pub(super) fn add(&mut self, krate: &str, items: &[Item]) {
        for item in items {
            match item {
                Item::Mod(item) if !item.attrs.iter().any(is_cfg_test) => {
                    self.add(krate, item.content.as_ref().map_or(&[], |(_, items)| items.as_slice()));
                }
                Item::Struct(item) => {
                    let members = fields(&item.fields).chain(derived(&item.attrs));
                    self.declare(krate, &item.ident, members);
                }
                Item::Enum(item) => {
                    let variants = item.variants.iter().map(|variant| variant.ident.to_string());
                    self.declare(krate, &item.ident, variants.chain(derived(&item.attrs)));
                }
                Item::Trait(item) => {
                    self.declare(krate, &item.ident, item.items.iter().filter_map(trait_member));
                }
                Item::Type(item) => {
                    self.declare(krate, &item.ident, []);
                    self.of(krate, &item.ident).inherits.extend(last_segment(&item.ty));
                }
                Item::Impl(item) => {
                    let Some(name) = last_segment(&item.self_ty) else { continue };
                    let members = self.of(krate, &name);
                    members.own.extend(item.items.iter().filter_map(impl_member));
                    let implemented = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
                    members.inherits.extend(implemented.map(|segment| segment.ident.to_string()));
                }
                _ => {}
            }
        }
    }

    /// Returns true if a type or trait with this name has this member in one of the crates, and `None` if no
    /// crate declares the name.
    pub(super) fn has(&self, name: &str, member: &str) -> Option<bool> {
        self.search(name, member, &mut HashSet::new())
    }

    fn search<'a>(&'a self, name: &'a str, member: &str, seen: &mut HashSet<&'a str>) -> Option<bool> {
        let crates = self.types.get(name).filter(|crates| crates.values().any(|members| members.declared))?;
        if !seen.insert(name) {
            return Some(false);
        }
        Some(crates.values().filter(|members| members.declared).any(|members| {
            members.own.contains(member)
                || members.inherits.iter().any(|name| self.search(name, member, seen) == Some(true))
        }))
    }

    fn of(&mut self, krate: &str, name: impl ToString) -> &mut TypeMembers {
        self.types.entry(name.to_string()).or_default().entry(krate.to_owned()).or_default()
    }

    fn declare(&mut self, krate: &str, name: impl ToString, members: impl IntoIterator<Item = String>) {
        let entry = self.of(krate, name);
        entry.declared = true;
        entry.own.extend(members);
    }
}

pub(in crate::tidy) fn is_cfg_test(attribute: &Attribute) -> bool {
    attribute.meta.to_token_stream().to_string() == "cfg (test)"
}

/// Returns the members that a type has by derived traits. Only `default` of the trait `Default` is
/// recognized, because documents mention no other one.
fn derived(attributes: &[Attribute]) -> Option<String> {
    let derives = |attribute: &Attribute| {
        let text = attribute.meta.to_token_stream().to_string();
        attribute.path().is_ident("derive") && text.contains("Default")
    };
    attributes.iter().any(derives).then(|| "default".to_owned())
}

fn fields(fields: &Fields) -> impl Iterator<Item = String> {
    fields.iter().filter_map(|field| field.ident.as_ref().map(ToString::to_string))
}

fn trait_member(item: &TraitItem) -> Option<String> {
    match item {
        TraitItem::Fn(item) => Some(item.sig.ident.to_string()),
        TraitItem::Const(item) => Some(item.ident.to_string()),
        TraitItem::Type(item) => Some(item.ident.to_string()),
        _ => None,
    }
}

fn impl_member(item: &ImplItem) -> Option<String> {
    match item {
        ImplItem::Fn(item) => Some(item.sig.ident.to_string()),
        ImplItem::Const(item) => Some(item.ident.to_string()),
        ImplItem::Type(item) => Some(item.ident.to_string()),
        _ => None,
    }
}

fn last_segment(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(files: &[(&str, &str)]) -> Members {
        let mut members = Members::default();
        for (krate, text) in files {
            members.add(krate, &syn::parse_file(text).unwrap().items);
        }
        members
    }

    #[test]
    fn member_is_a_function_constant_variant_field_or_associated_type() {
        let members = members(&[(
            "a",
            "#[derive(Debug, Default)] pub struct S<T> { field: T }\n impl<T> S<T> { pub const MAX: u8 = 1; pub fn by() {} }\n\
             pub enum E { One(u8) }\n pub trait T { type Item; const MIN: u8; fn provided() {} }\n",
        )]);
        for (name, member) in [
            ("S", "field"),
            ("S", "MAX"),
            ("S", "by"),
            ("S", "default"),
            ("E", "One"),
            ("T", "Item"),
            ("T", "MIN"),
            ("T", "provided"),
        ] {
            assert_eq!(members.has(name, member), Some(true), "{name}::{member}");
        }
        assert_eq!(members.has("E", "by"), Some(false), "a member of another type");
        assert_eq!(members.has("S", "One"), Some(false));
        assert_eq!(members.has("Unknown", "by"), None);
    }

    #[test]
    fn type_has_the_members_of_its_traits_and_an_alias_those_of_its_target() {
        let members = members(&[
            ("a", "pub trait T: Sized { fn provided() {} }"),
            ("b", "pub struct S; impl a::T for S {} mod inner { pub type Alias = super::S; }"),
        ]);
        assert_eq!(members.has("S", "provided"), Some(true));
        assert_eq!(members.has("Alias", "provided"), Some(true));
        assert_eq!(members.has("Alias", "other"), Some(false));
    }

    #[test]
    fn types_of_one_name_are_kept_apart_by_crate() {
        let members = members(&[
            ("a", "pub struct S; impl S { fn of_a() {} } #[cfg(test)] mod tests { struct Test; }"),
            ("b", "pub struct S; impl S { fn of_b() {} }"),
            ("c", "trait Ext { fn of_c() {} } impl Ext for a::S { fn of_c() {} }"),
        ]);
        assert_eq!((members.has("S", "of_a"), members.has("S", "of_b")), (Some(true), Some(true)));
        assert_eq!(members.has("S", "of_c"), Some(false), "an `impl` block in another crate");
        assert_eq!(members.has("Test", "of_a"), None);
    }
}
