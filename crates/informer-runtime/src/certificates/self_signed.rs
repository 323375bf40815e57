//! The certificate of a server whose clients do not verify it.

use std::sync::Arc;
use std::time::Duration;

use informer_http::{ServerConfig, TlsConfig, TlsOptions, certified_key, default_provider};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::state::Validity;
use super::x509::{Parsed, generate_self_signed};
use super::{ALPN, OnServe};
use crate::BoxError;
use crate::services::Clock;

/// The validity of the certificate, as in controller-runtime.
const VALIDITY: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The interval at which the certificate is replaced.
const RENEWAL: Duration = Duration::from_secs(180 * 24 * 3600);

/// A self-signed certificate in the memory of this process.
pub(crate) struct SelfSigned {
    options: TlsOptions,
    clock: Clock,
    config: watch::Sender<Arc<ServerConfig>>,
    on_serve: OnServe,
}

impl SelfSigned {
    /// # Errors
    ///
    /// Returns an error if no crypto provider is installed, or if the options are invalid.
    pub(crate) fn new(options: TlsOptions, on_serve: OnServe) -> Result<Self, BoxError> {
        let clock = Clock::start();
        let (config, until) = generate(&options, &clock)?;
        on_serve(until);
        Ok(Self { options, clock, config: watch::Sender::new(Arc::new(config)), on_serve })
    }

    pub(crate) fn config(&self) -> TlsConfig {
        TlsConfig::from(self.config.subscribe())
    }

    /// Replaces the certificate long before it expires. Never returns.
    pub(crate) async fn run(&mut self) {
        loop {
            tokio::time::sleep(RENEWAL).await;
            match generate(&self.options, &self.clock) {
                Ok((config, until)) => {
                    self.config.send_replace(Arc::new(config));
                    (self.on_serve)(until);
                }
                Err(error) => tracing::warn!(error, "cannot renew the self-signed certificate of a server"),
            }
        }
    }
}

/// Generates a certificate. Returns the configuration that uses it, and the time at which it expires.
fn generate(options: &TlsOptions, clock: &Clock) -> Result<(ServerConfig, Timestamp), BoxError> {
    let host = std::env::var("HOSTNAME").ok().filter(|host| !host.is_empty());
    let names: Vec<String> = host.into_iter().chain(["localhost".to_owned()]).collect();
    let validity = Validity { authority: VALIDITY, certificate: VALIDITY };
    let own = generate_self_signed(&names, clock.now(), validity)?;
    let provider = default_provider().ok_or("no crypto provider of rustls is installed")?;
    let pair = certified_key(own.certificate.as_bytes(), own.key.as_bytes(), &provider)?;
    let parsed = Parsed::from_pem(&own.certificate).ok_or("the generated certificate cannot be parsed")?;
    Ok((options.server_config(provider, pair, None, ALPN)?, parsed.period.until))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[tokio::test(start_paused = true)]
    async fn certificate_is_valid_for_a_year_and_replaced_after_half_a_year() {
        let (ends, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let on_serve: OnServe = Box::new(move |until| ends.send(until).expect("the test receives"));
        let mut own = SelfSigned::new(TlsOptions::default(), on_serve).unwrap();
        let begin = own.clock.now();
        tokio::time::timeout(200 * DAY, own.run()).await.unwrap_err();
        let mut days = Vec::new();
        while let Ok(until) = seen.try_recv() {
            days.push(until.duration_since(begin).as_secs_f64() / DAY.as_secs_f64());
        }
        let rounded: Vec<_> = days.iter().map(|days| days.round() as i64).collect();
        assert_eq!(rounded, [365, 365 + 180], "days until each certificate expires: {days:?}");
    }
}
