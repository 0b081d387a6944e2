//! One set of third-party features for every selection of crates; `Cargo.toml` says why. No code.
