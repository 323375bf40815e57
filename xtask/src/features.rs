//! Feature combinations: cargo-hack checks each library crate without features, with each single one and with
//! all, and tests run with the combinations that change behavior.

use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::cargo::command;
use crate::report::Report;

#[derive(Debug, Args)]
pub(crate) struct FeaturesArguments {
    /// Only check that the combinations of features compile. Without this option, the tests of some
    /// combinations run, too.
    #[arg(long)]
    no_tests: bool,
}

/// The version of the Kubernetes types with which the library crates are checked. Libraries leave this choice
/// to the program, which makes it by a feature of `k8s-openapi`. This command makes it by the environment
/// variable `K8S_OPENAPI_ENABLED_VERSION` instead.
const KUBERNETES: &str = "1.37";

const PACKAGES: [&str; 8] = [
    "informer-schema",
    "informer-workqueue",
    "informer-cache",
    "informer-client",
    "informer-http",
    "informer-apiserver",
    "informer-runtime",
    "informer",
];

/// Combinations of features whose tests run: the package, the enabled features (default features are off),
/// and the arguments of `cargo test` that select the test targets.
///
/// The API server is tested once without CEL, and once with `aws-lc-rs` instead of `ring` for TLS. The client
/// is tested with `aws-lc-rs`, and with both providers.
const TESTED: [(&str, &str, &[&str]); 5] = [
    ("informer-apiserver", "ring", &["--lib"]),
    ("informer-apiserver", "cel,aws-lc-rs", &["--lib"]),
    ("informer-client", "aws-lc-rs", &["--lib"]),
    ("informer-client", "aws-lc-rs,ring", &["--lib"]),
    ("informer-workqueue", "", &["--lib"]),
];

/// Packages with the features `oauth` and `oidc`. These are checked together with each TLS provider, because
/// kube's client compiles them only with one of the providers.
const WITH_AUTH: [&str; 2] = ["informer-client", "informer"];
const AUTH: [&str; 2] = ["oauth", "oidc"];
const TLS_PROVIDERS: [&str; 2] = ["ring", "aws-lc-rs"];

pub(crate) fn run(root: &Path, arguments: &FeaturesArguments) -> Report {
    let mut report = Report::new("features");
    let mut checked = 0;
    for package in PACKAGES {
        let mut hack = command();
        hack.args(["hack", "check", "--each-feature", "--no-dev-deps", "--package", package]);
        if WITH_AUTH.contains(&package) {
            hack.args(["--exclude-features", &AUTH.join(",")]);
        }
        checked += run_step(root, hack, &mut report);
    }
    report.figure("crates whose combinations compile", f64::from(checked));
    let mut with_auth = 0;
    for package in WITH_AUTH {
        for (auth, provider) in AUTH.iter().flat_map(|auth| TLS_PROVIDERS.map(|provider| (auth, provider))) {
            let mut check = command();
            check.args(["check", "--no-default-features", "--package", package]);
            check.args(["--features", &format!("{auth},{provider}")]);
            with_auth += run_step(root, check, &mut report);
        }
    }
    report.figure("combinations of oauth or oidc and TLS that compile", f64::from(with_auth));
    if arguments.no_tests {
        return report;
    }
    let mut tested = 0;
    for (package, features, targets) in TESTED {
        let mut test = command();
        test.args(["test", "--quiet", "--no-default-features", "--package", package]);
        test.args(["--features", features]).args(targets);
        tested += run_step(root, test, &mut report);
    }
    report.figure("combinations whose tests pass", f64::from(tested));
    report
}

/// Runs a command of cargo in the workspace. Returns 1 if it succeeds; otherwise reports a problem and
/// returns 0. The sum of the results is thus the number of successes.
fn run_step(root: &Path, mut command: Command, report: &mut Report) -> u32 {
    command.current_dir(root).env("K8S_OPENAPI_ENABLED_VERSION", KUBERNETES);
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    let name = arguments.join(" ");
    match command.status() {
        Ok(status) if status.success() => return 1,
        Ok(_) => report.problems.push(format!("cargo {name}: failed; the output above has the errors")),
        Err(error) => report.problems.push(format!("run cargo {name}: {error}; install cargo-hack")),
    }
    0
}
