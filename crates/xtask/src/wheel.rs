//! `cargo xtask wheel`: the Python package as a wheel, and its tests.
//!
//! The shared object is built like the program, with the same crates and features, and stripped.
//! The wheel is a zip file that this module writes itself, so that a build needs no Python.
#![expect(
    clippy::disallowed_methods,
    reason = "wheels are files of this machine, nothing here runs in simulation"
)]

mod tests;
mod zip;

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::package::at;
use crate::package::program::Program;
use zip::Zip;

const USAGE: &str = "\
usage: cargo xtask wheel [options]

  --out DIR       where the wheel is written [default: wheels in the target directory]
  --built         pack the shared object that `cargo build --workspace --lib --tests` has built
  --test          test the wheel in virtual environments; tests whose libraries cannot be
                  installed are skipped and named
  -k EXPRESSION   run only the tests that pytest's expression selects; with --test
";

/// The shared object that cargo builds, and its name in the wheel.
const LIBRARY: &str = "libthalweg_python.so";
const MODULE: &str = "thalweg/_thalweg.abi3.so";

/// The size in bytes that a wheel should not exceed. The shared object is compiled for speed, and
/// is larger for now.
const BYTES_WANTED: u64 = 60 << 20;

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const SUMMARY: &str = "A memory-first SQL database for live data";

/// Runs the command.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut out = crate::target(root).join("wheels");
    let (mut is_built, mut is_tested, mut selection) = (false, false, None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{USAGE}"));
        match *word {
            "--out" => out = PathBuf::from(value()?),
            "--built" => is_built = true,
            "--test" => is_tested = true,
            "-k" => selection = Some((*value()?).to_owned()),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if !is_built {
        build(root)?;
    }
    let wheel = pack(root, &out)?;
    match is_tested {
        true => tests::run(root, &wheel, selection.as_deref()),
        false => Ok(()),
    }
}

/// Builds the shared object.
fn build(root: &Path) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--package", "thalweg-python"]).current_dir(root);
    succeed(&mut cargo)
}

/// Packs the wheel and returns its path.
fn pack(root: &Path, out: &Path) -> Result<PathBuf, String> {
    let library = crate::target(root).join("release").join(LIBRARY);
    std::fs::create_dir_all(out).map_err(at(out))?;
    let stripped = out.join(LIBRARY);
    succeed(Command::new("strip").arg("--strip-all").arg("-o").arg(&stripped).arg(&library))?;
    let program = Program::read(&stripped)?;
    let bytes = std::fs::read(&stripped).map_err(at(&stripped))?;
    std::fs::remove_file(&stripped).map_err(at(&stripped))?;

    let tag = tag(&program)?;
    let entries = entries(root, bytes, &tag)?;
    let path = out.join(format!("thalweg-{VERSION}-{tag}.whl"));
    std::fs::write(&path, packed(&entries)).map_err(at(&path))?;
    let size = std::fs::metadata(&path).map_err(at(&path))?.len();
    println!("{} ({} MiB)", path.display(), size >> 20);
    if size > BYTES_WANTED {
        println!("wheel: {} MiB are wanted", BYTES_WANTED >> 20);
    }
    Ok(path)
}

/// The wheel's tag: Python 3.10 or later, and the oldest glibc that has all symbols of the library.
fn tag(program: &Program) -> Result<String, String> {
    let glibc = program.glibc.as_deref().ok_or("the shared object does not use glibc")?;
    let glibc = glibc.replace('.', "_");
    Ok(format!("cp310-abi3-manylinux_{glibc}_{}", program.architecture.kernel))
}

/// A file of the wheel.
struct Entry {
    name: String,
    bytes: Vec<u8>,
}

/// All files but the record of them, in the order of their names.
fn entries(root: &Path, library: Vec<u8>, tag: &str) -> Result<Vec<Entry>, String> {
    let source = root.join("crates/python/thalweg");
    let mut entries = vec![Entry { name: MODULE.to_owned(), bytes: library }];
    for file in std::fs::read_dir(&source).map_err(at(&source))? {
        let path = file.map_err(at(&source))?.path();
        let is_source = path.extension().is_some_and(|kind| kind == "py" || kind == "pyi");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_source || name == "py.typed" {
            let bytes = std::fs::read(&path).map_err(at(&path))?;
            entries.push(Entry { name: format!("thalweg/{name}"), bytes });
        }
    }
    let license = root.join("LICENSE");
    let readme = root.join("docs/python.md");
    let description = std::fs::read_to_string(&readme).map_err(at(&readme))?;
    let license = std::fs::read(&license).map_err(at(&license))?;
    let mut described = |name: &str, bytes: Vec<u8>| {
        entries.push(Entry { name: format!("thalweg-{VERSION}.dist-info/{name}"), bytes });
    };
    described("METADATA", metadata(&description).into_bytes());
    described("WHEEL", wheel_file(tag).into_bytes());
    described("entry_points.txt", b"[console_scripts]\nthalweg = thalweg.__main__:main\n".into());
    described("licenses/LICENSE", license);
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

fn metadata(description: &str) -> String {
    format!(
        "Metadata-Version: 2.4\nName: thalweg\nVersion: {VERSION}\nSummary: {SUMMARY}\n\
         License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.10\n\
         Provides-Extra: pandas\nRequires-Dist: pandas; extra == 'pandas'\n\
         Requires-Dist: pyarrow; extra == 'pandas'\nProvides-Extra: polars\n\
         Requires-Dist: polars; extra == 'polars'\n\
         Description-Content-Type: text/markdown\n\n{description}"
    )
}

fn wheel_file(tag: &str) -> String {
    format!("Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\nTag: {tag}\n")
}

/// The wheel's bytes: the files, and the record of their hashes.
fn packed(entries: &[Entry]) -> Vec<u8> {
    let (mut zip, mut record) = (Zip::default(), String::new());
    for Entry { name, bytes } in entries {
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        record.push_str(&format!("{name},sha256={hash},{}\n", bytes.len()));
        zip.add(name, bytes);
    }
    let name = format!("thalweg-{VERSION}.dist-info/RECORD");
    record.push_str(&format!("{name},,\n"));
    zip.add(&name, record.as_bytes());
    zip.finish()
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|error| format!("{name} did not start: {error}"))?;
    status.success().then_some(()).ok_or_else(|| format!("{name}: {status}"))
}
