//! Evaluation, within a budget.

use std::collections::HashMap;
use std::sync::LazyLock;

use kube_cel::KubeCelExt;
use kube_cel::cel::{self, IdedExpr};
use serde_json::{Map, Value};

use super::authorizer::{self, AUTHORIZER, REQUEST_RESOURCE};
use super::check::parse;
use super::values::{extent, index_fields, missing, no_member, to_cel, worded};
use super::{Asker, Failure, Outcome, Subject};
use crate::custom::{cost_of_expression, makes_messages, members_of, names_of};

/// Costs are reckoned before and are upper bounds, so twice upstream's limits hold.
const LENIENCE: u64 = 2;
/// What one expression may cost, as upstream.
const ONE_MAX: u64 = 1_000_000;

/// The functions that expressions may call.
static FUNCTIONS: LazyLock<cel::Context<'static>> = LazyLock::new(|| {
    let mut context = cel::Context::default().with_all();
    authorizer::register(&mut context);
    context
});

/// One expression, compiled.
pub(in crate::admission) struct Expression {
    text: String,
    program: Result<Compiled, String>,
}

struct Compiled {
    /// As it is written.
    written: IdedExpr,
    /// As it is evaluated.
    strict: IdedExpr,
}

impl Compiled {
    fn new(written: IdedExpr) -> Self {
        let mut strict = written.clone();
        index_fields(&mut strict);
        Self { written, strict }
    }
}

impl Expression {
    pub(in crate::admission) fn new(text: &str) -> Self {
        let program = match parse(text) {
            // The interpreter gives up the whole program over them.
            Ok(expression) if makes_messages(&expression) => Err("undeclared reference to a type".to_owned()),
            Ok(expression) => Ok(Compiled::new(expression)),
            Err(errors) => Err(errors.to_string()),
        };
        Self { text: text.to_owned(), program }
    }

    /// Whether one of these asks what users may do.
    pub(in crate::admission) fn asks(all: &[Self]) -> bool {
        let asks = |program: &Compiled| names_of(&program.written).contains(&AUTHORIZER);
        all.iter().any(|one| one.program.as_ref().is_ok_and(asks))
    }

    pub(in crate::admission) fn text(&self) -> &str {
        &self.text
    }
}

/// Expressions over one request, and what they have spent.
pub(in crate::admission) struct Run<'a> {
    context: cel::Context<'static>,
    subject: Vec<(&'static str, &'a Value)>,
    variables: Variables<'a>,
    left: u64,
}

/// Named expressions, evaluated when the first one wants them.
struct Variables<'a> {
    all: &'a [(String, Expression)],
    known: HashMap<String, cel::Value>,
    /// As long as those that are known.
    extents: Value,
    broken: HashMap<String, String>,
}

impl<'a> Run<'a> {
    pub(in crate::admission) fn new(subject: &Subject<'a>, variables: &'a [(String, Expression)]) -> Self {
        let mut context = FUNCTIONS.new_inner_scope();
        for (name, value) in subject {
            context.add_variable_from_value(*name, to_cel(value));
        }
        context.add_variable_from_value("variables", HashMap::<String, cel::Value>::new());
        let extents = Value::Object(Map::new());
        let variables = Variables { all: variables, known: HashMap::new(), extents, broken: HashMap::new() };
        Self { context, subject: subject.to_vec(), variables, left: 0 }
    }

    /// Lets expressions ask what users may do.
    pub(in crate::admission) fn tell(&mut self, asker: &Asker<'_>) {
        self.context.add_variable_from_value(AUTHORIZER, authorizer::of(asker));
        self.context.add_variable_from_value(REQUEST_RESOURCE, authorizer::of_resource(asker));
    }

    /// What the expressions from here on may cost together.
    pub(in crate::admission) fn refill(&mut self, budget: u64) {
        self.left = budget.saturating_mul(LENIENCE);
    }

    /// What an expression comes to.
    pub(in crate::admission) fn evaluate(&mut self, expression: &Expression) -> Result<Outcome, Failure> {
        let program = expression.program.as_ref();
        let program = program.map_err(|why| Failure::new(format!("compilation error: {why}")))?;
        let said = |why: String| {
            Failure::new(format!("expression '{}' resulted in error: {why}", expression.text()))
        };
        match self.execute(program)? {
            Ok(cel::Value::Bool(holds)) => Ok(Outcome::Bool(holds)),
            Ok(cel::Value::String(text)) => Ok(Outcome::Text(text.to_string())),
            Ok(cel::Value::Null) => Ok(Outcome::Null),
            Ok(_) => Ok(Outcome::Other),
            Err(why) => Err(said(why)),
        }
    }

    /// Runs a program, after the variables that it names. The outer error ends all.
    fn execute(&mut self, program: &Compiled) -> Result<Result<cel::Value, String>, Failure> {
        self.prepare(program)?;
        let mut about = self.subject.clone();
        about.push(("variables", &self.variables.extents));
        let cost = cost_of_expression(&program.written, &about);
        if cost > ONE_MAX.saturating_mul(LENIENCE) {
            return Ok(Err("operation cancelled: actual cost limit exceeded".to_owned()));
        }
        let Some(left) = self.left.checked_sub(cost) else {
            let why = "validation failed due to running out of cost budget, no further validation rules will be \
                       run";
            return Err(Failure { why: why.to_owned(), ends_all: true });
        };
        self.left = left;
        Ok(cel::Value::resolve(&program.strict, &self.context)
            .map_err(|error| self.reason(program, &about, &error)))
    }

    fn reason(&self, program: &Compiled, about: &Subject<'_>, error: &cel::ExecutionError) -> String {
        let key = match error {
            cel::ExecutionError::NoSuchKey(key) => Some(key.as_str()),
            // The interpreter does not name the key where it was to be an argument.
            cel::ExecutionError::MissingArgumentOrTarget => missing(&program.written, about),
            cel::ExecutionError::NoSuchOverload => no_member(&program.written, about),
            _ => None,
        };
        match key.map(|key| (key, self.variables.broken.get(key))) {
            Some((_, Some(why))) => why.clone(),
            Some((key, None)) => format!("no such key: {key}"),
            None => worded(error),
        }
    }

    /// Evaluates the variables that a program names and nobody has named before.
    fn prepare(&mut self, program: &Compiled) -> Result<(), Failure> {
        let all = self.variables.all;
        for name in members_of(&program.written, "variables") {
            let Variables { known, broken, .. } = &self.variables;
            if known.contains_key(name) || broken.contains_key(name) {
                continue;
            }
            // A variable sees those before it only: there is no way round in circles.
            let Some(place) = all.iter().position(|(known, _)| known == name) else { continue };
            let (_, expression) = &all[place];
            self.variables.all = &all[..place];
            let outcome = match &expression.program {
                Ok(program) => {
                    self.execute(program).map(|value| value.map_err(|why| format!("evaluate: {why}")))
                }
                Err(why) => Ok(Err(format!("compile: {why}"))),
            };
            self.variables.all = all;
            match outcome? {
                Ok(value) => {
                    self.variables.extents[name] = extent(&value);
                    self.variables.known.insert(name.to_owned(), value);
                    self.context.add_variable_from_value("variables", self.variables.known.clone());
                }
                Err(why) => {
                    let why = format!("composited variable {name:?} fails to {why}");
                    self.variables.broken.insert(name.to_owned(), why);
                }
            }
        }
        Ok(())
    }
}
