//! `cargo informer ARGUMENTS`: runs `informer ARGUMENTS`, the program in the same folder.

use std::env::consts::EXE_SUFFIX;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let program = match std::env::current_exe() {
        Ok(own) => own.with_file_name(format!("informer{EXE_SUFFIX}")),
        Err(_) => format!("informer{EXE_SUFFIX}").into(),
    };
    let mut arguments = std::env::args_os().skip(1).peekable();
    // Cargo passes the name of the subcommand, `informer`, as the first argument. The program `informer` does
    // not expect it.
    arguments.next_if(|first| first == "informer");
    match Command::new(&program).args(arguments).status() {
        // If a signal killed `informer`, it has no exit code; this program then exits with 1.
        Ok(status) => {
            status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            eprintln!(
                "error: run {}: {error}; install it with `cargo install informer-cli`",
                program.display()
            );
            ExitCode::FAILURE
        }
    }
}
