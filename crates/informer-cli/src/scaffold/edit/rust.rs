//! Edits the Rust files of a project.

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Expr, ExprMethodCall, Fields, File, Item, ItemFn, MacroDelimiter, Meta, Stmt};

use super::EditError;

/// Declares a public module in a Rust file, after the other module declarations. Nothing changes if the
/// module is already declared.
pub(crate) fn add_module(text: &str, name: &str) -> Result<String, EditError> {
    let file = parse(text)?;
    let modules = || {
        file.items.iter().filter_map(|item| match item {
            Item::Mod(module) if module.content.is_none() => Some(module),
            _ => None,
        })
    };
    if modules().any(|module| module.ident == name) {
        return Ok(text.to_owned());
    }
    let declaration = format!("pub mod {name};");
    let last = modules().next_back().map(|module| module.span().byte_range());
    match (last, file.items.first()) {
        (Some(last), _) => Ok(insert(text, end_of_line(text, last.end), &format!("\n{declaration}"))),
        (None, Some(first)) => {
            Ok(insert(text, first.span().byte_range().start, &format!("{declaration}\n\n")))
        }
        (None, None) => Ok(format!("{text}\n{declaration}\n")),
    }
}

/// Adds an element to the first `vec![..]` in a function of a Rust file.
pub(crate) fn add_to_vec(text: &str, function: &str, element: &str) -> Result<String, EditError> {
    let file = parse(text)?;
    let body = find_function(&file, function)?;
    let mut finder = VecFinder { found: None };
    finder.visit_item_fn(body);
    let missing = || EditError::new(format!("the function {function} has no `vec![..]`"));
    let (end, separator) = finder.found.ok_or_else(missing)?;
    Ok(insert(text, end, &format!("{separator}{element}")))
}

/// Appends a method call to the last expression of a function in a Rust file.
pub(crate) fn add_to_chain(text: &str, function: &str, call: &str) -> Result<String, EditError> {
    let file = parse(text)?;
    match find_function(&file, function)?.block.stmts.last() {
        Some(Stmt::Expr(chain @ (Expr::MethodCall(_) | Expr::Path(_)), None)) => {
            Ok(insert(text, chain.span().byte_range().end, call))
        }
        _ => {
            Err(EditError::new(format!("the function {function} does not end with a chain of method calls")))
        }
    }
}

/// Adds a field to a struct in a Rust file, after the other fields.
pub(crate) fn add_field(text: &str, name: &str, field: &str) -> Result<String, EditError> {
    let file = parse(text)?;
    let fields = file.items.iter().find_map(|item| match item {
        Item::Struct(found) if found.ident == name => match &found.fields {
            Fields::Named(fields) => Some(fields),
            _ => None,
        },
        _ => None,
    });
    let fields =
        fields.ok_or_else(|| EditError::new(format!("there is no struct {name} with named fields")))?;
    // The new field is inserted before the closing brace, after comments that follow the last field.
    let end = text[..fields.brace_token.span.close().byte_range().start].trim_end().len();
    let lines: String = field.lines().map(|line| format!("\n    {line}")).collect();
    let edited = insert(text, end, &lines);
    match fields.named.last() {
        Some(last) if !fields.named.trailing_punct() => {
            Ok(insert(&edited, last.span().byte_range().end, ","))
        }
        _ => Ok(edited),
    }
}

/// Inserts a statement into a Rust file, before the innermost statement that calls `method` on a variable.
///
/// `statement` creates the statement from the name of the variable.
pub(crate) fn add_before_call(
    text: &str,
    method: &str,
    statement: impl FnOnce(&str) -> String,
) -> Result<String, EditError> {
    let file = parse(text)?;
    let mut finder = CallFinder { method, found: None };
    finder.visit_file(&file);
    let missing = || EditError::new(format!("no statement calls {method} on a variable"));
    let (start, variable) = finder.found.ok_or_else(missing)?;
    let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = &text[line..start];
    Ok(insert(text, start, &format!("{}\n{indent}", statement(&variable))))
}

/// Returns the arguments of the attribute `#[kube(..)]` in a Rust file: their names and values. The value of
/// an argument without a value, such as `namespaced`, is empty.
pub(crate) fn kube_arguments(text: &str) -> Result<Vec<(String, String)>, EditError> {
    let file = parse(text)?;
    let mut arguments = Vec::new();
    for item in &file.items {
        let Item::Struct(found) = item else { continue };
        for attribute in found.attrs.iter().filter(|attribute| attribute.path().is_ident("kube")) {
            let parsed = attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let mut value = String::new();
                if meta.input.peek(syn::Token![=]) {
                    let literal: syn::Lit = meta.value()?.parse()?;
                    if let syn::Lit::Str(literal) = literal {
                        value = literal.value();
                    }
                } else if meta.input.peek(syn::token::Paren) {
                    let content;
                    syn::parenthesized!(content in meta.input);
                    content.parse::<TokenStream>()?;
                }
                arguments.push((name, value));
                Ok(())
            });
            parsed.map_err(|error| EditError::new(format!("the attribute kube is invalid: {error}")))?;
        }
    }
    Ok(arguments)
}

