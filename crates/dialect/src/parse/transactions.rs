//! Statements about transactions that the parser does not accept: `ABORT`, and the modes
//! `DEFERRABLE` and `NOT DEFERRABLE`.
//!
//! The modes decide whether a transaction may wait to begin. No transaction here waits to begin, so
//! they have no effect.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// `ABORT` as `ROLLBACK`, which it means.
pub(super) fn without_abort(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |token: &&mut TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    if let Some(first) = tokens.iter_mut().find(is_word)
        && let Token::Word(word) = &first.token
        && word.quote_style.is_none()
        && word.value.eq_ignore_ascii_case("abort")
    {
        first.token = Token::make_keyword("ROLLBACK");
    }
    tokens
}

/// The tokens without the mode, where they begin a transaction or set its modes.
pub(super) fn without_waiting(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let word = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    };
    let mut words = tokens.iter().filter_map(word);
    let sets_modes = match words.next() {
        Some(Keyword::BEGIN | Keyword::START) => true,
        Some(Keyword::SET) => matches!(words.next(), Some(Keyword::TRANSACTION | Keyword::SESSION)),
        _ => false,
    };
    if !sets_modes || !tokens.iter().any(|token| word(token) == Some(Keyword::DEFERRABLE)) {
        return tokens;
    }
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    for token in tokens {
        if word(&token) != Some(Keyword::DEFERRABLE) {
            kept.push(token);
            continue;
        }
        for goes in [Token::make_keyword("NOT"), Token::Comma] {
            let last = kept.iter().rposition(|token| !is_blank(token));
            if let Some(last) = last.filter(|last| is_same(&kept[*last].token, &goes)) {
                kept.truncate(last);
            }
        }
    }
    kept
}

fn is_same(token: &Token, other: &Token) -> bool {
    match (token, other) {
        (Token::Word(word), Token::Word(other)) => {
            word.quote_style.is_none() && word.keyword == other.keyword
        }
        (token, other) => token == other,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_single;

    #[test]
    fn abort_rolls_back() {
        for (written, read) in [
            ("ABORT", "ROLLBACK"),
            ("abort work", "ROLLBACK"),
            ("ABORT TRANSACTION AND CHAIN", "ROLLBACK AND CHAIN"),
        ] {
            assert_eq!(parse_single(written).unwrap().statement.to_string(), read, "{written}");
        }
        assert!(parse_single("\"abort\"").is_err());
    }

    #[test]
    fn modes_stay_without_it() {
        for (written, read) in [
            ("BEGIN DEFERRABLE", "BEGIN"),
            (
                "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
                "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
            ),
            ("START TRANSACTION READ ONLY, NOT DEFERRABLE", "START TRANSACTION READ ONLY"),
            ("SET TRANSACTION NOT DEFERRABLE", "SET TRANSACTION"),
        ] {
            assert_eq!(parse_single(written).unwrap().statement.to_string(), read, "{written}");
        }
    }
}
