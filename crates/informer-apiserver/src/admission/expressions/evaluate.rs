//! Evaluates CEL expressions within a cost budget.

use std::collections::HashMap;
use std::sync::LazyLock;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, Expr};
use kube_cel::cel::extractors::This;
use kube_cel::cel::{self, IdedExpr};
use serde_json::{Map, Value};

use crate::admission::expressions::authorizer::{self, AUTHORIZER, REQUEST_RESOURCE};
use crate::admission::expressions::values::{
    cel_go_message, field_of_scalar, index_fields, missing_argument, size_equivalent, to_cel, to_json,
};
use crate::admission::expressions::{AuthorizerInput, BoundVariables, EvaluationError, ExpressionValue};
use crate::model::cel::ast::{constructs_messages, members_of, names_of};
use crate::model::cel::check::parse;
use crate::model::cel::made::as_maps;
use crate::model::cel::nesting::{is_deeper, on_large_stack};
use crate::model::schema::cost_of_expression;

/// Factor for the cost limits of kube-apiserver. Costs are estimated before evaluation here, and these upper
/// bounds exceed the runtime costs that kube-apiserver counts.
const COST_FACTOR: u64 = 2;
/// Cost limit of one CEL expression, as in kube-apiserver.
const MAX_EXPRESSION_COST: u64 = 1_000_000;

/// Maximum depth of policy variables that use each other, and of nested JSON values. Both are evaluated by
/// recursion, which this limit bounds.
const MAX_NESTING: usize = 128;

/// Maximum nesting of an expression that is evaluated on the caller's stack. A deeper expression gets a
/// separate large stack, because one level needs tens of kilobytes in unoptimized builds.
const MAX_LEVELS: usize = 16;
/// The CEL context with all functions that admission expressions may call.
static FUNCTIONS: LazyLock<cel::Context<'static>> = LazyLock::new(|| {
    let mut context = cel::Context::default().with_all();
    authorizer::register(&mut context);
    context.add_function("string", text_of);
    context
});

/// The CEL context with the functions of the interpreter and its libraries, but without those that this crate
/// adds.
static LIBRARY: LazyLock<cel::Context<'static>> = LazyLock::new(|| cel::Context::default().with_all());

/// The CEL function `string()`. It replaces the library's function, which does not support `bool`.
fn text_of(This(this): This<cel::Value>) -> cel::ResolveResult {
    if let cel::Value::Bool(is) = this {
        return Ok(cel::Value::String(is.to_string().into()));
    }
    let mut scope = LIBRARY.new_inner_scope();
    scope.add_variable_from_value("it", this);
    let it = IdedExpr { id: 0, expr: Expr::Ident("it".to_owned()) };
    let call = CallExpr { func_name: "string".to_owned(), target: None, args: vec![it] };
    cel::Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, &scope)
}

pub(crate) struct Expression {
    text: String,
    program: Result<CompiledExpression, String>,
}

struct CompiledExpression {
    /// The parsed expression as the user wrote it. Cost estimates and error messages use it.
    written: IdedExpr,
    /// The parsed expression after [`index_fields`] has rewritten it for evaluation.
    strict: IdedExpr,
    /// The expression is nested too deeply for the caller's stack and is evaluated on a separate large stack.
    is_deep: bool,
}

impl CompiledExpression {
    fn new(written: IdedExpr) -> Self {
        let is_deep = is_deeper(&written, MAX_LEVELS);
        let strict = || {
            let mut strict = written.clone();
            index_fields(&mut strict);
            strict
        };
        let strict = if is_deep { on_large_stack(strict) } else { strict() };
        Self { written, strict, is_deep }
    }

    fn resolve(&self, context: &cel::Context<'static>) -> cel::ResolveResult {
        let resolve = || cel::Value::resolve(&self.strict, context);
        if self.is_deep { on_large_stack(resolve) } else { resolve() }
    }
}

impl Expression {
    pub(crate) fn new(text: &str) -> Self {
        let program = match parse(text) {
            // The CEL interpreter panics on message literals, so expressions with one are compile errors.
            Ok(expression) if constructs_messages(&expression) => {
                Err("undeclared reference to a type".to_owned())
            }
            Ok(expression) => Ok(CompiledExpression::new(expression)),
            Err(errors) => Err(errors.to_string()),
        };
        Self { text: text.to_owned(), program }
    }

