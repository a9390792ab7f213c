# The commands of a day's work. docs/how-to/develop.md explains them; `.ci/run` calls
# those that it shares with it.

# Lists them.
default:
    @just --list

# Format and lints: seconds after the first time.
check: format lint

format:
    cargo fmt --all --check
    cargo fmt --check --manifest-path fuzz/Cargo.toml

lint:
    cargo clippy --workspace --locked --all-targets -- -D warnings

# Tests whose names contain this.
test NAME:
    cargo test --workspace {{NAME}}

# Unit tests, and the integration tests of the main paths.
test-quick:
    cargo test --workspace --lib
    cargo test --test it -- {{quick}}

# Documentation of the code. The targets share what lints have compiled.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --locked --no-deps --document-private-items

# A benchmark: blob, fleet, grpc, http, ingest, read or soak.
bench NAME *ARGUMENTS:
    cargo bench --locked --bench {{NAME}} -- {{ARGUMENTS}}

# The program as users build it.
release:
    cargo build --release --locked

# Every check required for a change.
ci:
    .ci/run

quick := "access:: check:: config:: follow:: grpc:: http:: oci:: queries:: reload:: sources::"
