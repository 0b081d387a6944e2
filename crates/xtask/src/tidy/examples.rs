//! A rule for `docs/clients.md`: every example there is run by something, so that none can rot.
//!
//! Behind its language, a block names what runs it: a client of `tests/clients`, for which
//! `cargo xtask clients` takes it from the document, or a file of `tests/slt/catalog`, which holds
//! what the client sends.

use std::path::Path;

use super::{File, Violation};

const DOCUMENT: &str = "docs/clients.md";

/// Checks that each code block of the document names an existing runner.
pub fn check(file: &File, root: &Path) -> Vec<Violation> {
    if file.path != DOCUMENT {
        return Vec::new();
    }
    let mut violations = Vec::new();
    let mut in_code = false;
    for (line, number) in file.text.lines().zip(1..) {
        let Some(info) = line.strip_prefix("```") else { continue };
        in_code = !in_code;
        if !in_code {
            continue;
        }
        let runner = info.split_whitespace().nth(1);
        if runner.is_none_or(|name| !is_run(name, root)) {
            let message = "nothing runs this example: name a directory of tests/clients, or a file \
                of tests/slt/catalog, behind its language";
            violations.push(Violation::new(&file.path, number, message));
        }
    }
    violations
}

fn is_run(name: &str, root: &Path) -> bool {
    let replayed = format!("tests/slt/catalog/{name}.slt");
    root.join("tests/clients").join(name).is_dir() || root.join(replayed).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_that_nothing_runs_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let known = "```sh psql\nls\n```\n```sql grafana\nSELECT\n```\n";
        let text = format!("{known}```\nx\n```\n```c odbc\n```\n");
        let found = |path: &str| {
            let file = File { path: path.to_owned(), text: text.clone() };
            check(&file, &root).iter().map(|violation| violation.line).collect::<Vec<_>>()
        };
        assert_eq!(found(DOCUMENT), [7, 10]);
        assert!(found("docs/other.md").is_empty());
    }
}
