//! The `authorizer` variable of CEL expressions: checks permissions of the requesting user or of a service
//! account.

use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use crate::admission::expressions::Asker;
use crate::auth::{Attributes, Permissions};
use crate::model::user::User;

/// Names of the variables.
pub(crate) const AUTHORIZER: &str = "authorizer";
pub(crate) const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// An authorization check that is being built.
#[derive(Debug, Clone)]
struct Question {
    user: User,
    permissions: Permissions,
    attributes: Attributes,
}

/// The reason of a decision: `Ok` if allowed, `Err` if denied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer(Result<String, String>);

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        self.user == other.user && self.attributes == other.attributes
    }
}

impl Eq for Question {}

impl Opaque for Question {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.authorization.Authorizer"
    }
}

impl Opaque for Answer {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.authorization.Decision"
    }
}

/// Returns the value of `authorizer`.
pub(crate) fn of(asker: &Asker<'_>) -> Value {
    let (user, permissions) = (asker.user.clone(), asker.permissions.clone());
    Value::Opaque(Arc::new(Question { user, permissions, attributes: Attributes::default() }))
}

/// Returns the value of `authorizer.requestResource`.
pub(crate) fn of_resource(asker: &Asker<'_>) -> Value {
    let write = asker.attributes;
    let resource = match write.subresource.as_str() {
        "" => write.gvr.resource.to_string(),
        sub => format!("{}/{sub}", write.gvr.resource),
    };
    let attributes = Attributes {
        group: write.gvr.group.to_string(),
        resource,
        namespace: write.namespace.clone(),
        name: write.name.clone(),
        ..Attributes::default()
    };
    let (user, permissions) = (asker.user.clone(), asker.permissions.clone());
    Value::Opaque(Arc::new(Question { user, permissions, attributes }))
}

/// Sets one attribute of an authorization check.
type SetPart = fn(&mut Attributes, &str);

pub(crate) fn register(context: &mut Context<'static>) {
    let parts: [(&str, SetPart); 6] = [
        ("path", |question, text| text.clone_into(&mut question.path)),
        ("group", |question, text| text.clone_into(&mut question.group)),
        ("resource", |question, text| text.clone_into(&mut question.resource)),
        ("subresource", |question, text| question.resource = format!("{}/{text}", question.resource)),
        ("namespace", |question, text| text.clone_into(&mut question.namespace)),
        ("name", |question, text| text.clone_into(&mut question.name)),
    ];
    for (name, set) in parts {
        context.add_function(name, move |This(this): This<Value>, text: Arc<String>| -> ResolveResult {
            let mut question = question(&this)?.clone();
            set(&mut question.attributes, &text);
            Ok(Value::Opaque(Arc::new(question)))
        });
    }
    context.add_function("serviceAccount", service_account);
    context.add_function("check", check);
    context.add_function("allowed", |This(this): This<Value>| -> ResolveResult {
        Ok(Value::Bool(answer(&this)?.0.is_ok()))
    });
    context.add_function("reason", |This(this): This<Value>| -> ResolveResult {
        let (Ok(reason) | Err(reason)) = &answer(&this)?.0;
        Ok(Value::String(Arc::new(reason.clone())))
    });
    // The embedded authorizer never fails.
    context.add_function("errored", |This(this): This<Value>| -> ResolveResult {
        answer(&this).map(|_| Value::Bool(false))
    });
    context.add_function("error", |This(this): This<Value>| -> ResolveResult {
        answer(&this).map(|_| Value::String(Arc::default()))
    });
}

fn service_account(This(this): This<Value>, namespace: Arc<String>, name: Arc<String>) -> ResolveResult {
    let user = User::new(format!("system:serviceaccount:{namespace}:{name}"))
        .groups(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    Ok(Value::Opaque(Arc::new(Question { user, ..question(&this)?.clone() })))
}

fn check(This(this): This<Value>, verb: Arc<String>) -> ResolveResult {
    let Question { user, permissions, mut attributes } = question(&this)?.clone();
    attributes.verb = verb.to_string();
    Ok(Value::Opaque(Arc::new(Answer(permissions.allows(&user, &attributes)))))
}

fn question(value: &Value) -> Result<&Question, ExecutionError> {
    part(value)
}

fn answer(value: &Value) -> Result<&Answer, ExecutionError> {
    part(value)
}

fn part<T: Opaque>(value: &Value) -> Result<&T, ExecutionError> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref().ok_or(ExecutionError::NoSuchOverload),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
