use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::header::AUTHORIZATION;
use jiff::{SignedDuration, Timestamp};
use kube_client::Config;
use tokio::time::{Instant, advance};

use super::{Credentials, Current, EXPIRY_LEEWAY, REFRESH_PAUSE, RefreshState};

fn config(url: &str) -> Config {
    Config::new(url.parse().unwrap())
}

fn credentials(config: &Config) -> Arc<Credentials> {
    Credentials::split(config, Duration::from_secs(60)).unwrap().1.expect("renewable credentials")
}

fn token(current: &Current) -> String {
    let mut request = Request::new(());
    current.authorize(&mut request);
    request.headers()[AUTHORIZATION].to_str().unwrap().to_owned()
}

/// Returns a user whose exec plugin prints the number of its runs as the token. The plugin runs the shell
/// commands `before` first. `rest` is appended to the JSON of the status after the token.
fn numbered_plugin(folder: &Path, before: &str, rest: &str) -> Config {
    let script = format!(
        "echo >> {runs}; n=$(wc -l < {runs} | tr -d ' '); {before}; \
         echo '{{\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"'$n'\"{rest}}}}}'",
        runs = folder.join("runs").display(),
    );
    let mut config = config("http://server");
    let exec = serde_json::json!({"command": "sh", "args": ["-c", script], "interactiveMode": "Never"});
    config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
    config
}

fn runs(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count()
}

/// Advances tokio's paused clock by `time`, and resumes the clock afterwards, because exec plugins are real
/// processes.
async fn pass(time: Duration) {
    tokio::time::pause();
    advance(time).await;
    tokio::time::resume();
}

fn pair() -> (String, String) {
    let own = rcgen::generate_simple_self_signed(["user".to_owned()]).unwrap();
    (own.cert.pem(), own.signing_key.serialize_pem())
}

#[tokio::test(start_paused = true)]
async fn token_file_is_read_again_every_minute_and_its_removal_keeps_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "a\n").unwrap();
    let mut config = config("http://server");
    config.auth_info.token_file = Some(file.display().to_string());
    let credentials = credentials(&config);
    assert_eq!(token(&credentials.current().await.unwrap()), "Bearer a");
    fs::write(&file, "b\n").unwrap();
    advance(Duration::from_secs(59)).await;
    assert_eq!(token(&credentials.current().await.unwrap()), "Bearer a");
    advance(Duration::from_secs(2)).await;
    assert_eq!(token(&credentials.current().await.unwrap()), "Bearer b");
    fs::remove_file(&file).unwrap();
    advance(Duration::from_secs(61)).await;
    assert_eq!(token(&credentials.current().await.unwrap()), "Bearer b");
}

#[tokio::test(start_paused = true)]
async fn rejection_reloads_files_and_returns_only_changed_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "a").unwrap();
    let mut config = config("http://server");
    config.auth_info.token_file = Some(file.display().to_string());
    let credentials = credentials(&config);
    let first = credentials.current().await.unwrap();
    assert!(credentials.after_rejection(&first).await.is_none(), "the file has not changed");
    fs::write(&file, "b").unwrap();
    assert!(credentials.after_rejection(&first).await.is_none(), "it was read just before");
    advance(REFRESH_PAUSE).await;
    let second = credentials.after_rejection(&first).await.expect("the file has changed");
    assert_eq!(token(&second), "Bearer b");
    let again =
        credentials.after_rejection(&first).await.expect("the new credentials are newer than the first ones");
    assert_eq!(token(&again), "Bearer b");
}

#[tokio::test]
async fn concurrent_requests_run_the_exec_plugin_once() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = credentials(&numbered_plugin(folder.path(), ":", ""));
    let requests = (0..20).map(|_| {
        let credentials = Arc::clone(&credentials);
        tokio::spawn(async move { token(&credentials.current().await.unwrap()) })
    });
    for request in requests.collect::<Vec<_>>() {
        assert_eq!(request.await.unwrap(), "Bearer 1");
    }
    assert_eq!(runs(folder.path()), 1);
}

#[tokio::test]
async fn cancelled_caller_does_not_stop_the_exec_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.01; done", go.display());
    let credentials = credentials(&numbered_plugin(folder.path(), &wait, ""));
    let (impatient, patient) = (Arc::clone(&credentials), Arc::clone(&credentials));
    let impatient = tokio::spawn(async move { impatient.current().await.map(drop) });
    while runs(folder.path()) == 0 {
        tokio::task::yield_now().await;
    }
    let patient = tokio::spawn(async move { token(&patient.current().await.unwrap()) });
    tokio::task::yield_now().await;
    impatient.abort();
    assert!(impatient.await.unwrap_err().is_cancelled());
    fs::write(&go, "").unwrap();
    assert_eq!(patient.await.unwrap(), "Bearer 1");
    assert_eq!(runs(folder.path()), 1);
}

