//! Rules for documents: the map stays short, and the list of errors is complete.

use super::{File, Violation};

/// Documents with the most words that they may have.
const WORDS_MAX: &[(&str, usize)] = &[("ARCHITECTURE.md", 3000)];

/// Where SQLSTATEs are defined, and the document that explains each.
const ERRORS: (&str, &str) = ("crates/types/src/error.rs", "docs/errors.md");

/// SQLSTATEs that are defined and not explained.
pub fn unexplained_errors(files: &[File]) -> Vec<Violation> {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let (Some(source), Some(document)) = (find(ERRORS.0), find(ERRORS.1)) else {
        return Vec::new();
    };
    let explained = |code: &str| document.text.contains(&format!("| {code} |"));
    let defined = source.text.lines().zip(1..).filter_map(|(line, number)| {
        let (_, rest) = line.split_once(" = \"")?;
        let (code, _) = rest.split_once("\" => ")?;
        Some((code, number))
    });
    defined
        .filter(|(code, _)| !explained(code))
        .map(|(code, line)| {
            let message = format!("{} does not explain {code}", ERRORS.1);
            Violation::new(&source.path, line, message)
        })
        .collect()
}

/// Checks the length of a document that has a limit.
pub fn check(file: &File) -> Option<Violation> {
    let (_, most) = WORDS_MAX.iter().find(|(path, _)| *path == file.path)?;
    let words = file.text.split_whitespace().count();
    let message = || format!("{words} words, at most {most}: move details to docs/internals");
    (words > *most).then(|| Violation::new(&file.path, 1, message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_grew_too_long_is_found() {
        let words =
            |count: usize| File { path: "ARCHITECTURE.md".to_owned(), text: "word ".repeat(count) };
        assert!(check(&words(3000)).is_none());
        assert!(check(&words(3001)).is_some());
        let elsewhere = File { path: "docs/a.md".to_owned(), text: "word ".repeat(4000) };
        assert!(check(&elsewhere).is_none());
    }

    #[test]
    fn an_error_without_explanation_is_found() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let source = "    A = \"22000\" => InvalidRequest,\n    B = \"22001\" => NotFound,\n";
        let files = [file(ERRORS.0, source), file(ERRORS.1, "| 22000 | a |\n")];
        let found: Vec<String> =
            unexplained_errors(&files).iter().map(Violation::to_string).collect();
        assert_eq!(found, ["crates/types/src/error.rs:2: docs/errors.md does not explain 22001"]);
    }
}
