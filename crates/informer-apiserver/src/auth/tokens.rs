//! Bearer tokens: those in the token configuration, and those issued for service accounts.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use informer_core::ObjectKey;

use crate::model::user::User;

/// Maximum number of issued service account tokens in memory. Beyond it the oldest tokens become invalid.
const MAX_ISSUED: usize = 10_000;

/// Bearer tokens and their users.
///
/// ```
/// use informer_apiserver::{Tokens, User};
///
/// let mut tokens: Tokens = "secret,alice,uid-1,\"developers,testers\"\n".parse()?;
/// tokens.add("other", User::new("bob"));
/// # Ok::<(), informer_apiserver::ParseTokensError>(())
/// ```
#[derive(Clone, Default)]
pub struct Tokens {
    users: HashMap<String, User>,
}

/// The error for a token file that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the token file is not `token,user,uid` or `token,user,uid,\"group,group\"`")]
pub struct ParseTokensError {
    line: usize,
}

impl Tokens {
    /// Adds a token.
    pub fn add(&mut self, token: impl Into<String>, user: User) -> &mut Self {
        self.users.insert(token.into(), user);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub(super) fn user(&self, token: &str) -> Option<&User> {
        self.users.get(token)
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.users.len())
    }
}

/// Parses the format of kube-apiserver's `--token-auth-file`.
impl std::str::FromStr for Tokens {
    type Err = ParseTokensError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut tokens = Self::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let broken = ParseTokensError { line: index + 1 };
            let fields = fields(line).ok_or_else(|| broken.clone())?;
            let [token, name, uid, rest @ ..] = &fields[..] else { return Err(broken) };
            if token.is_empty() || name.is_empty() || rest.len() > 1 {
                return Err(broken);
            }
            // As in kube-apiserver, an empty group column in a token file means one group with an empty name.
            let groups = rest.iter().flat_map(|groups| groups.split(',')).map(str::trim);
            tokens.add(token, User::new(name).uid(uid).groups(groups));
        }
        Ok(tokens)
    }
}

/// Splits a line of CSV into its fields. Returns `None` if a quote is not closed.
fn fields(line: &str) -> Option<Vec<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = line.trim().chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field).trim().to_owned()),
            char => field.push(char),
        }
    }
    fields.push(field.trim().to_owned());
    (!quoted).then_some(fields)
}

/// The kinds to whose objects a token can be bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BoundKind {
    Pod,
    Secret,
    Node,
}

/// The object that a token is bound to. The token is invalid after its deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoundObject {
    pub(super) bound_kind: BoundKind,
    pub(super) name: String,
    pub(super) uid: String,
}

#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) user: User,
    pub(super) account: ObjectKey,
    pub(super) audiences: Vec<String>,
    pub(super) bound: Option<BoundObject>,
    /// The expiry of the token, as elapsed time of the server's clock.
    pub(super) until: Duration,
}

#[derive(Default)]
pub(super) struct Issued {
    tokens: HashMap<String, Token>,
    order: VecDeque<String>,
}

impl Issued {
    pub(super) fn get(&self, text: &str) -> Option<&Token> {
        self.tokens.get(text)
    }

    pub(super) fn add(&mut self, text: String, token: Token) {
        if self.order.len() == MAX_ISSUED
            && let Some(oldest) = self.order.pop_front()
        {
            self.tokens.remove(&oldest);
        }
        self.order.push_back(text.clone());
        self.tokens.insert(text, token);
    }
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Issued({})", self.tokens.len())
    }
}