#[tokio::test]
async fn rejections_run_the_exec_plugin_at_most_once_per_pause() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = credentials(&numbered_plugin(folder.path(), ":", ""));
    let first = credentials.current().await.unwrap();
    let second = credentials.after_rejection(&first).await.expect("a new token");
    assert_eq!(token(&second), "Bearer 2");
    for _ in 0..10 {
        assert!(credentials.after_rejection(&second).await.is_none());
    }
    assert_eq!(runs(folder.path()), 2);
    pass(REFRESH_PAUSE).await;
    let third = credentials.after_rejection(&second).await.expect("a new token");
    assert_eq!(token(&third), "Bearer 3");
}

#[tokio::test]
async fn failed_exec_plugin_is_not_run_for_each_request_and_expired_credentials_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let expired = r#","expirationTimestamp":"2020-01-01T00:00:00Z""#;
    let plugin = numbered_plugin(folder.path(), "if [ $n -gt 1 ]; then exit 1; fi", expired);
    let credentials = credentials(&plugin);
    for _ in 0..3 {
        // The client uses a new result of the plugin even if it is expired by the local clock, because the
        // local clock may be wrong.
        assert_eq!(token(&credentials.current().await.unwrap()), "Bearer 1");
    }
    assert_eq!(runs(folder.path()), 1);
    pass(REFRESH_PAUSE).await;
    for _ in 0..3 {
        let error = credentials.current().await.err().expect("the token has expired").to_string();
        assert!(error.starts_with("run exec plugin sh: it ended with exit status: 1"), "{error}");
    }
    assert_eq!(runs(folder.path()), 2);
}

#[test]
fn exec_credentials_are_replaced_before_they_expire() {
    let (now, expires) = (Instant::now(), "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let current = Current { expires: Some(expires), ..Current::default() };
    let state = RefreshState { current: Some(Arc::new(current)), check_at: None };
    let before = |time: SignedDuration| state.fresh(now, expires - time).is_some();
    assert!(before(EXPIRY_LEEWAY + SignedDuration::from_secs(1)));
    assert!(!before(EXPIRY_LEEWAY));
    assert!(!before(SignedDuration::ZERO));
}

fn certificate_files(folder: &Path) -> Arc<Credentials> {
    let mut config = config("https://server");
    config.auth_info.client_certificate = Some(folder.join("tls.crt").display().to_string());
    config.auth_info.client_key = Some(folder.join("tls.key").display().to_string());
    credentials(&config)
}

#[tokio::test(start_paused = true)]
async fn mismatched_certificate_and_key_files_leave_the_old_certificate_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let (old, new) = (pair(), pair());
    write("tls.crt", &old.0);
    write("tls.key", &old.1);
    let credentials = certificate_files(folder.path());
    let generation = async || {
        advance(Duration::from_secs(61)).await;
        credentials.current().await.unwrap().identity_generation
    };
    assert_eq!(generation().await, 1);
    write("tls.key", &new.1);
    assert_eq!(generation().await, 1);
    write("tls.crt", "garbage");
    assert_eq!(generation().await, 1);
    fs::remove_file(folder.path().join("tls.crt")).unwrap();
    assert_eq!(generation().await, 1);
    write("tls.crt", &new.0);
    assert_eq!(generation().await, 2);
    assert_eq!(generation().await, 2, "nothing has changed since");
}

/// Replaces the files of a mounted Secret as the kubelet does: it creates a new folder and renames a symlink
/// to `..data`.
fn mount(folder: &Path, version: u32, (certificate, key): &(String, String)) {
    let data = folder.join(format!("..{version}"));
    fs::create_dir(&data).unwrap();
    fs::write(data.join("tls.crt"), certificate).unwrap();
    fs::write(data.join("tls.key"), key).unwrap();
    symlink(format!("..{version}"), folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        let _ = symlink(format!("..data/{name}"), folder.join(name));
    }
    if version > 1 {
        fs::remove_dir_all(folder.join(format!("..{}", version - 1))).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn symlink_swap_of_a_mounted_secret_renews_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    mount(folder.path(), 1, &pair());
    let credentials = certificate_files(folder.path());
    assert_eq!(credentials.current().await.unwrap().identity_generation, 1);
    for version in 2..5 {
        mount(folder.path(), version, &pair());
        advance(Duration::from_secs(61)).await;
        assert_eq!(credentials.current().await.unwrap().identity_generation, u64::from(version));
    }
}

#[test]
fn client_creation_names_invalid_certificate_files_and_succeeds_once_they_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (pair(), pair());
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let mut config = config("https://server");
    config.auth_info.client_certificate = Some(certificate.display().to_string());
    config.auth_info.client_key = Some(key.display().to_string());
    let rejected = || {
        let error = crate::Client::new(config.clone()).unwrap_err();
        std::error::Error::source(&error).unwrap().to_string()
    };
    let cause = rejected();
    assert!(cause.starts_with(&format!("the file {} cannot be read", certificate.display())), "{cause}");
    fs::write(&key, &one.1).unwrap();
    for invalid in ["", "garbage", &other.0] {
        fs::write(&certificate, invalid).unwrap();
        let cause = rejected();
        let files = format!("{} and {};", certificate.display(), key.display());
        assert!(cause.starts_with(&format!("no valid client certificate in {files}")), "{cause}");
    }
    fs::write(&certificate, &one.0).unwrap();
    crate::Client::new(config).unwrap();
}