    /// Compiles the expression of a mutation, which may construct `Object` and `JSONPatch` values.
    pub(crate) fn with_patch_types(text: &str) -> Self {
        let program = match parse(text) {
            Ok(mut expression) => as_maps(&mut expression).map(|()| CompiledExpression::new(expression)),
            Err(errors) => Err(errors.to_string()),
        };
        Self { text: text.to_owned(), program }
    }

    pub(crate) fn uses_authorizer(all: &[Self]) -> bool {
        let uses_authorizer = |program: &CompiledExpression| names_of(&program.written).contains(&AUTHORIZER);
        all.iter().any(|one| one.program.as_ref().is_ok_and(uses_authorizer))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Evaluates expressions for one request and tracks their cost.
pub(crate) struct Run<'a> {
    context: cel::Context<'static>,
    subject: Vec<(&'static str, &'a Value)>,
    variables: Variables<'a>,
    left: u64,
}

/// The variables of a policy (`spec.variables`), evaluated on first use.
struct Variables<'a> {
    all: &'a [(String, Expression)],
    known: HashMap<String, cel::Value>,
    /// JSON values of the same size as the evaluated variables in `known`, for cost estimates.
    sizes: Value,
    broken: HashMap<String, String>,
    nesting: usize,
}

impl<'a> Run<'a> {
    pub(crate) fn new(subject: &BoundVariables<'a>, variables: &'a [(String, Expression)]) -> Self {
        let mut context = FUNCTIONS.new_inner_scope();
        for (name, value) in subject {
            context.add_variable_from_value(*name, to_cel(value));
        }
        context.add_variable_from_value("variables", HashMap::<String, cel::Value>::new());
        let sizes = Value::Object(Map::new());
        let (known, broken) = (HashMap::new(), HashMap::new());
        let variables = Variables { all: variables, known, sizes, broken, nesting: 0 };
        Self { context, subject: subject.to_vec(), variables, left: 0 }
    }

    pub(crate) fn bind_authorizer(&mut self, authorizer_input: &AuthorizerInput<'_>) {
        self.context.add_variable_from_value(AUTHORIZER, authorizer::of(authorizer_input));
        self.context.add_variable_from_value(REQUEST_RESOURCE, authorizer::of_resource(authorizer_input));
    }

    pub(crate) fn set_budget(&mut self, budget: u64) {
        self.left = budget.saturating_mul(COST_FACTOR);
    }

    pub(crate) fn evaluate(&mut self, expression: &Expression) -> Result<ExpressionValue, EvaluationError> {
        Ok(match self.value_of(expression)? {
            cel::Value::Bool(holds) => ExpressionValue::Bool(holds),
            cel::Value::String(text) => ExpressionValue::Text(text.to_string()),
            cel::Value::Null => ExpressionValue::Null,
            _ => ExpressionValue::Other,
        })
    }

    /// Evaluates an expression to JSON. Objects carry the [name of their type](crate::model::cel::TYPE_NAME).
    pub(crate) fn evaluate_to_json(&mut self, expression: &Expression) -> Result<Value, EvaluationError> {
        to_json(&self.value_of(expression)?).map_err(EvaluationError::new)
    }

    fn value_of(&mut self, expression: &Expression) -> Result<cel::Value, EvaluationError> {
        let program = expression.program.as_ref();
        let program = program.map_err(|why| EvaluationError::new(format!("compilation error: {why}")))?;
        let with_expression = |why: String| {
            EvaluationError::new(format!("expression '{}' resulted in error: {why}", expression.text()))
        };
        self.execute(program).map_err(|error| match error {
            Unevaluated::Invalid(why) => with_expression(why),
            Unevaluated::OutOfBudget(failure) => failure,
        })
    }

