//! Messages of errors: the problem, its place in the statement, and a remedy.

use std::fmt::Write as _;

use thalweg_types::Error;

use crate::print::text;

/// Maximum number of columns of a long line on each side of the error's place.
const CONTEXT_COLUMNS: usize = 50;

/// How much of an error is shown, and in which colours.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorStyle {
    pub color: bool,
    /// Shows the SQLSTATE too.
    pub verbose: bool,
}

/// The lines of the error's message. `statement` is the statement that failed, if it was one;
/// `origin` is its place in a script, such as `load.sql:12`.
pub fn render(
    error: &Error,
    statement: Option<&str>,
    origin: Option<&str>,
    style: ErrorStyle,
) -> String {
    let mut out = String::new();
    if let Some(origin) = origin {
        out.push_str(origin);
        out.push_str(": ");
    }
    out.push_str(if style.color { "\x1b[1;31mERROR:\x1b[0m  " } else { "ERROR:  " });
    if style.verbose {
        out.push_str(error.state().0);
        out.push_str(": ");
    }
    push_line(&mut out, "", error.message());
    if let (Some(statement), Some(position)) = (statement, error.position()) {
        push_place(&mut out, statement, position);
    }
    if let Some(detail) = error.detail() {
        push_line(&mut out, "DETAIL:  ", detail);
    }
    if let Some(hint) = error.hint() {
        push_line(&mut out, "HINT:  ", hint);
    }
    out
}

fn push_line(out: &mut String, label: &str, message: &str) {
    writeln!(out, "{label}{}", text::printable(message)).expect("strings take any text");
}

/// `LINE n: …` and a caret under the character at `position`, counted from 1.
fn push_place(out: &mut String, statement: &str, position: usize) {
    let characters_before = position.saturating_sub(1);
    let at = statement
        .char_indices()
        .nth(characters_before)
        .map_or(statement.trim_end().len(), |(at, _)| at);
    let start = statement[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = statement[at..].find('\n').map_or(statement.len(), |length| at + length);
    let number = statement[..start].matches('\n').count() + 1;

    // The text is made printable as a whole and then cut at the error, so that tabs and wide
    // characters keep their columns.
    let before = text::printable(&statement[start..at]).into_owned();
    let line = text::printable(statement[start..end].trim_end()).into_owned();
    let after = line.get(before.len()..).unwrap_or("");

    let hidden = text::width(&before).saturating_sub(CONTEXT_COLUMNS);
    let (lead, shown) = if hidden > 0 {
        ("...", &before[text::end_within(&before, hidden + 3)..])
    } else {
        ("", before.as_str())
    };
    let label = format!("LINE {number}: {lead}{shown}");
    let rest = text::end_within(after, CONTEXT_COLUMNS);
    let tail = if rest < after.len() { "..." } else { "" };
    let caret = text::width(&label);
    writeln!(out, "{label}{}{tail}\n{:caret$}^", &after[..rest], "")
        .expect("strings take any text");
}

#[cfg(test)]
mod tests {
    use thalweg_types::SqlState;

    use super::*;

    fn position_lines(statement: &str, position: usize) -> String {
        let error = Error::new(SqlState::SYNTAX_ERROR, "no").with_position(position);
        render(&error, Some(statement), None, ErrorStyle::default())
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        assert_eq!(
            position_lines("select foo", 8),
            "ERROR:  no\nLINE 1: select foo\n               ^\n"
        );
        assert_eq!(
            position_lines("select 1,\n\tfoo\nfrom t", 12),
            "ERROR:  no\nLINE 2:         foo\n                ^\n"
        );
        assert_eq!(
            position_lines("select '日本', ö, foo", 17),
            "ERROR:  no\nLINE 1: select '日本', ö, foo\n                          ^\n"
        );
    }

    #[test]
    fn positions_past_the_end_point_behind_the_statement() {
        assert_eq!(position_lines("select", 7), "ERROR:  no\nLINE 1: select\n              ^\n");
        assert_eq!(position_lines("select", 99), "ERROR:  no\nLINE 1: select\n              ^\n");
        assert_eq!(position_lines("", 1), "ERROR:  no\nLINE 1: \n        ^\n");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let statement = format!("select {} oops {}", "a".repeat(200), "b".repeat(200));
        let shown = position_lines(&statement, 209);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[1].starts_with("LINE 1: ...aaa") && lines[1].ends_with("bbb..."), "{shown}");
        let caret = lines[2].find('^').unwrap();
        assert_eq!(&lines[1][caret..caret + 4], "oops");
        assert!(lines[1].len() < 120);
    }

    #[test]
    fn everything_that_is_known_is_told() {
        let error = Error::new(SqlState::UNIQUE_VIOLATION, "duplicate key")
            .with_detail("Key (id)=(1) already exists.")
            .with_hint("Use ON CONFLICT.");
        let style = ErrorStyle { verbose: true, color: false };
        assert_eq!(
            render(&error, Some("insert"), Some("load.sql:3"), style),
            "load.sql:3: ERROR:  23505: duplicate key\n\
             DETAIL:  Key (id)=(1) already exists.\nHINT:  Use ON CONFLICT.\n"
        );
    }
}
