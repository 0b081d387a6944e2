//! Signs behind operators: `a>-1` is `a > -1`.
//!
//! The tokenizer takes all characters that operators may have for one operator. PostgreSQL ends an
//! operator before the signs at its end, unless it has a character that none of SQL's own
//! operators has (<https://www.postgresql.org/docs/current/sql-createoperator.html>).

use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};

use super::dialect::ThalwegDialect;

/// An operator with one of these characters may end with a sign.
const OF_OWN_OPERATORS: [char; 10] = ['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'];

/// The tokens, with operators that end before their signs.
pub(super) fn separated(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| operator_length(&token.token).is_some()) {
        return tokens;
    }
    let mut all = Vec::with_capacity(tokens.len() + 1);
    for token in tokens {
        match operator_length(&token.token) {
            Some(length) => split(&token, length, &mut all),
            None => all.push(token),
        }
    }
    all
}

/// The length of an operator without the signs at its end; `None` if it has none, or keeps them.
fn operator_length(token: &Token) -> Option<usize> {
    let Token::CustomBinaryOperator(operator) = token else { return None };
    if operator.contains(OF_OWN_OPERATORS) || !operator.ends_with(['+', '-']) {
        return None;
    }
    Some(operator.trim_end_matches(['+', '-']).len().max(1))
}

/// Adds the tokens of an operator of so many bytes, and of the signs behind it.
fn split(token: &TokenWithSpan, length: usize, all: &mut Vec<TokenWithSpan>) {
    let Token::CustomBinaryOperator(written) = &token.token else { return };
    let (operator, signs) = written.split_at(length);
    let mut column = token.span.start.column;
    let mut push = |text: &str| {
        // Both are characters of operators only, which the tokenizer always reads.
        let parts = Tokenizer::new(&ThalwegDialect, text).tokenize().unwrap_or_default();
        let start = Location::new(token.span.start.line, column);
        column += text.len() as u64;
        let end = Location::new(token.span.start.line, column);
        let span = Span::new(start, end);
        all.extend(parts.into_iter().map(|token| TokenWithSpan { token, span }));
    };
    push(operator);
    for sign in signs.chars() {
        push(&sign.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_end_before_signs_as_in_postgres() {
        for (text, parts) in [
            ("a>-1", "a > - 1"),
            ("a>=-1", "a >= - 1"),
            ("a<>+b", "a <> + b"),
            ("j->-1", "j -> - 1"),
            ("j->>-1", "j ->> - 1"),
            ("a*-1", "a * - 1"),
            ("a+-1", "a + - 1"),
            ("a ~- b", "a ~- b"),
            ("a - -1", "a - - 1"),
        ] {
            let tokens = Tokenizer::new(&ThalwegDialect, text).tokenize_with_location().unwrap();
            let is_blank = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_));
            let tokens = separated(tokens);
            let shown: Vec<String> = tokens
                .iter()
                .filter(|token| !is_blank(token))
                .map(|token| token.token.to_string())
                .collect();
            assert_eq!(shown.join(" "), parts, "{text}");
        }
    }
}
