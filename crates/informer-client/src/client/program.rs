//! The name of the program, which identifies it to API servers and in audit logs.

use std::path::{Path, PathBuf};

use http::HeaderValue;

/// The maximum length of a program name, in bytes: the maximum length of a field manager in API servers.
const MAX_NAME_BYTES: usize = 128;

/// The program name if the operating system provides neither arguments nor the path of the executable.
const UNKNOWN: &str = "unknown";

/// Returns the name of this program: the file name in `argv[0]`, or the file name of the executable if `argv`
/// is empty.
///
/// The name is valid as a field manager and as the first part of a `User-Agent`: 1 to 128 ASCII bytes.
/// Characters that are invalid in an HTTP token are replaced with `-`.
///
/// Upstream: `rest.DefaultKubernetesUserAgent` of client-go uses the same name.
pub fn program_name() -> String {
    let argument = std::env::args_os().next().map(PathBuf::from);
    name(argument.as_deref())
        .or_else(|| name(std::env::current_exe().ok().as_deref()))
        .unwrap_or(UNKNOWN.to_owned())
}

/// Returns the default `User-Agent` header. An API server uses the part before the slash as the field manager
/// of writes that set no field manager.
pub(super) fn user_agent() -> HeaderValue {
    let system = format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH);
    let library = concat!("informer/", env!("CARGO_PKG_VERSION"));
    // The version in the `User-Agent` is `unknown`, because a library cannot find out the version of the
    // program; client-go does the same.
    let text = format!("{}/{UNKNOWN} ({system}) {library}", program_name());
    HeaderValue::try_from(text).expect("all parts are printable ASCII")
}

fn name(path: Option<&Path>) -> Option<String> {
    let file = path?.file_name()?.to_string_lossy();
    let name: String = file.chars().map(|char| if is_token(char) { char } else { '-' }).collect();
    name.get(..MAX_NAME_BYTES.min(name.len())).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Returns true if `char` may be part of an HTTP token (a `tchar` of RFC 9110).
fn is_token(char: char) -> bool {
    char.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str) -> Option<String> {
        name(Some(Path::new(path)))
    }

    #[test]
    fn program_name_is_the_file_name_as_an_http_token_of_at_most_128_bytes() {
        assert_eq!(named("/usr/bin/web-operator").as_deref(), Some("web-operator"));
        assert_eq!(named("./my operator (1)").as_deref(), Some("my-operator--1-"));
        assert_eq!(named("/opt/jürgen").as_deref(), Some("j-rgen"));
        assert_eq!(named(&format!("/bin/{}", "ä".repeat(200))).map(|name| name.len()), Some(MAX_NAME_BYTES));
        assert_eq!((named(""), named("/"), name(None)), (None, None, None));
    }

    #[test]
    fn user_agent_begins_with_the_program_and_names_this_library() {
        let agent = user_agent();
        let (program, rest) = agent.to_str().unwrap().split_once('/').unwrap();
        assert_eq!(program, program_name());
        assert!(rest.contains(" informer/"), "{rest}");
    }
}
