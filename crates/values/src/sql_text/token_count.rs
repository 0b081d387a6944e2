//! The number of a text's tokens, before there are any.
//!
//! The tokenizer returns all tokens of a text at once, a hundred bytes or more for a single
//! character. So the memory that they will take is known before it is allocated.

use super::pieces::{Piece, next_piece};

/// Upper bound of the number of tokens of a text.
///
/// It is close for statements as people and programs write them. From the first place where the
/// tokenizer may see another quote than [`next_piece`] does, each byte counts as a token.
#[must_use]
pub fn tokens_at_most(sql: &str) -> usize {
    let mut tokens = 0;
    let mut rest = sql;
    while !rest.is_empty() {
        let (piece, length, _) = next_piece(rest);
        let (text, behind) = rest.split_at(length);
        tokens += match piece {
            // Each blank is a token of its own.
            Piece::Space | Piece::Unknown => length,
            Piece::Comment | Piece::Word | Piece::Sign | Piece::Parameter => 1,
            // A prefix may be a word and an operator.
            Piece::Literal | Piece::Identifier => 3,
            // Points and letters may divide it.
            Piece::Number => 1 + 2 * text.bytes().filter(|byte| !byte.is_ascii_digit()).count(),
        };
        if may_disagree(piece, text, behind) {
            return tokens + text.len() + behind.len();
        }
        rest = behind;
    }
    tokens
}

/// True if a quote may begin or end elsewhere for the tokenizer: `$` can be a part of a word, the
/// last letter of a number the prefix of a literal, and a backslash escapes quotes behind some
/// prefixes.
fn may_disagree(piece: Piece, text: &str, behind: &str) -> bool {
    match piece {
        Piece::Literal => text.contains('\\') && !text.starts_with(['\'', 'e', 'E', '$']),
        Piece::Number => behind.starts_with(['\'', '"', '$', '&']),
        Piece::Word | Piece::Parameter => behind.starts_with('$'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_about_as_many_tokens_as_they_seem_to() {
        assert_eq!(tokens_at_most(""), 0);
        assert_eq!(tokens_at_most("SELECT 1;"), 4);
        assert_eq!(tokens_at_most("SELECT 'a; b; c' -- d; e; f"), 7);
        assert_eq!(tokens_at_most("/* a; /* b; */ c; */;"), 2);
        assert_eq!(tokens_at_most("$a$ ; ; $$ ; $a$"), 3);
        assert_eq!(tokens_at_most("(1,2),(30,40)"), 11);
        assert_eq!(tokens_at_most(&";".repeat(1_000)), 1_000);
    }

    #[test]
    fn quotes_that_may_be_none_count_byte_by_byte() {
        for text in ["a$b$';;;;", "$1$';;;;", "1e'\\'';;;;", "1u&'';;;;", "\u{2019};;;;"] {
            assert!(tokens_at_most(text) >= 5, "{text}");
        }
    }
}
