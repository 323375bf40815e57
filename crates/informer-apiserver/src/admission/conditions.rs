//! Match conditions: expressions in CEL over the request.

#[cfg(feature = "cel")]
use kube_cel::KubeCelExt;
#[cfg(feature = "cel")]
use kube_cel::cel;
use serde_json::Value;

/// What expressions see.
#[cfg_attr(not(feature = "cel"), expect(dead_code, reason = "only expressions look into it"))]
pub(super) struct Subject<'a> {
    pub(super) object: &'a Value,
    pub(super) old: &'a Value,
    pub(super) request: &'a Value,
}

/// One condition, compiled.
pub(super) struct Condition {
    #[cfg(feature = "cel")]
    program: Result<cel::Program, String>,
}

/// What a condition comes to: an error where it cannot be evaluated.
pub(super) type Verdict = Result<bool, String>;

#[cfg(feature = "cel")]
impl Condition {
    pub(super) fn new(expression: &str) -> Self {
        let program = cel::Program::compile(expression).map_err(|error| error.to_string());
        Self { program }
    }

    pub(super) fn holds(&self, subject: &Subject<'_>) -> Verdict {
        let program = self.program.as_ref().map_err(Clone::clone)?;
        let mut context = cel::Context::default().with_all();
        for (name, value) in
            [("object", subject.object), ("oldObject", subject.old), ("request", subject.request)]
        {
            context.add_variable_from_value(name, to_cel(value));
        }
        match program.execute(&context) {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err("cel expression does not evaluate to a bool".to_owned()),
            Err(cel::ExecutionError::NoSuchKey(key)) => Err(format!("no such key: {key}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(not(feature = "cel"))]
impl Condition {
    pub(super) fn new(_: &str) -> Self {
        Self {}
    }

    pub(super) fn holds(&self, _: &Subject<'_>) -> Verdict {
        Err("this server was built without CEL".to_owned())
    }
}

/// A JSON value for CEL: integers are signed, as upstream's are.
#[cfg(feature = "cel")]
fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => cel::Value::Int(integer),
            None => cel::Value::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => cel::Value::String(text.clone().into()),
        Value::Array(items) => cel::Value::List(items.iter().map(to_cel).collect::<Vec<_>>().into()),
        Value::Object(members) => {
            let members: std::collections::HashMap<String, cel::Value> =
                members.iter().map(|(name, value)| (name.clone(), to_cel(value))).collect();
            cel::Value::Map(members.into())
        }
    }
}
