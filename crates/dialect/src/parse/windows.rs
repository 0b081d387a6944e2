//! Windows named like keywords: the parser does not take `first` in `OVER (first)` for a name.

use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::token_steps::is_one_of;

/// The words that begin a window that has no name.
const CLAUSES: [Keyword; 5] =
    [Keyword::PARTITION, Keyword::ORDER, Keyword::RANGE, Keyword::ROWS, Keyword::GROUPS];

/// The tokens with such keywords as plain words.
pub(super) fn named(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    /// The tokens of `OVER (` that have been seen.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Nothing,
        Over,
        Parenthesis,
    }
    let mut seen = Seen::Nothing;
    for token in &mut tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let is_open = token.token == Token::LParen;
        let is_over = is_one_of(token, &[Keyword::OVER]);
        if seen == Seen::Parenthesis
            && let Token::Word(word) = &mut token.token
            && !CLAUSES.contains(&word.keyword)
            && !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword)
        {
            word.keyword = Keyword::NoKeyword;
        }
        seen = match seen {
            Seen::Over if is_open => Seen::Parenthesis,
            _ if is_over => Seen::Over,
            _ => Seen::Nothing,
        };
    }
    tokens
}
