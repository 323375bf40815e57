//! Checks TLS, and the credentials of the user.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::StatusCode;
use informer::kube_client::Config;
use informer::kube_client::config::AuthInfo;
use serde_json::{Value, json};

use super::api::Api;
use super::certificates::{Validity, time};
use super::findings::{Findings, Level};

/// A token that expires within this time, in seconds, is reported with a warning. Tokens in files are exempt,
/// because the kubelet renews them.
const TOKEN_EXPIRES_SOON: f64 = 600.0;

/// Checks that the connection to the server is encrypted, and that the CA certificates in the kubeconfig are
/// valid.
pub(super) fn check_tls(config: &Config, now: f64, findings: &mut Findings) {
    const CHECK: &str = "tls";
    if config.cluster_url.scheme_str() != Some("https") {
        let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
        let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if loopback || host == "localhost" {
            return findings.ok(CHECK, "not used, on a loopback address");
        }
        let remedy = "use an https:// URL: credentials and objects can be read in transit";
        return findings.problem(CHECK, format!("{} is not encrypted", config.cluster_url), remedy);
    }
    if config.accept_invalid_certs {
        let remedy = "remove insecure-skip-tls-verify, and set certificate-authority-data";
        return findings.warning(CHECK, "the certificate of the server is not verified", remedy);
    }
    let Some(roots) = &config.root_cert else {
        return findings.ok(CHECK, "the server is verified with the CA certificates of the system");
    };
    let validity = Validity::of_der(roots.iter().map(Vec::as_slice), now, true);
    let remedy = "copy the CA certificate of the cluster into certificate-authority-data";
    report(CHECK, "the CA certificate of the kubeconfig", validity, remedy, findings);
}

fn report(
    check: &'static str,
    what: &str,
    validity: Result<Validity, String>,
    remedy: &str,
    findings: &mut Findings,
) {
    let level = match validity {
        Ok(Validity::Until(_)) => Level::Ok,
        Ok(Validity::ExpiresSoon(_)) => Level::Warning,
        Ok(_) | Err(_) => Level::Problem,
    };
    let message = match validity {
        Ok(validity) => format!("{what} {}", validity.text()),
        Err(why) => format!("{what} cannot be read: {why}"),
    };
    match level {
        Level::Ok => findings.ok(check, message),
        level => findings.report(level, check, message, remedy),
    }
}

/// Checks whether the server accepts the credentials of the user. Returns false if it rejects them: all
/// further requests would then fail, and their checks are skipped.
pub(super) async fn check(api: &Api, config: &Config, findings: &mut Findings) -> bool {
    const CHECK: &str = "credentials";
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    match api.review("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await {
        Ok(answer) => {
            let info = &answer["status"]["userInfo"];
            let groups: Vec<&str> =
                info["groups"].as_array().into_iter().flatten().flat_map(Value::as_str).collect();
            let user = info["username"].as_str().unwrap_or("unknown");
            let message = format!("the server knows this user as {user:?}, groups {}", groups.join(", "));
            if user == "system:anonymous" && config.cluster_url.scheme_str() == Some("https") {
                let remedy = "add a token or a client certificate to the user of the kubeconfig";
                findings.warning(CHECK, message, remedy);
            } else {
                findings.ok(CHECK, message);
            }
            true
        }
        Err(failure) if failure.is(StatusCode::UNAUTHORIZED) => {
            let remedy = "renew the token or the client certificate of the user in the kubeconfig";
            findings.problem(CHECK, failure.to_string(), remedy);
            false
        }
        Err(failure) if failure.is(StatusCode::FORBIDDEN) && config.auth_info.impersonate.is_some() => {
            let remedy = "grant the verb impersonate on the user and its groups, or leave out --as";
            findings.problem(CHECK, failure.to_string(), remedy);
            false
        }
        // Servers before Kubernetes 1.28 do not have SelfSubjectReview. The status 404 shows that such a
        // server accepted the credentials.
        Err(failure) if failure.is(StatusCode::NOT_FOUND) => {
            findings.ok(CHECK, "accepted; the server cannot name the user");
            true
        }
        Err(failure) => {
            findings.warning(CHECK, failure.to_string(), "check the user in the kubeconfig");
            true
        }
    }
}

/// Checks when the user's client certificate and token expire. Reports a problem if one has expired, and a
/// warning if it expires soon.
pub(super) fn check_expiry(user: &AuthInfo, now: f64, findings: &mut Findings) {
    const CHECK: &str = "credentials";
    if let Some(certificate) = certificate(user) {
        let validity = certificate.and_then(|pem| Validity::of_pem(&pem, now, false));
        let remedy = "issue a new client certificate, and replace it in the kubeconfig";
        report(CHECK, "the client certificate", validity, remedy, findings);
    }
    let Some(expiry) = token(user).as_deref().and_then(expiry) else { return };
    if expiry <= now {
        let remedy = "create a new token, for example with `kubectl create token`";
        findings.problem(CHECK, format!("the token expired at {}", time(expiry)), remedy);
    } else if expiry - now <= TOKEN_EXPIRES_SOON && user.token_file.is_none() {
        let remedy = "use a token file or an exec plugin, which renew the token";
        findings.warning(CHECK, format!("the token expires at {}", time(expiry)), remedy);
    } else {
        findings.ok(CHECK, format!("the token expires at {}", time(expiry)));
    }
}

fn certificate(user: &AuthInfo) -> Option<Result<Vec<u8>, String>> {
    if let Some(data) = &user.client_certificate_data {
        return Some(STANDARD.decode(data.trim()).map_err(|error| format!("it is not base64: {error}")));
    }
    let path = user.client_certificate.as_ref()?;
    Some(std::fs::read(path).map_err(|error| format!("{path}: {error}")))
}

fn token(user: &AuthInfo) -> Option<String> {
    match (&user.token, &user.token_file) {
        (Some(token), _) => {
            // The token has a type for secrets, whose value is only returned by serialization.
            let value = serde_json::to_value(AuthInfo { token: Some(token.clone()), ..AuthInfo::default() });
            value.ok()?["token"].as_str().map(str::to_owned)
        }
        (None, Some(path)) => std::fs::read_to_string(path).ok(),
        (None, None) => None,
    }
}

/// Returns when a JSON Web Token expires, in seconds since the Unix epoch. Returns `None` for other tokens.
fn expiry(token: &str) -> Option<f64> {
    let claims = URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?).ok()?;
    serde_json::from_slice::<Value>(&claims).ok()?["exp"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_read_from_json_web_tokens_only() {
        let token = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        assert_eq!(expiry(&token(r#"{"exp":1700000000}"#)), Some(1_700_000_000.0));
        assert_eq!(expiry(&token("{}")), None);
        assert_eq!(expiry("opaque"), None);
        assert_eq!(expiry("a.b.c"), None);
    }
}
