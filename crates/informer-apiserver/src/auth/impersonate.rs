//! Impersonation: the `Impersonate-` headers.

use http::HeaderMap;

use super::AuthorizationAttributes;
use crate::auth::Auth;
use crate::model::error::ApiError;
use crate::model::user::{AUTHENTICATED, User};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";

impl Auth {
    pub(crate) fn impersonate(
        &self,
        user: User,
        headers: &HeaderMap,
        request: impl FnOnce() -> AuthorizationAttributes,
    ) -> Result<User, ApiError> {
        let Some(impersonated) = impersonated_user(headers)? else { return Ok(user) };
        if required_permissions(&impersonated).iter().all(|attributes| self.allows(&user, attributes).is_ok())
        {
            return Ok(with_implicit_groups(impersonated));
        }
        // Whichever permission the sender lacks, the error names the one for this verb
        // (`impersonate-on:...`), as in kube-apiserver.
        let mode = if service_account(&impersonated.name).is_some() { "serviceaccount" } else { "user-info" };
        let mut attributes = request();
        attributes.verb = format!("impersonate-on:{mode}:{}", attributes.verb);
        Err(attributes.refusal(&user, ""))
    }
}

fn impersonated_user(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let text =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let all = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let mut user = User::new(text(USER)).uid(text(UID)).groups(all(GROUP));
    for name in headers.keys() {
        let Some(key) = name.as_str().strip_prefix(EXTRA) else { continue };
        let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
        user.extra.insert(key, all(name.as_str()));
    }
    let more = !user.uid.is_empty() || !user.groups.is_empty() || !user.extra.is_empty();
    match (user.name.is_empty(), more) {
        (true, false) => Ok(None),
        (true, true) => {
            let mut error = ApiError::bad_request(format!(
                "requested {} without impersonating a user name",
                go_format(&user)
            ));
            error.unauthorized = true;
            Err(error)
        }
        (false, _) => Ok(Some(user)),
    }
}

fn go_format(User { name, uid, groups, extra }: &User) -> String {
    let list = |texts: &[String]| {
        if texts.is_empty() {
            "[]string(nil)".to_owned()
        } else {
            let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
            format!("[]string{{{}}}", texts.join(", "))
        }
    };
    let extra = if extra.is_empty() {
        "(nil)".to_owned()
    } else {
        let pairs: Vec<String> =
            extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
        format!("{{{}}}", pairs.join(", "))
    };
    let groups = list(groups);
    format!(
        "&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:{groups}, Extra:map[string][]string{extra}}}"
    )
}

fn required_permissions(impersonated: &User) -> Vec<AuthorizationAttributes> {
    let of = |group: &str, resource: &str, name: &str| AuthorizationAttributes {
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..AuthorizationAttributes::default()
    };
    let mut all = vec![match service_account(&impersonated.name) {
        Some((namespace, name)) => {
            AuthorizationAttributes { namespace: namespace.to_owned(), ..of("", "serviceaccounts", name) }
        }
        None => of("", "users", &impersonated.name),
    }];
    all.extend(impersonated.groups.iter().map(|group| of("", "groups", group)));
    for (key, values) in &impersonated.extra {
        let resource = format!("userextras/{key}");
        all.extend(values.iter().map(|value| of(AUTHENTICATION, &resource, value)));
    }
    if !impersonated.uid.is_empty() {
        all.push(of(AUTHENTICATION, "uids", &impersonated.uid));
    }
    all
}

fn with_implicit_groups(mut user: User) -> User {
    if user.groups.is_empty()
        && let Some((namespace, _)) = service_account(&user.name)
    {
        user.groups =
            vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    let has = |group: &str| user.groups.iter().any(|own| own == group);
    if has(AUTHENTICATED) || has(UNAUTHENTICATED) {
        return user;
    }
    let group = if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    user.groups.push(group.to_owned());
    user
}

fn service_account(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("system:serviceaccount:")?.split_once(':')
}
