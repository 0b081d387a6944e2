//! Words of PostgreSQL that mean nothing more here, and that the parser does not take everywhere:
//! `FROM ONLY t`, because no table has children, and `OPERATOR(pg_catalog.=) ANY (…)`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::token_steps::{is_one_of, next, one_of};

/// The tokens of a statement without them.
pub(super) fn without(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const WORDS: [Keyword; 2] = [Keyword::ONLY, Keyword::OPERATOR];
    if !tokens.iter().any(|token| is_one_of(token, &WORDS)) {
        return tokens;
    }
    let mut before: Option<Token> = None;
    let mut at = 0;
    while at < tokens.len() {
        if is_one_of(&tokens[at], &[Keyword::ONLY]) && is_of_table(before.as_ref(), &tokens[at..]) {
            tokens.remove(at);
            continue;
        }
        if let Some((operator, end)) = quantified_operator(&tokens[at..]) {
            tokens[at].token = operator;
            tokens.drain(at + 1..at + end);
        }
        if !matches!(tokens[at].token, Token::Whitespace(_)) {
            before = Some(tokens[at].token.clone());
        }
        at += 1;
    }
    tokens
}

/// True for `ONLY` between a word that a table follows and the table.
fn is_of_table(before: Option<&Token>, tokens: &[TokenWithSpan]) -> bool {
    let follows = matches!(before, Some(Token::Word(word)) if word.quote_style.is_none()
        && matches!(word.keyword, Keyword::FROM | Keyword::JOIN | Keyword::UPDATE));
    let names = next(&tokens[1..])
        .is_some_and(|(token, _)| matches!(token.token, Token::Word(_) | Token::LParen));
    follows && names
}

/// The operator of `OPERATOR(pg_catalog.=)` in front of `ANY`, `SOME` or `ALL`, and the number of
/// its tokens.
fn quantified_operator(tokens: &[TokenWithSpan]) -> Option<(Token, usize)> {
    is_one_of(tokens.first()?, &[Keyword::OPERATOR]).then_some(())?;
    let (open, rest) = next(&tokens[1..])?;
    let (schema, rest) = next(rest)?;
    let (period, rest) = next(rest)?;
    let (operator, rest) = next(rest)?;
    let (close, rest) = next(rest)?;
    one_of(rest, &[Keyword::ANY, Keyword::SOME, Keyword::ALL])?;
    let is_catalog = matches!(&schema.token, Token::Word(word)
        if word.value.eq_ignore_ascii_case("pg_catalog"));
    let is_name = open.token == Token::LParen
        && is_catalog
        && period.token == Token::Period
        && close.token == Token::RParen;
    is_name.then(|| (operator.token.clone(), tokens.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_single;

    #[test]
    fn the_words_are_left_out() {
        for (written, read) in [
            ("SELECT a FROM ONLY s.t", "SELECT a FROM s.t"),
            ("UPDATE ONLY t SET a = 1", "UPDATE t SET a = 1"),
            ("SELECT only FROM t", "SELECT only FROM t"),
            (
                "SELECT 1 WHERE a OPERATOR(pg_catalog.=) ANY (array['r'])",
                "SELECT 1 WHERE a = ANY(ARRAY['r'])",
            ),
        ] {
            assert_eq!(parse_single(written).unwrap().statement.to_string(), read, "{written}");
        }
    }
}
