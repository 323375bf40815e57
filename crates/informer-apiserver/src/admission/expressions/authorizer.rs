//! The `authorizer` variable of CEL expressions: checks permissions of the requesting user or of a service
//! account.

use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};

use crate::admission::expressions::AuthorizerInput;
use crate::auth::{AuthorizationAttributes, Permissions};
use crate::model::user::User;

pub(crate) const AUTHORIZER: &str = "authorizer";
pub(crate) const REQUEST_RESOURCE: &str = "authorizer.requestResource";

/// An authorization check that a CEL expression builds step by step, for example
/// `authorizer.group("apps").resource("deployments")`.
#[derive(Debug, Clone)]
struct AuthorizationCheck {
    user: User,
    permissions: Permissions,
    attributes: AuthorizationAttributes,
}

/// The reason of an authorization decision: `Ok` if the request is allowed, `Err` if it is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AuthorizationDecision(Result<String, String>);

impl PartialEq for AuthorizationCheck {
    fn eq(&self, other: &Self) -> bool {
        self.user == other.user && self.attributes == other.attributes
    }
}

impl Eq for AuthorizationCheck {}

impl Opaque for AuthorizationCheck {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.authorization.Authorizer"
    }
}

impl Opaque for AuthorizationDecision {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.authorization.Decision"
    }
}

pub(crate) fn of(authorizer_input: &AuthorizerInput<'_>) -> Value {
    let (user, permissions) = (authorizer_input.user.clone(), authorizer_input.permissions.clone());
    Value::Opaque(Arc::new(AuthorizationCheck {
        user,
        permissions,
        attributes: AuthorizationAttributes::default(),
    }))
}

/// Returns the value of `authorizer.requestResource`.
pub(crate) fn of_resource(authorizer_input: &AuthorizerInput<'_>) -> Value {
    let write = authorizer_input.attributes;
    let resource = match write.subresource.as_str() {
        "" => write.gvr.resource.to_string(),
        sub => format!("{}/{sub}", write.gvr.resource),
    };
    let attributes = AuthorizationAttributes {
        group: write.gvr.group.to_string(),
        resource,
        namespace: write.namespace.clone(),
        name: write.name.clone(),
        ..AuthorizationAttributes::default()
    };
    let (user, permissions) = (authorizer_input.user.clone(), authorizer_input.permissions.clone());
    Value::Opaque(Arc::new(AuthorizationCheck { user, permissions, attributes }))
}

type SetPart = fn(&mut AuthorizationAttributes, &str);

pub(crate) fn register(context: &mut Context<'static>) {
    let setters: [(&str, SetPart); 6] = [
        ("path", |pending_check, text| text.clone_into(&mut pending_check.path)),
        ("group", |pending_check, text| text.clone_into(&mut pending_check.group)),
        ("resource", |pending_check, text| text.clone_into(&mut pending_check.resource)),
        ("subresource", |pending_check, text| {
            pending_check.resource = format!("{}/{text}", pending_check.resource)
        }),
        ("namespace", |pending_check, text| text.clone_into(&mut pending_check.namespace)),
        ("name", |pending_check, text| text.clone_into(&mut pending_check.name)),
    ];
    for (name, set) in setters {
        context.add_function(name, move |This(this): This<Value>, text: Arc<String>| -> ResolveResult {
            let mut pending_check = pending_check(&this)?.clone();
            set(&mut pending_check.attributes, &text);
            Ok(Value::Opaque(Arc::new(pending_check)))
        });
    }
    context.add_function("serviceAccount", service_account);
    context.add_function("check", check);
    context.add_function("allowed", |This(this): This<Value>| -> ResolveResult {
        Ok(Value::Bool(decision(&this)?.0.is_ok()))
    });
    context.add_function("reason", |This(this): This<Value>| -> ResolveResult {
        let (Ok(reason) | Err(reason)) = &decision(&this)?.0;
        Ok(Value::String(Arc::new(reason.clone())))
    });
    // The CEL function `errored` always returns false, because the embedded authorizer never fails.
    context.add_function("errored", |This(this): This<Value>| -> ResolveResult {
        decision(&this).map(|_| Value::Bool(false))
    });
    context.add_function("error", |This(this): This<Value>| -> ResolveResult {
        decision(&this).map(|_| Value::String(Arc::default()))
    });
}

fn service_account(This(this): This<Value>, namespace: Arc<String>, name: Arc<String>) -> ResolveResult {
    let user = User::new(format!("system:serviceaccount:{namespace}:{name}"))
        .groups(["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]);
    Ok(Value::Opaque(Arc::new(AuthorizationCheck { user, ..pending_check(&this)?.clone() })))
}

fn check(This(this): This<Value>, verb: Arc<String>) -> ResolveResult {
    let AuthorizationCheck { user, permissions, mut attributes } = pending_check(&this)?.clone();
    attributes.verb = verb.to_string();
    Ok(Value::Opaque(Arc::new(AuthorizationDecision(permissions.allows(&user, &attributes)))))
}

fn pending_check(value: &Value) -> Result<&AuthorizationCheck, ExecutionError> {
    downcast(value)
}

fn decision(value: &Value) -> Result<&AuthorizationDecision, ExecutionError> {
    downcast(value)
}

fn downcast<T: Opaque>(value: &Value) -> Result<&T, ExecutionError> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref().ok_or(ExecutionError::NoSuchOverload),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
