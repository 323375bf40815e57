//! Static checks of CEL expressions, with the messages of kube-apiserver's compiler.
//!
//! The compiler of kube-apiserver knows all types. These checks do not, so they report only errors that are
//! certain: syntax errors, undeclared names, and results that certainly have the wrong type.

use kube_cel::cel::common::ast::Expr;
use kube_cel::cel::{IdedExpr, ParseErrors};

use crate::model::cel::ast::{calls_of, members_of, names_of};
use crate::model::cel::functions::is_function;
use crate::model::cel::made;
use crate::model::cel::nesting;
use crate::model::cel::nesting::on_large_stack;
use crate::model::cel::types::type_of;

const REQUEST: [&str; 12] = [
    "dryRun",
    "kind",
    "name",
    "namespace",
    "operation",
    "options",
    "requestKind",
    "requestResource",
    "requestSubResource",
    "resource",
    "subResource",
    "userInfo",
];
/// The variables and types that every CEL expression may use.
const ALWAYS: [&str; 18] = [
    "object",
    "oldObject",
    "request",
    "namespaceObject",
    "bool",
    "bytes",
    "double",
    "dyn",
    "google",
    "int",
    "list",
    "map",
    "net",
    "null_type",
    "optional",
    "string",
    "type",
    "uint",
];
/// CEL function libraries. The full name of a library function starts with one of these names.
const LIBRARIES: [&str; 9] =
    ["base64", "cel", "format", "ip", "jsonpatch", "lists", "math", "sets", "strings"];

#[derive(Debug, Clone)]
pub(crate) struct Declared {
    params: bool,
    authorizer: bool,
    /// True if a CEL expression may construct `Object` and `JSONPatch` values.
    patches: bool,
    /// The expression is a rule of a CRD, which has `self` and `oldSelf` instead of the variables of
    /// policies.
    is_rule: bool,
    /// The variables of the policy (`spec.variables`). Each has its type, or `None` if that is unknown.
    variables: Option<Vec<(String, Option<String>)>>,
}

impl Declared {
    pub(crate) fn new(params: bool) -> Self {
        Self { params, authorizer: true, patches: false, is_rule: false, variables: None }
    }

    /// The names that a rule of a CRD may use.
    pub(crate) fn of_rule() -> Self {
        Self { is_rule: true, ..Self::new(false).without_authorizer() }
    }

    pub(crate) fn without_authorizer(self) -> Self {
        Self { authorizer: false, ..self }
    }

    /// Allows CEL expressions to construct patches, and to use `variables` even if the policy declares none.
    pub(crate) fn with_patches(self) -> Self {
        let variables = Some(self.variables.unwrap_or_default());
        Self { patches: true, variables, ..self }
    }

    pub(crate) fn with_variables(mut self) -> Self {
        self.variables = Some(Vec::new());
        self
    }

    /// Declares a policy variable for the expressions after it. Returns the error in the variable's own
    /// expression.
    pub(crate) fn declare(&mut self, name: &str, text: &str) -> Option<String> {
        let (type_, problem) = on_large_stack(|| match self.compile(text) {
            Ok(expression) => (type_of(&expression, self), None),
            Err(why) => (Some("dyn".to_owned()), Some(why)),
        });
        self.variables.get_or_insert_default().push((name.to_owned(), type_));
        problem
    }

    /// Returns the error in a CEL expression whose result must have one of the types `wanted`.
    pub(crate) fn problem(&self, text: &str, wanted: &[&str]) -> Option<String> {
        on_large_stack(|| self.problem_here(text, wanted))
    }

    fn problem_here(&self, text: &str, wanted: &[&str]) -> Option<String> {
        let expression = match self.compile(text) {
            Ok(expression) => expression,
            Err(why) => return Some(why),
        };
        let found = type_of(&expression, self).filter(|found| !wanted.contains(&found.as_str()))?;
        Some(match wanted {
            [one] => format!("must evaluate to {one} but got {found}"),
            many => format!("must evaluate to one of [{}] but got {found}", many.join(" ")),
        })
    }

    /// Returns the type of a policy variable. The outer option is `None` if the variable is not declared, and
    /// the inner option if its type is unknown.
    pub(crate) fn variable(&self, name: &str) -> Option<Option<&str>> {
        let (_, found) = self.variables.iter().flatten().rev().find(|(known, _)| known == name)?;
        Some(found.as_deref())
    }

