//! Rules for Rust: how long a file and a function are, and calls that must not stay.

use super::source::{closing_brace, find, line_of, masked, opening_brace, without_tests};
use super::{File, Violation};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Macros that nothing may call, tests included. The check adds the exclamation mark, so that this
/// file keeps its own rule.
const BANNED_MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

/// Checks lengths and banned calls in a Rust file.
pub fn check(file: &File) -> Vec<Violation> {
    let code = masked(&file.text);
    let production = without_tests(&code);
    let mut violations = function_lengths(file, &code);
    for name in BANNED_MACROS {
        for place in find(&code, &format!("{name}!")) {
            let whole =
                place == 0 || !(code[place - 1].is_alphanumeric() || code[place - 1] == '_');
            if whole {
                let message = format!("{name}! is for the desk: it must not be committed");
                violations.push(Violation::new(&file.path, line_of(&code, place), message));
            }
        }
    }
    if !is_test(&file.path) {
        violations.extend(file_length(file, &production));
        for place in find(&production, ".unwrap()") {
            let message = "unwrap() outside tests: return the error, or say with expect() \
                why there is none";
            violations.push(Violation::new(&file.path, line_of(&code, place), message));
        }
    }
    violations
}

/// True if the whole file is compiled for tests alone.
fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.split('/').any(|part| part == "tests")
}

/// Counts the lines up to where the file's tests begin.
fn file_length(file: &File, production: &[char]) -> Option<Violation> {
    let last = production.iter().rposition(|character| !character.is_whitespace())?;
    let lines = line_of(production, last);
    let message = || format!("{lines} lines: a file has at most {FILE_LINES_MAX}; split it");
    (lines > FILE_LINES_MAX).then(|| Violation::new(&file.path, 1, message()))
}

fn function_lengths(file: &File, code: &[char]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (place, name) in functions(code) {
        let Some(open) = opening_brace(code, place) else { continue };
        let first = line_of(code, place);
        let lines = line_of(code, closing_brace(code, open)) - first + 1;
        if lines > FUNCTION_LINES_MAX {
            let message = format!(
                "fn {name} has {lines} lines: a function has at most {FUNCTION_LINES_MAX}; split it"
            );
            violations.push(Violation::new(&file.path, first, message));
        }
    }
    violations
}

/// The place and the name of every function; types such as `fn(u8)` have no name and are none.
fn functions(code: &[char]) -> Vec<(usize, String)> {
    let word = |character: &char| character.is_alphanumeric() || *character == '_';
    let named = |place: usize| {
        let begins = place == 0 || !word(&code[place - 1]);
        let name: String = code[place + 3..].iter().take_while(|c| word(c)).collect();
        (begins && !name.is_empty()).then_some((place, name))
    };
    find(code, "fn ").into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        check(&file).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn functions_are_measured_from_head_to_brace() {
        let body = |lines: usize| format!("// x\nfn a() {{\n{}}}\n", "    b();\n".repeat(lines));
        assert!(messages("src/a.rs", &body(68)).is_empty());
        assert_eq!(
            messages("src/a.rs", &body(69)),
            ["src/a.rs:2: fn a has 71 lines: a function has at most 70; split it"],
        );
    }

    #[test]
    fn tests_may_make_a_file_longer() {
        let production = "const A: u8 = 1;\n".repeat(800);
        let tests = "#[cfg(test)]\nmod tests {\n    const B: u8 = 1;\n}\n";
        assert!(messages("src/a.rs", &format!("{production}{tests}")).is_empty());
        let longer = format!("{production}const C: u8 = 1;\n");
        assert_eq!(messages("src/a.rs", &longer).len(), 1);
        assert!(messages("src/a/tests.rs", &longer).is_empty());
        assert!(messages("tests/a.rs", &longer).is_empty());
    }

    #[test]
    fn banned_calls_are_found_in_code_only() {
        assert_eq!(messages("src/a.rs", "fn a() { b().unwrap() }").len(), 1);
        assert!(messages("src/a.rs", "// .unwrap()\nconst A: &str = \".unwrap()\";").is_empty());
        assert!(
            messages("src/a.rs", "#[cfg(test)]\nmod tests { fn a() { b().unwrap() } }").is_empty()
        );
        assert_eq!(messages("tests/a.rs", concat!("fn a() { to", "do!() }")).len(), 1);
        assert!(messages("tests/a.rs", concat!("fn a() { my_to", "do!() }")).is_empty());
    }
}
