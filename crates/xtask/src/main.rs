//! The gate. `cargo xtask check` is all of it, and what continuous integration runs;
//! `cargo xtask tidy` is the part that needs no compiler. `cargo xtask clients` runs real clients;
//! `cargo xtask console` builds and tests the web console;
//! `cargo xtask package` makes what people install; `cargo xtask wheel` makes the Python package.

mod check;
mod clients;
mod console;
mod package;
mod tidy;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  check           the whole gate: tidy, format, lints, tests, the web console
  check --long    the same with more cases and seeds, and the tests that are ignored otherwise
  tidy            the rules of the code base that the compiler does not know
  clients         the built server, asked by the clients of tests/clients; names of some of them,
                  --server PROGRAM and --limit SECONDS may follow
  console         the web console's files, built again and compared; with --write they are replaced,
                  with --test the browser tests run; --server PROGRAM may follow
  package         the built program as .deb, .rpm, tarball, container image and Helm chart; names of
                  some of them, --program PATH, --out DIR and --version V may follow
  wheel           the Python package as a wheel; with --test its tests run; --out DIR may follow
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["tidy"] => tidy::run(&root()),
        ["check"] => check::run(&root(), check::Length::Short),
        ["check", "--long"] => check::run(&root(), check::Length::Long),
        ["clients", options @ ..] => clients::run(&root(), options),
        ["console", options @ ..] => console::run(&root(), options),
        ["package", options @ ..] => package::run(&root(), options),
        ["wheel", options @ ..] => wheel::run(&root(), options),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{}", message.trim_end());
            ExitCode::FAILURE
        }
    }
}

/// The workspace: two levels above this crate's manifest.
fn root() -> PathBuf {
    // Told by cargo as it runs this: a checkout may have been compiled as another one's.
    let told = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let manifest = told.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    manifest.ancestors().nth(2).expect("crates/xtask lies two levels down").to_owned()
}

/// The directory that cargo builds in.
fn target(root: &Path) -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    named.unwrap_or_else(|| root.join("target"))
}