    /// Parses a CEL expression, and checks its names. The error has the text of kube-apiserver's compiler.
    pub(crate) fn compile(&self, text: &str) -> Result<IdedExpr, String> {
        let whole = parse(text).map_err(|errors| unreadable(text, &errors))?;
        let expression = &whole;
        let mut problems: Vec<(usize, String)> = Vec::new();
        for name in names_of(expression).into_iter().filter(|name| !self.knows(name)) {
            let why = format!("undeclared reference to '{name}' (in container '')");
            problems.push((place_of(text, None, name), why));
        }
        for name in calls_of(expression).into_iter().filter(|name| !is_function(name)) {
            let place = text.find(&format!("{name}(")).unwrap_or_default() + name.len();
            problems.push((place, format!("undeclared reference to '{name}' (in container '')")));
        }
        let mut undefined = |of: &str, known: &dyn Fn(&str) -> bool| {
            for field in members_of(expression, of).into_iter().filter(|field| !known(field)) {
                problems.push((place_of(text, Some(of), field), format!("undefined field '{field}'")));
            }
        };
        undefined("request", &|field| REQUEST.contains(&field));
        if self.variables.is_some() {
            undefined("variables", &|field| self.variable(field).is_some());
        }
        problems.extend(made::problems(text, expression, self));
        problems.sort();
        problems.dedup();
        if problems.is_empty() {
            Ok(whole)
        } else {
            let lines: Vec<String> = problems.iter().map(|(at, why)| pointed(text, *at, why)).collect();
            Err(format!("compilation failed: {}", lines.join("\n")))
        }
    }

    pub(crate) fn makes(&self, type_name: &str) -> bool {
        self.patches && made::is_type(type_name)
    }

    fn knows(&self, name: &str) -> bool {
        match name {
            "params" => self.params,
            "variables" => self.variables.is_some(),
            "authorizer" => self.authorizer,
            "self" | "oldSelf" => self.is_rule,
            "object" | "oldObject" | "request" | "namespaceObject" if self.is_rule => false,
            name => {
                name.starts_with('@')
                    || ALWAYS.contains(&name)
                    || LIBRARIES.contains(&name)
                    || name.contains('.')
            }
        }
    }
}

pub(crate) fn parse(text: &str) -> Result<IdedExpr, ParseErrors> {
    on_large_stack(|| nesting::parse(text))
}

/// Returns true if the expression is a variable whose type is only known at evaluation (`dyn`).
pub(crate) fn is_dynamic(expr: &Expr) -> bool {
    matches!(expr, Expr::Ident(name) if matches!(name.as_str(), "object" | "oldObject" | "params"))
}

fn unreadable(text: &str, errors: &ParseErrors) -> String {
    let one = |error: &kube_cel::cel::ParseError| {
        let (line, column) = error.pos;
        let start: usize = text
            .split_inclusive('\n')
            .take(usize::try_from(line - 1).unwrap_or_default())
            .map(str::len)
            .sum();
        pointed(text, start + usize::try_from(column).unwrap_or_default(), &error.msg)
    };
    let lines: Vec<String> = errors.errors.iter().map(one).collect();
    format!("compilation failed: {}", lines.join("\n"))
}

/// Formats an error message with the source line of the CEL expression and a caret below the error position.
pub(super) fn pointed(text: &str, at: usize, why: &str) -> String {
    let before = text.get(..at).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = before.matches('\n').count() + 1;
    let column = before[start..].chars().count();
    let shown = text[start..].lines().next().unwrap_or_default();
    format!("ERROR: <input>:{line}:{}: {why}\n | {shown}\n | {}^", column + 1, ".".repeat(column))
}

pub(crate) fn is_outside_of_quotes(text: &str, at: usize) -> bool {
    let quotes = text[..at].matches('\'').count() + text[..at].matches('"').count();
    quotes.is_multiple_of(2)
}

/// Returns the offset of a name in a CEL expression, or of the dot between `of` and the name. The offset is
/// searched in the text, because the parser reports no positions.
pub(super) fn place_of(text: &str, of: Option<&str>, name: &str) -> usize {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let bytes = text.as_bytes();
    let starts = |at: usize, what: &str| {
        text[at..].starts_with(what)
            && !at.checked_sub(1).is_some_and(|before| word(bytes[before]) || bytes[before] == b'.')
            && !bytes.get(at + what.len()).is_some_and(|after| word(*after))
    };
    let what = of.map_or_else(|| name.to_owned(), |of| format!("{of}.{name}"));
    let outside = |at: &usize| is_outside_of_quotes(text, *at);
    let found = text.char_indices().map(|(at, _)| at).filter(outside).find(|at| starts(*at, &what));
    found.unwrap_or_default() + of.map_or(0, str::len)
}
