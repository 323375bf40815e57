use informer_apiserver::FaultFile;

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "faults",
    run,
    words: &[
        "- match:",
        "\n  verb: watch",
        "\n  resource: pods",
        "\n  when:",
        "nth: 1",
        "action:",
        "expire",
        "cut: {afterEvents: 1}",
        "status:",
        "event: {type: ADDED, object: {}}",
        "trickle: {bytes: 0, millis: 1}",
        "lostAnswer",
    ],
};

/// Parses a file of fault rules: the result is rules, or an error that describes the problem.
fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match FaultFile::parse(text) {
        // Parsed rules can be applied.
        Ok(file) => {
            let server = informer_apiserver::ApiServer::builder().build();
            server.faults().add_all(file);
            server.faults().clear();
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