    /// Evaluates a compiled expression after the variables that it uses.
    fn execute(&mut self, program: &CompiledExpression) -> Result<cel::Value, Unevaluated> {
        self.prepare(program).map_err(Unevaluated::OutOfBudget)?;
        let mut subject = self.subject.clone();
        subject.push(("variables", &self.variables.sizes));
        let cost = || cost_of_expression(&program.written, &subject);
        let cost = if program.is_deep { on_large_stack(cost) } else { cost() };
        if cost > MAX_EXPRESSION_COST.saturating_mul(COST_FACTOR) {
            let why = "operation cancelled: actual cost limit exceeded";
            return Err(Unevaluated::Invalid(why.to_owned()));
        }
        let Some(left) = self.left.checked_sub(cost) else {
            let why = "validation failed due to running out of cost budget, no further validation rules will be \
                       run";
            let failure = EvaluationError { why: why.to_owned(), budget_exhausted: true };
            return Err(Unevaluated::OutOfBudget(failure));
        };
        self.left = left;
        let value = program.resolve(&self.context);
        value.map_err(|error| Unevaluated::Invalid(self.reason(program, &subject, &error)))
    }

    fn reason(
        &self,
        program: &CompiledExpression,
        subject: &BoundVariables<'_>,
        error: &cel::ExecutionError,
    ) -> String {
        let key = match error {
            cel::ExecutionError::NoSuchKey(key) => Some(key.as_str()),
            // The interpreter's error does not name a missing key in a function argument, so the key is
            // looked up in the expression.
            cel::ExecutionError::MissingArgumentOrTarget => missing_argument(&program.written, subject),
            cel::ExecutionError::NoSuchOverload => field_of_scalar(&program.written, subject),
            _ => None,
        };
        match key.map(|key| (key, self.variables.broken.get(key))) {
            Some((_, Some(why))) => why.clone(),
            Some((key, None)) => format!("no such key: {key}"),
            None => cel_go_message(error),
        }
    }

    /// Evaluates the policy variables that a compiled expression uses, unless they were evaluated before.
    fn prepare(&mut self, program: &CompiledExpression) -> Result<(), EvaluationError> {
        let all = self.variables.all;
        for name in members_of(&program.written, "variables") {
            let Variables { known, broken, .. } = &self.variables;
            if known.contains_key(name) || broken.contains_key(name) {
                continue;
            }
            // A policy variable may only use the variables declared before it, so cycles are impossible.
            let Some(place) = all.iter().position(|(known, _)| known == name) else { continue };
            let (_, expression) = &all[place];
            self.variables.all = &all[..place];
            self.variables.nesting += 1;
            let outcome = match &expression.program {
                Ok(_) if self.variables.nesting > MAX_NESTING => Err(Unevaluated::Invalid(too_deep())),
                Ok(program) => match self.execute(program) {
                    Ok(value) if nests_deeper(&value, MAX_NESTING) => Err(Unevaluated::Invalid(too_deep())),
                    Err(Unevaluated::Invalid(why)) => Err(Unevaluated::Invalid(format!("evaluate: {why}"))),
                    outcome => outcome,
                },
                Err(why) => Err(Unevaluated::Invalid(format!("compile: {why}"))),
            };
            self.variables.nesting -= 1;
            self.variables.all = all;
            match outcome {
                Ok(value) => {
                    self.variables.sizes[name] = size_equivalent(&value);
                    self.variables.known.insert(name.to_owned(), value);
                    self.context.add_variable_from_value("variables", self.variables.known.clone());
                }
                Err(Unevaluated::OutOfBudget(failure)) => return Err(failure),
                Err(Unevaluated::Invalid(why)) => {
                    let why = format!("composited variable {name:?} fails to {why}");
                    self.variables.broken.insert(name.to_owned(), why);
                }
            }
        }
        Ok(())
    }
}

/// The reason why a compiled expression has no value.
enum Unevaluated {
    /// The expression or its value is invalid.
    Invalid(String),
    /// The cost budget is exhausted, so no further expression is evaluated.
    OutOfBudget(EvaluationError),
}

fn too_deep() -> String {
    format!("evaluate: it nests deeper than {MAX_NESTING}")
}

fn nests_deeper(value: &cel::Value, levels: usize) -> bool {
    let below = |value: &cel::Value| levels == 0 || nests_deeper(value, levels - 1);
    match value {
        cel::Value::List(items) => items.iter().any(below),
        cel::Value::Map(members) => members.map.values().any(below),
        _ => false,
    }
}
