//! `FETCH FIRST (count) ROWS ONLY`: the parser takes numbers alone for a count.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use thalweg_functions::WITH_TIES;

use super::token_steps::{behind_blanks, is_one_of, one_of};

/// The tokens with `LIMIT (count)` instead of the clause; the tokens of the count keep their
/// positions.
pub(super) fn as_limits(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_one_of(token, &[Keyword::FETCH])) {
        return tokens;
    }
    let closings = closings(&tokens);
    let mut respelled = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        let Some(Fetch { count, with_ties, behind }) = fetch(rest, &closings) else {
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

/// The clause that begins with `FETCH`, if its count is in parentheses.
fn fetch<'t>(tokens: &'t [TokenWithSpan], closings: &[usize]) -> Option<Fetch<'t>> {
    let (first, behind) = tokens.split_first()?;
    if !is_one_of(first, &[Keyword::FETCH]) {
        return None;
    }
    let rest = one_of(behind, &[Keyword::FIRST, Keyword::NEXT])?.1;
    let (count, rest) = parenthesized(rest, closings)?;
    let rest = one_of(rest, &[Keyword::ROW, Keyword::ROWS])?.1;
    match one_of(rest, &[Keyword::ONLY, Keyword::WITH])? {
        (Keyword::ONLY, behind) => Some(Fetch { count, with_ties: false, behind }),
        (_, rest) => {
            let (_, behind) = one_of(rest, &[Keyword::TIES])?;
            Some(Fetch { count, with_ties: true, behind })
        }
    }
}

/// The position of the closing parenthesis for each opening one, and 0 for all other tokens. It is
/// computed once for all counts of a statement.
fn closings(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let (mut closings, mut open) = (vec![0; tokens.len()], Vec::new());
    for (place, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => open.push(place),
            Token::RParen => {
                if let Some(opening) = open.pop() {
                    closings[opening] = place;
                }
            }
            _ => {}
        }
    }
    closings
}

/// The tokens in parentheses, if they come next, and the tokens behind them. `tokens` are the last
/// ones of the statement that `closings` belongs to.
fn parenthesized<'t>(
    tokens: &'t [TokenWithSpan],
    closings: &[usize],
) -> Option<(&'t [TokenWithSpan], &'t [TokenWithSpan])> {
    let tokens = behind_blanks(tokens);
    let opening = closings.len() - tokens.len();
    let closing = *closings.get(opening)?;
    (closing > opening).then(|| tokens.split_at(closing + 1 - opening))
}
