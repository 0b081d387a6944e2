//! Steps over the tokens of a statement, for passes that replace some of them.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// True if a token is one of the words, without quotes.
pub(super) fn is_one_of(token: &TokenWithSpan, keywords: &[Keyword]) -> bool {
    matches!(&token.token, Token::Word(word) if keywords.contains(&word.keyword))
}

/// The first token that is no blank, and what follows it.
pub(super) fn next(tokens: &[TokenWithSpan]) -> Option<(&TokenWithSpan, &[TokenWithSpan])> {
    behind_blanks(tokens).split_first()
}

pub(super) fn behind_blanks(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let blanks = tokens.iter().take_while(|token| matches!(token.token, Token::Whitespace(_)));
    &tokens[blanks.count()..]
}

/// The one of the words that comes next, and what follows it.
pub(super) fn one_of<'t>(
    tokens: &'t [TokenWithSpan],
    keywords: &[Keyword],
) -> Option<(Keyword, &'t [TokenWithSpan])> {
    let (first, behind) = next(tokens)?;
    match &first.token {
        Token::Word(word) if keywords.contains(&word.keyword) => Some((word.keyword, behind)),
        _ => None,
    }
}
