//! A rule for documents: a link to a file names a file that exists.

use std::path::Path;

use super::{File, Violation};

/// Checks the relative links of a document, except within code blocks.
pub fn check(file: &File, root: &Path) -> Vec<Violation> {
    let path = root.join(&file.path);
    let directory = path.parent().expect("a file lies in a directory");
    let mut violations = Vec::new();
    let mut in_code = false;
    for (line, number) in file.text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(line).filter(|target| !directory.join(target).exists()) {
            let message = format!("the link leads nowhere: {target} does not exist");
            violations.push(Violation::new(&file.path, number, message));
        }
    }
    violations
}

/// The files that a line's links name, without the place inside the file.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', ' ']).next()?;
        let target = target.split('#').next()?;
        let elsewhere = target.contains("://") || target.starts_with("mailto:");
        (!target.is_empty() && !elsewhere).then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_files_only() {
        let line = "[a](docs/a.md#part) [b](https://b) [c](#here) [d](d.md \"title\")";
        assert_eq!(targets(line).collect::<Vec<_>>(), ["docs/a.md", "d.md"]);
    }

    #[test]
    fn a_link_is_looked_up_beside_its_document() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = "[here](tidy/links.rs)\n```\n[code](no.rs)\n```\n[gone](links.rs)".to_owned();
        let file = File { path: "src/a.md".to_owned(), text };
        let found: Vec<String> = check(&file, root).iter().map(Violation::to_string).collect();
        assert_eq!(found, ["src/a.md:5: the link leads nowhere: links.rs does not exist"]);
    }
}
