//! Literals that DataFusion's planner does not read, rewritten to literals that it does.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Whitespace, Word};

/// The greatest exponent of a number that is taken as `numeric`.
const NUMERIC_EXPONENT_MAX: i32 = 30;

/// The tokens with such literals replaced; positions stay those of the text.
pub(super) fn readable(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut readable: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for TokenWithSpan { token, span } in tokens {
        match token {
            Token::Number(digits, _) if is_beyond_numeric(&digits) => {
                let parts = [
                    Token::SingleQuotedString(digits),
                    Token::DoubleColon,
                    Token::Word(Word {
                        value: "float8".to_string(),
                        quote_style: None,
                        keyword: Keyword::FLOAT8,
                    }),
                ];
                readable.extend(parts.map(|token| TokenWithSpan { token, span }));
            }
            Token::Number(digits, is_long) => {
                let token = Token::Number(written_out(&digits).unwrap_or(digits), is_long);
                readable.push(TokenWithSpan { token, span });
            }
            Token::UnicodeStringLiteral(text) => {
                readable.push(TokenWithSpan { token: Token::SingleQuotedString(text), span });
            }
            token => readable.push(TokenWithSpan { token, span }),
        }
    }
    readable
}

/// The second of two literals side by side on one line, which is a syntax error.
pub(super) fn stray(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let mut after_literal = false;
    for token in tokens {
        match &token.token {
            Token::SingleQuotedString(_) if after_literal => return Some(token),
            Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => after_literal = true,
            Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. }) => {
                after_literal = false
            }
            Token::Whitespace(_) => {}
            _ => after_literal = false,
        }
    }
    None
}

/// The first of the numbers like `0x1F`, which the tokenizer takes for `x'1F'`: as long as what
/// they hold and the `0x`, where that has a letter and two quotes.
pub(super) fn hexadecimal(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    tokens.iter().find(|token| match &token.token {
        Token::HexStringLiteral(digits) => {
            let (start, end) = (token.span.start, token.span.end);
            end.line == start.line && end.column - start.column == digits.chars().count() as u64 + 2
        }
        _ => false,
    })
}

/// The first number that a word follows without a blank, together with that word: `123abc`.
pub(super) fn number_with_letters(tokens: &[TokenWithSpan]) -> Option<TokenWithSpan> {
    tokens.windows(2).find_map(|pair| match (&pair[0].token, &pair[1].token) {
        (Token::Number(..), Token::Word(word))
            if word.quote_style.is_none() && pair[0].span.end == pair[1].span.start =>
        {
            let span = Span::new(pair[0].span.start, pair[1].span.end);
            Some(TokenWithSpan { token: pair[0].token.clone(), span })
        }
        _ => None,
    })
}

/// `TABLE t` where a query begins is `SELECT * FROM t`: at the beginning, in parentheses and beside
/// `UNION` and its like.
pub(super) fn expand_table(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut expanded = Vec::with_capacity(tokens.len());
    // The last two of the tokens that are more than blanks.
    let mut before = [Before::Nothing; 2];
    for token in tokens {
        let kind = match &token.token {
            Token::Whitespace(_) => None,
            Token::LParen => Some(Before::Parenthesis),
            Token::Word(word) if word.quote_style.is_none() => Some(Before::Word(word.keyword)),
            _ => Some(Before::Other),
        };
        if kind == Some(Before::Word(Keyword::TABLE)) && begins_query(before) {
            expanded.extend(select_all(token.span));
        } else {
            expanded.push(token);
        }
        before = kind.map_or(before, |kind| [before[1], kind]);
    }
    expanded
}

/// The token in front of another one.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Parenthesis,
    Word(Keyword),
    Other,
}

/// True if a query may follow these two tokens.
fn begins_query(before: [Before; 2]) -> bool {
    const OPERATORS: [Keyword; 3] = [Keyword::UNION, Keyword::EXCEPT, Keyword::INTERSECT];
    let is_operator =
        |before: Before| matches!(before, Before::Word(word) if OPERATORS.contains(&word));
    match before {
        [_, Before::Nothing | Before::Parenthesis] => true,
        [first, Before::Word(Keyword::ALL | Keyword::DISTINCT)] => is_operator(first),
        [_, last] => is_operator(last),
    }
}

/// `SELECT * FROM`, in one place of the statement.
fn select_all(span: Span) -> [TokenWithSpan; 3] {
    let word = |text: &str, keyword| {
        Token::Word(Word { value: text.to_string(), quote_style: None, keyword })
    };
    let select = [word("SELECT", Keyword::SELECT), Token::Mul, word("FROM", Keyword::FROM)];
    select.map(|token| TokenWithSpan { token, span })
}

/// True if a number's exponent is beyond the digits of `numeric`.
fn is_beyond_numeric(digits: &str) -> bool {
    let exponent = digits.split_once(['e', 'E']).and_then(|(_, exponent)| exponent.parse().ok());
    exponent.is_some_and(|exponent: i32| exponent.abs() > NUMERIC_EXPONENT_MAX)
}

/// Writes a number with an exponent as one without. DataFusion's planner would take `1e9` for a
/// numeric in units of a billion, for which arithmetic with other numbers has no type.
fn written_out(digits: &str) -> Option<String> {
    let (mantissa, exponent) = digits.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let mantissa = mantissa.replace('_', "");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((&mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i32 + exponent;
    Some(match point {
        ..=0 => format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        _ if (point as usize) < digits.len() => {
            let (whole, fraction) = digits.split_at(point as usize);
            format!("{whole}.{fraction}")
        }
        // The point marks it as a number with a fraction.
        _ => format!("{digits:0<width$}.", width = point as usize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_written_out() {
        for (given, expected) in [
            ("1e9", "1000000000."),
            ("1.5E+3", "1500."),
            ("1.25e1", "12.5"),
            ("12.5e-1", "1.25"),
            ("1.5e-3", "0.0015"),
            ("5e-1", "0.5"),
            (".5e2", "50."),
            ("2.e0", "2."),
            ("1_000e-2", "10.00"),
            ("0e5", "000000."),
        ] {
            assert_eq!(written_out(given).as_deref(), Some(expected), "{given}");
        }
        assert_eq!(written_out("12.5"), None);
    }
}
