//! Rules for every text file: how long a line is, and words that must not stay.

use super::{File, Violation};

const LINE_CHARS_MAX: usize = 100;

/// Written in two parts, so that this file keeps its own rule.
const LEFTOVERS: &[&str] = &[concat!("FIX", "ME"), concat!("X", "XX")];

/// Directories of one machine, which mean nothing on another.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/")];

/// Checks line lengths and leftover words in a text file. `Cargo.lock` is exempt.
pub fn check(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    if file.path == "Cargo.lock" {
        return violations;
    }
    let limited = file.has_extension(&["rs", "py", "sh"]);
    for (line, number) in file.text.lines().zip(1..) {
        let mut report = |message| violations.push(Violation::new(&file.path, number, message));
        let chars = line.chars().count();
        // An address cannot be broken over lines.
        if limited && chars > LINE_CHARS_MAX && !line.contains("://") {
            report(format!("{chars} characters: a line has at most {LINE_CHARS_MAX}"));
        }
        for word in LEFTOVERS.iter().filter(|word| contains_word(line, word)) {
            report(format!("{word}: finish it, or write down in a document what is left open"));
        }
        for path in MACHINE_PATHS.iter().filter(|path| contains_root(line, path)) {
            report(format!(
                "{path}… is a path of one machine: say it in a way that holds elsewhere"
            ));
        }
    }
    violations
}

fn contains_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let inside = |neighbour: Option<char>| {
            neighbour.is_some_and(|character| character.is_alphanumeric() || character == '_')
        };
        !inside(line[..at].chars().next_back()) && !inside(line[at + word.len()..].chars().next())
    })
}

/// True if the line names the path from the root on, not as the middle of a longer path.
fn contains_root(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        !line[..at].ends_with(|character: char| {
            character.is_alphanumeric() || matches!(character, '.' | '_' | '-' | '}' | '~')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn long_lines_are_counted_in_characters() {
        assert!(messages("a.rs", &"ü".repeat(100)).is_empty());
        assert_eq!(
            messages("a.rs", &format!("\n{}", "ü".repeat(101))),
            ["a.rs:2: 101 characters: a line has at most 100"],
        );
        assert!(messages("a.rs", &format!("// https://{}", "a".repeat(100))).is_empty());
        assert!(messages("a.md", &"a".repeat(200)).is_empty());
    }

    #[test]
    fn leftovers_are_found_as_whole_words() {
        let leftover = concat!("FIX", "ME");
        assert_eq!(messages("a.rs", &format!("// {leftover}: later")).len(), 1);
        assert!(messages("a.rs", &format!("let {leftover}S = 1;")).is_empty());
    }

    #[test]
    fn machine_paths_are_found_from_the_root_on() {
        let path = concat!("/ro", "ot/");
        assert_eq!(messages("a.md", &format!("see {path}x")).len(), 1);
        assert!(messages("a.md", &format!("see $base{path}x")).is_empty());
    }
}
