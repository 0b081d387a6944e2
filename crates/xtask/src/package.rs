//! `cargo xtask package`: everything that people install, made from one built program.
//!
//! No kind needs root, a daemon or a network. Each kind is one module that puts the same entries
//! ([`contents`]) into its format. The same input gives the same bytes: entries are in order, and
//! their time is `SOURCE_DATE_EPOCH` or a constant.
#![expect(
    clippy::disallowed_methods,
    reason = "packages are files of this machine, nothing here runs in simulation"
)]

mod archive;
mod chart;
mod contents;
mod deb;
mod image;
pub mod program;
mod rpm;
mod tarball;

use std::path::{Path, PathBuf};

use program::Program;

const USAGE: &str = "\
usage: cargo xtask package [deb|rpm|tarball|image|chart]... [options]

  --program PATH   the program to package [default: release/thalweg in the target directory]
  --out DIR        where packages are written [default: packages in the target directory]
  --version V      version of the packages [default: that of the workspace]
";

/// A kind of package.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Deb,
    Rpm,
    Tarball,
    Image,
    Chart,
}

const KINDS: &[(&str, Kind)] = &[
    ("deb", Kind::Deb),
    ("rpm", Kind::Rpm),
    ("tarball", Kind::Tarball),
    ("image", Kind::Image),
    ("chart", Kind::Chart),
];

/// The command line.
struct Options {
    kinds: Vec<Kind>,
    program: PathBuf,
    out: PathBuf,
    version: String,
}

/// Input of every kind.
struct Job<'a> {
    /// The workspace.
    root: &'a Path,
    /// Directory of the packages.
    out: &'a Path,
    version: &'a str,
}

/// Makes the packages and prints the path of each.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let options = parse(root, arguments)?;
    let Options { out, version, .. } = &options;
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let job = Job { root, out, version };
    // A chart names an image and contains no program.
    let program = match options.kinds.iter().all(|kind| *kind == Kind::Chart) {
        true => None,
        false if !options.program.is_file() => {
            let path = options.program.display();
            return Err(format!("there is no program {path}: cargo build --release makes it"));
        }
        false => Some(Program::read(&options.program)?),
    };
    for kind in &options.kinds {
        let package = match (*kind, &program) {
            (Kind::Deb, Some(program)) => deb::build(&job, program)?,
            (Kind::Rpm, Some(program)) => rpm::build(&job, program)?,
            (Kind::Tarball, Some(program)) => tarball::build(&job, program)?,
            (Kind::Image, Some(program)) => image::build(&job, program)?,
            (_, None) | (Kind::Chart, _) => chart::build(&job)?,
        };
        println!("{}", package.display());
    }
    Ok(())
}

fn parse(root: &Path, arguments: &[&str]) -> Result<Options, String> {
    let target = crate::target(root);
    let mut options = Options {
        kinds: Vec::new(),
        program: target.join("release/thalweg"),
        out: target.join("packages"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if let Some((_, kind)) = KINDS.iter().find(|(name, _)| name == argument) {
            options.kinds.push(*kind);
            continue;
        }
        let value = arguments.next().ok_or(USAGE)?;
        match *argument {
            "--program" => options.program = PathBuf::from(value),
            "--out" => options.out = PathBuf::from(value),
            "--version" => options.version = version(value)?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    if options.kinds.is_empty() {
        options.kinds = KINDS.iter().map(|(_, kind)| *kind).collect();
    }
    Ok(options)
}

/// A version that is one in each format: a dash would begin a revision.
fn version(text: &str) -> Result<String, String> {
    let mut parts = text.split('.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match parts.clone().count() == 3 && parts.all(is_number) {
        true => Ok(text.to_owned()),
        false => Err(format!("--version {text}: three numbers with dots between them are wanted")),
    }
}

/// The message of an error that concerns a file.
pub fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