/// Replaces the value of an argument of the attribute `#[kube(..)]` in a Rust file.
pub(crate) fn set_kube_argument(text: &str, name: &str, value: &str) -> Result<String, EditError> {
    let file = parse(text)?;
    for item in &file.items {
        let Item::Struct(found) = item else { continue };
        for attribute in found.attrs.iter().filter(|attribute| attribute.path().is_ident("kube")) {
            let Meta::List(list) = &attribute.meta else { continue };
            let tokens: Vec<TokenTree> = list.tokens.clone().into_iter().collect();
            for window in tokens.windows(3) {
                if let [TokenTree::Ident(ident), TokenTree::Punct(equals), TokenTree::Literal(literal)] =
                    window
                    && ident == name
                    && equals.as_char() == '='
                {
                    let range = literal.span().byte_range();
                    return Ok(format!("{}{value:?}{}", &text[..range.start], &text[range.end..]));
                }
            }
        }
    }
    Err(EditError::new(format!("the attribute kube has no {name}")))
}

/// Returns true if a Rust file contains a function of this name, outside of modules.
pub(crate) fn has_function(text: &str, name: &str) -> bool {
    parse(text).is_ok_and(|file| find_function(&file, name).is_ok())
}

/// Replaces an expression in a function of a Rust file. Returns an error unless the expression occurs exactly
/// once.
pub(crate) fn replace_in_function(
    text: &str,
    function: &str,
    expression: &str,
    replacement: &str,
) -> Result<String, EditError> {
    let file = parse(text)?;
    let range = find_function(&file, function)?.block.span().byte_range();
    let body = &text[range.clone()];
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut found = body.match_indices(expression).filter(|(at, _)| !body[..*at].ends_with(is_name));
    match (found.next(), found.next()) {
        (Some((at, _)), None) => {
            let (start, end) = (range.start + at, range.start + at + expression.len());
            Ok(format!("{}{replacement}{}", &text[..start], &text[end..]))
        }
        _ => {
            Err(EditError::new(format!("the function {function} does not contain {expression} exactly once")))
        }
    }
}

fn parse(text: &str) -> Result<File, EditError> {
    syn::parse_file(text).map_err(|error| {
        let line = error.span().start().line;
        EditError::new(format!("line {line}: {error}"))
    })
}

fn find_function<'a>(file: &'a File, name: &str) -> Result<&'a ItemFn, EditError> {
    let functions = file.items.iter().filter_map(|item| match item {
        Item::Fn(function) => Some(function),
        _ => None,
    });
    let found = functions.into_iter().find(|function| function.sig.ident == name);
    found.ok_or_else(|| EditError::new(format!("there is no function {name}")))
}

/// Returns the end of the line if only a comment or nothing follows after the position `at`, so that text is
/// inserted after the comment. Otherwise returns `at`.
fn end_of_line(text: &str, at: usize) -> usize {
    let rest = text[at..].lines().next().unwrap_or_default();
    let only_comment = rest.trim().is_empty() || rest.trim_start().starts_with("//");
    if only_comment { at + rest.len() } else { at }
}

fn insert(text: &str, at: usize, inserted: &str) -> String {
    format!("{}{inserted}{}", &text[..at], &text[at..])
}

/// A visitor that finds the first `vec![..]` in a Rust file. It returns the end of the last element, and the
/// separator that is needed before a further element.
struct VecFinder {
    found: Option<(usize, &'static str)>,
}

impl<'a> Visit<'a> for VecFinder {
    fn visit_macro(&mut self, found: &'a syn::Macro) {
        if let MacroDelimiter::Bracket(bracket) = &found.delimiter
            && found.path.is_ident("vec")
            && self.found.is_none()
        {
            self.found = Some(match found.tokens.clone().into_iter().last() {
                None => (bracket.span.open().byte_range().end, ""),
                Some(TokenTree::Punct(comma)) if comma.as_char() == ',' => {
                    (comma.span().byte_range().end, " ")
                }
                Some(last) => (last.span().byte_range().end, ", "),
            });
        }
    }
}

/// A visitor that finds the first innermost statement that calls `method` on a variable. It returns the
/// position of the statement and the name of the variable.
struct CallFinder<'m> {
    method: &'m str,
    found: Option<(usize, String)>,
}

impl<'a> Visit<'a> for CallFinder<'_> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        syn::visit::visit_stmt(self, statement);
        let mut receiver = ReceiverFinder { method: self.method, found: None };
        receiver.visit_stmt(statement);
        if let (Some(variable), None) = (receiver.found, &self.found) {
            self.found = Some((statement.span().byte_range().start, variable));
        }
    }
}

/// A visitor that finds the name of the variable on which `method` is called.
struct ReceiverFinder<'m> {
    method: &'m str,
    found: Option<String>,
}

impl<'a> Visit<'a> for ReceiverFinder<'_> {
    fn visit_expr_method_call(&mut self, call: &'a ExprMethodCall) {
        if let Expr::Path(path) = &*call.receiver
            && let Some(variable) = path.path.get_ident()
            && call.method == self.method
        {
            self.found = Some(variable.to_string());
        }
        syn::visit::visit_expr_method_call(self, call);
    }
}
