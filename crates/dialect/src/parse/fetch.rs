//! `FETCH FIRST (count) ROWS ONLY`: the parser takes numbers alone for a count.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::steps::{behind_blanks, is_one_of, one_of};
use crate::functions::WITH_TIES;

/// The tokens with `LIMIT (count)` in its place; those of the count stay where they were.
pub(super) fn as_limits(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_one_of(token, &[Keyword::FETCH])) {
        return tokens;
    }
    let mut respelled = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        let Some(Fetch { count, with_ties, behind }) = fetch(rest) else {
            respelled.push(first.clone());
            rest = behind;
            continue;
        };
        let here = |token| TokenWithSpan { token, span: first.span };
        let word = |text: &str, keyword| {
            here(Token::Word(Word { value: text.to_string(), quote_style: None, keyword }))
        };
        respelled.push(word("LIMIT", Keyword::LIMIT));
        if with_ties {
            respelled.extend([word(WITH_TIES, Keyword::NoKeyword), here(Token::LParen)]);
        }
        respelled.extend_from_slice(count);
        if with_ties {
            respelled.push(here(Token::RParen));
        }
        rest = behind;
    }
    respelled
}

struct Fetch<'t> {
    /// With its parentheses.
    count: &'t [TokenWithSpan],
    with_ties: bool,
    behind: &'t [TokenWithSpan],
}

/// What begins with `FETCH`, if its count is in parentheses.
fn fetch(tokens: &[TokenWithSpan]) -> Option<Fetch<'_>> {
    let (first, behind) = tokens.split_first()?;
    if !is_one_of(first, &[Keyword::FETCH]) {
        return None;
    }
    let rest = one_of(behind, &[Keyword::FIRST, Keyword::NEXT])?.1;
    let (count, rest) = parenthesized(rest)?;
    let rest = one_of(rest, &[Keyword::ROW, Keyword::ROWS])?.1;
    match one_of(rest, &[Keyword::ONLY, Keyword::WITH])? {
        (Keyword::ONLY, behind) => Some(Fetch { count, with_ties: false, behind }),
        (_, rest) => {
            let (_, behind) = one_of(rest, &[Keyword::TIES])?;
            Some(Fetch { count, with_ties: true, behind })
        }
    }
}

/// What is in parentheses, if they come next, and what follows them.
fn parenthesized(tokens: &[TokenWithSpan]) -> Option<(&[TokenWithSpan], &[TokenWithSpan])> {
    let tokens = behind_blanks(tokens);
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then(|| tokens.split_at(at + 1));
        }
    }
    None
}
