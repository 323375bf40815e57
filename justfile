# Short names for the commands of CONTRIBUTING.md. `just --list` prints them.

# Lists the recipes.
default:
    @just --list

# Format, clippy and the project's own rules.
quick:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask tidy --check

# All tests; takes the arguments of `cargo test`.
test *arguments:
    cargo test --workspace {{arguments}}

# All checks that a change must pass.
ci:
    .ci/run

# An API server, informers, handlers and a controller, compared at the end.
demo *arguments:
    cargo run --release -- demo {{arguments}}

# Rustdoc with warnings as errors.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Formats the code.
fmt:
    cargo fmt --all

# One example of `examples`; docs/examples.md lists them.
example name:
    cargo run -p informer-examples --example {{name}}

# A command of the project, for example `just xtask bench --help`.
xtask *arguments:
    cargo xtask {{arguments}}
