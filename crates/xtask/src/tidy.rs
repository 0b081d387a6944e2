//! `cargo xtask tidy`: the rules of the code base that the compiler does not know.
//!
//! A rule is a function from a file (or from the graph of dependencies) to violations. There is no
//! list of exceptions: a rule that is wrong somewhere is changed here, for everyone.

mod dependencies;
mod documents;
mod examples;
mod links;
mod prose;
mod rust;
mod source;
mod text;
mod unused;

use std::fmt;
use std::path::Path;

/// A place that breaks a rule, told as `path:line: what and why`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    path: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Violation {
        Violation { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the workspace; `path` is relative to its root, with forward slashes.
struct File {
    path: String,
    text: String,
}

impl File {
    fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = self.path.rsplit_once('.').map_or("", |(_, extension)| extension);
        extensions.contains(&extension)
    }
}

/// Checks every rule and prints what breaks one.
pub fn run(root: &Path) -> Result<(), String> {
    let files = files(root)?;
    let mut violations = dependencies::check(root)?;
    violations.extend(documents::unexplained_errors(&files));
    violations.extend(prose::check(&files));
    violations.extend(unused::check(&files));
    for file in &files {
        violations.extend(text::check(file));
        if file.has_extension(&["rs"]) {
            violations.extend(rust::check(file));
        }
        if file.has_extension(&["md"]) {
            violations.extend(documents::check(file));
            violations.extend(links::check(file, root));
            violations.extend(examples::check(file, root));
        }
    }
    if violations.is_empty() {
        eprintln!("tidy: {} files, every rule holds", files.len());
        return Ok(());
    }
    violations.sort();
    for violation in &violations {
        println!("{violation}");
    }
    Err(format!("tidy: {} violations", violations.len()))
}

/// Every text file below the root, except what builds and version control leave there.
fn files(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let failed = |error| format!("{}: {error}", directory.display());
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            let name = entry.file_name();
            // In a linked worktree, `.git` is a file.
            if name == "target" || name == ".git" || name == "__pycache__" {
                continue;
            }
            if entry.file_type().map_err(failed)?.is_dir() {
                directories.push(path);
                continue;
            }
            // Whatever is not text (Parquet files, say) has no lines to check.
            if let Ok(text) = std::fs::read_to_string(&path) {
                let path = path.strip_prefix(root).expect("found below the root");
                let path = path.to_string_lossy().replace('\\', "/");
                files.push(File { path, text });
            }
        }
    }
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}
