//! Colours for SQL on the line that is being edited.

use std::borrow::Cow;

use crate::shell::help;
use crate::shell::lexer::{Lexer, TokenKind};

/// Magenta, since the blue of many terminals is too dark on black.
const KEYWORD: &str = "\x1b[1;35m";
const STRING: &str = "\x1b[32m";
const NUMBER: &str = "\x1b[36m";
const COMMENT: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// The line with colours, in the same width.
pub fn highlight(line: &str) -> Cow<'_, str> {
    if line.trim_start().starts_with('\\') {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 64);
    for token in Lexer::tokens(line) {
        let text = &line[token.range];
        let color = match token.kind {
            TokenKind::Word if is_keyword(text) => KEYWORD,
            TokenKind::String => STRING,
            TokenKind::Number => NUMBER,
            TokenKind::Comment => COMMENT,
            _ => "",
        };
        if color.is_empty() {
            out.push_str(text);
        } else {
            out.extend([color, text, RESET]);
        }
    }
    Cow::Owned(out)
}

fn is_keyword(word: &str) -> bool {
    help::KEYWORDS.binary_search(&word.to_ascii_uppercase().as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_sql_knows_stand_out() {
        assert_eq!(
            highlight("select a, 'x', 1 -- c"),
            "\x1b[1;35mselect\x1b[0m a, \x1b[32m'x'\x1b[0m, \x1b[36m1\x1b[0m \x1b[2m-- c\x1b[0m"
        );
        assert_eq!(highlight("\\d select"), "\\d select");
    }
}
