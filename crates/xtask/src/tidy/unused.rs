//! A rule for manifests: each third-party crate that one names is named by its sources as well.

use super::{File, Violation};

/// Crates that hold a dependency for its features, without naming it.
const HOLDERS: &[&str] = &["crates/features"];

/// Dependencies that no source names: one that is there for its features alone, and one that the
/// code generated from protocol buffers calls.
const UNNAMED: &[&str] = &["thalweg-features", "tonic-prost"];

/// Finds dependencies in manifests that no source of the crate names.
pub fn check(files: &[File]) -> Vec<Violation> {
    let manifests: Vec<&File> = files.iter().filter(|file| is_manifest(file)).collect();
    let mut violations = Vec::new();
    for manifest in &manifests {
        let directory = manifest.path.trim_end_matches("/Cargo.toml");
        if HOLDERS.contains(&directory) {
            continue;
        }
        let own = || files.iter().filter(|file| is_source_of(file, directory));
        // Tests that a crate takes from others by their path are its own as well.
        let shares = own().any(|file| file.text.contains("#[path = \"../../../"));
        let shared = || files.iter().filter(|file| shares && is_test(file));
        let sources = || own().chain(shared());
        let named = dependencies(&manifest.text).filter(|(name, _)| !UNNAMED.contains(name));
        for (name, line) in named {
            let path = name.replace('-', "_");
            if !sources().any(|source| names_crate(&source.text, &path)) {
                let message = format!("no source of this crate uses {name}: leave it out");
                violations.push(Violation::new(&manifest.path, line, message));
            }
        }
    }
    violations.extend(unused_of_workspace(files, &manifests));
    violations
}

fn is_manifest(file: &File) -> bool {
    file.path.starts_with("crates/") && file.path.ends_with("/Cargo.toml")
}

fn is_source_of(file: &File, directory: &str) -> bool {
    file.has_extension(&["rs"])
        && file.path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

fn is_test(file: &File) -> bool {
    file.has_extension(&["rs"]) && file.path.contains("/tests/")
}

/// Entries of the workspace's list that no crate takes.
fn unused_of_workspace(files: &[File], manifests: &[&File]) -> Vec<Violation> {
    let Some(root) = files.iter().find(|file| file.path == "Cargo.toml") else {
        return Vec::new();
    };
    let taken = |name: &str| {
        manifests.iter().any(|manifest| dependencies(&manifest.text).any(|(used, _)| used == name))
    };
    let entries = section_lines(&root.text, |header| header == "[workspace.dependencies]");
    entries
        .filter(|(name, _)| !taken(name))
        .map(|(name, line)| {
            let message = format!("no crate takes {name}: leave it out");
            Violation::new("Cargo.toml", line, message)
        })
        .collect()
}

/// The dependencies of a manifest of any kind, with their lines.
fn dependencies(manifest: &str) -> impl Iterator<Item = (&str, usize)> {
    section_lines(manifest, |header| header.trim_end_matches(']').ends_with("dependencies"))
}

/// The names at the beginning of the lines below the headers that `wanted` accepts.
fn section_lines(text: &str, wanted: fn(&str) -> bool) -> impl Iterator<Item = (&str, usize)> {
    let mut inside = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        if line.starts_with('[') {
            inside = wanted(line);
            return None;
        }
        let end = line
            .find(|character: char| !(character.is_alphanumeric() || "-_".contains(character)))?;
        (inside && end > 0).then(|| (&line[..end], number))
    })
}

/// True if the source has the name as a whole word.
fn names_crate(source: &str, name: &str) -> bool {
    let word = |character: char| character.is_alphanumeric() || character == '_';
    source.match_indices(name).any(|(at, _)| {
        !source[..at].ends_with(word) && !source[at + name.len()..].starts_with(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn messages(files: &[File]) -> Vec<String> {
        check(files).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nused-crate.workspace = true\n\
            other = \"1\"\n[dev-dependencies]\nlate = \"1\"\n";
        let files = [
            file("crates/a/Cargo.toml", manifest),
            file("crates/a/src/lib.rs", "use used_crate::X;\nfn another() {}"),
            file("crates/a/tests/a.rs", "use late::X;"),
        ];
        assert_eq!(
            messages(&files),
            ["crates/a/Cargo.toml:5: no source of this crate uses other: leave it out"],
        );
    }

    #[test]
    fn an_entry_that_no_crate_takes_is_found() {
        let files = [
            file(
                "Cargo.toml",
                "[workspace.dependencies]\na-b = \"1\"\nc = \"1\"\n[profile.release]\nd = 1\n",
            ),
            file("crates/a/Cargo.toml", "[dependencies]\na-b.workspace = true\n"),
            file("crates/a/src/lib.rs", "use a_b::X;"),
        ];
        assert_eq!(messages(&files), ["Cargo.toml:3: no crate takes c: leave it out"]);
    }
}
