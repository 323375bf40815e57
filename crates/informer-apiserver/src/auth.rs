//! Authentication and authorization.
//!
//! Without tokens, client certificates and RBAC every request comes from an administrator, which is
//! convenient in tests. If tokens or client certificates are configured, a request must present one of them.
//! With [`rbac`](crate::ApiServerBuilder::rbac) a request without credentials comes from `system:anonymous`,
//! and the stored roles and bindings decide.
//!
//! # Lock order
//!
//! `tokens` and the compiled policy are locked one at a time, never across an await, and never while
//! `storage` is held.

mod accounts;
mod attributes;
mod cover;
mod escalation;
mod impersonate;
mod params;
mod rbac;
mod review;
mod rule;
mod tokens;

use std::ops::Deref;

use http::header::AUTHORIZATION;
use http::request;
use parking_lot::RwLock;

pub(crate) use accounts::{check_token_name, check_token_request};
pub(crate) use attributes::AuthorizationAttributes;
pub(crate) use rbac::{Permissions, PolicyCache};
pub use tokens::{ParseTokensError, Tokens};

use crate::model::error::ApiError;
use crate::model::user::{MASTERS, User};
use crate::registry::Store;
use crate::tls::{ClientCa, PeerCertificate};
use accounts::{AUDIENCE, TokenError};
use tokens::{Issued, Token};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester<'a> {
    pub(crate) user: &'a User,
    /// The object name in the request path; `None` for a create.
    pub(crate) name: Option<&'a str>,
}

#[derive(Debug, Default)]
pub(crate) struct Access {
    tokens: RwLock<Tokens>,
    issued: RwLock<Issued>,
    pub(crate) client_ca: Option<ClientCa>,
    pub(crate) rbac: bool,
}

impl Access {
    pub(crate) fn new(tokens: Tokens, client_ca: Option<ClientCa>, rbac: bool) -> Self {
        Self { tokens: RwLock::new(tokens), client_ca, rbac, ..Self::default() }
    }

    /// Returns true if authentication is disabled, so that every request comes from an administrator.
    pub(crate) fn is_open(&self) -> bool {
        !self.rbac && self.client_ca.is_none() && self.tokens.read().is_empty()
    }

    fn known(&self, token: &str) -> Option<User> {
        self.tokens.read().user(token).cloned()
    }

    fn issued(&self, text: &str) -> Option<Token> {
        self.issued.read().get(text).cloned()
    }

    fn issue(&self, text: String, token: Token) {
        self.issued.write().add(text, token);
    }

    /// Returns true if RBAC applies to a user. It does not apply to the group `system:masters`.
    pub(crate) fn enforces_rbac_for(&self, user: &User) -> bool {
        self.rbac && !user.groups.iter().any(|group| group == MASTERS)
    }
}

#[derive(Debug)]
pub(crate) struct Auth {
    pub(crate) store: Store,
    pub(crate) access: Access,
    pub(crate) policy: PolicyCache,
}

impl Deref for Auth {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Auth {
    pub(crate) fn authenticate(&self, head: &request::Parts) -> Result<User, ApiError> {
        if let Some(user) = head.extensions.get::<User>() {
            return Ok(user.clone().authenticated());
        }
        let peer = head.extensions.get::<PeerCertificate>();
        if let Some(PeerCertificate::Verified(user)) = peer {
            return Ok(user.clone().authenticated());
        }
        let given = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|value| {
            let (scheme, token) = value.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        });
        let unauthorized = || ApiError::new(401, "Unauthorized", "Unauthorized");
        match token.filter(|token| !token.is_empty()) {
            Some(token) => match self.bearer(token, &[AUDIENCE]) {
                Ok((user, _)) => Ok(user),
                Err(TokenError::Unknown) if self.access.is_open() => Ok(User::administrator()),
                Err(_) => Err(unauthorized()),
            },
            None if self.access.is_open() => Ok(User::administrator()),
            // A request with an invalid client certificate is rejected and does not count as anonymous.
            None if peer.is_some() => Err(unauthorized()),
            None if self.access.rbac => Ok(User::anonymous()),
            None => Err(unauthorized()),
        }
    }
}
