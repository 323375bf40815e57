//! Who asks, and whether they may.
//!
//! A server without tokens, certificates or roles takes everybody for an administrator, as a test wants it. With tokens
//! or client certificates a request must bring one; with roles ([`rbac`](crate::ApiServerBuilder::rbac)) whoever brings
//! none is `system:anonymous`, and the stored roles and bindings decide.
//!
//! # Lock order
//!
//! `tokens` and the compiled policy are taken alone and never over an await; neither while `storage` is held.

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

pub(crate) use accounts::check_token_request;
pub(crate) use attributes::Attributes;
pub(crate) use rbac::{Permissions, PolicyCache};
pub use tokens::{ParseTokensError, Tokens};

use crate::model::error::ApiError;
use crate::model::user::{MASTERS, User};
use crate::registry::Store;
use crate::tls::{ClientCa, PeerCertificate};
use accounts::{AUDIENCE, Refusal};
use tokens::{Issued, Token};

/// Who a write is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester<'a> {
    pub(crate) user: &'a User,
    /// The name in the path; `None` where something is to be created.
    pub(crate) name: Option<&'a str>,
}

/// How a server tells users apart.
#[derive(Debug, Default)]
pub(crate) struct Access {
    tokens: RwLock<Tokens>,
    issued: RwLock<Issued>,
    /// Whose certificates stand for users.
    pub(crate) client_ca: Option<ClientCa>,
    /// Roles decide.
    pub(crate) rbac: bool,
}

impl Access {
    pub(crate) fn new(tokens: Tokens, client_ca: Option<ClientCa>, rbac: bool) -> Self {
        Self { tokens: RwLock::new(tokens), client_ca, rbac, ..Self::default() }
    }

    /// True where nobody is asked who they are.
    pub(crate) fn is_open(&self) -> bool {
        !self.rbac && self.client_ca.is_none() && self.tokens.read().is_empty()
    }

    /// A user with a token that was given to the server.
    fn known(&self, token: &str) -> Option<User> {
        self.tokens.read().user(token).cloned()
    }

    /// A token that the server has issued.
    fn issued(&self, text: &str) -> Option<Token> {
        self.issued.read().get(text).cloned()
    }

    fn issue(&self, text: String, token: Token) {
        self.issued.write().add(text, token);
    }

    /// Whether the roles have a say in what a user does.
    pub(crate) fn judges(&self, user: &User) -> bool {
        self.rbac && !user.groups.iter().any(|group| group == MASTERS)
    }
}

/// Authenticates and authorizes requests by what is stored.
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
    /// Finds out who makes a request: by its client certificate, or by its bearer token.
    pub(crate) fn authenticate(&self, head: &request::Parts) -> Result<User, ApiError> {
        if let Some(user) = head.extensions.get::<User>() {
            return Ok(user.clone().authenticated());
        }
        let peer = head.extensions.get::<PeerCertificate>();
        if let Some(PeerCertificate::Proves(user)) = peer {
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
                Err(Refusal::Unknown) if self.access.is_open() => Ok(User::administrator()),
                Err(_) => Err(unauthorized()),
            },
            None if self.access.is_open() => Ok(User::administrator()),
            // A certificate that proves nothing makes nobody anonymous.
            None if peer.is_some() => Err(unauthorized()),
            None if self.access.rbac => Ok(User::anonymous()),
            None => Err(unauthorized()),
        }
    }
}
