//! `FOR NO KEY UPDATE` and `FOR KEY SHARE`, which the parser does not know.
//!
//! They are read as `FOR UPDATE` and `FOR SHARE`. These locks exclude more: they differ only beside
//! foreign keys, which nothing enforces here.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::token_steps::is_one_of;

/// The tokens of a statement without the words that weaken a row lock.
pub(super) fn known(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_one_of(token, &[Keyword::KEY])) {
        return tokens;
    }
    let spoken: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at].token, Token::Whitespace(_))).collect();
    let mut weakening = Vec::new();
    for (at, place) in spoken.iter().enumerate() {
        let next = |words: &[Keyword]| {
            let places = spoken[at + 1..].iter().take(words.len());
            places.len() == words.len()
                && places.zip(words).all(|(place, word)| is_one_of(&tokens[*place], &[*word]))
        };
        if !is_one_of(&tokens[*place], &[Keyword::FOR]) {
            continue;
        }
        if next(&[Keyword::KEY, Keyword::SHARE]) {
            weakening.push(spoken[at + 1]);
        } else if next(&[Keyword::NO, Keyword::KEY, Keyword::UPDATE]) {
            weakening.extend([spoken[at + 1], spoken[at + 2]]);
        }
    }
    let mut places = 0..tokens.len();
    tokens.retain(|_| places.next().is_none_or(|place| weakening.binary_search(&place).is_err()));
    tokens
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_single;

    #[test]
    fn weaker_locks_are_read_as_the_stronger_ones() {
        for (written, read) in [
            ("SELECT 1 FROM t FOR NO KEY UPDATE", "SELECT 1 FROM t FOR UPDATE"),
            ("SELECT 1 FROM t FOR KEY SHARE OF t NOWAIT", "SELECT 1 FROM t FOR SHARE OF t NOWAIT"),
            (
                "SELECT 1 FROM t FOR  NO  KEY  UPDATE SKIP LOCKED",
                "SELECT 1 FROM t FOR UPDATE SKIP LOCKED",
            ),
            ("SELECT key FROM t FOR UPDATE", "SELECT key FROM t FOR UPDATE"),
        ] {
            assert_eq!(parse_single(written).unwrap().statement.to_string(), read, "{written}");
        }
    }
}
