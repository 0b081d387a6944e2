//! Literals that DataFusion's planner does not read, put into words that it does.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};
use thalweg_formats::text::parse;

/// The greatest exponent of a number that is taken as `numeric`.
const NUMERIC_EXPONENT_MAX: i32 = 30;

/// The tokens with such literals replaced; places stay those of the text.
pub(super) fn readable(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut readable: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut after_interval = false;
    for TokenWithSpan { token, span } in tokens {
        let interval_follows =
            matches!(&token, Token::Word(word) if word.keyword == Keyword::INTERVAL);
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
            Token::UnicodeStringLiteral(text) => {
                readable.push(TokenWithSpan { token: Token::SingleQuotedString(text), span });
            }
            Token::SingleQuotedString(text) if after_interval => {
                let token = Token::SingleQuotedString(plain_interval(text));
                readable.push(TokenWithSpan { token, span });
            }
            token => {
                let is_blank = matches!(token, Token::Whitespace(_));
                readable.push(TokenWithSpan { token, span });
                if is_blank {
                    continue;
                }
            }
        }
        after_interval = interval_follows;
    }
    readable
}

/// The second of two literals that stand side by side on one line, which mean nothing together.
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

/// `TABLE t` as a whole statement is `SELECT * FROM t`.
pub(super) fn expand_table(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_table = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.keyword == Keyword::TABLE,
        _ => false,
    };
    let first = tokens.iter().position(|token| !matches!(token.token, Token::Whitespace(_)));
    let Some(first) = first.filter(|first| is_table(&tokens[*first])) else { return tokens };
    let word = |text: &str, keyword| {
        Token::Word(Word { value: text.to_string(), quote_style: None, keyword })
    };
    let select = [word("SELECT", Keyword::SELECT), Token::Mul, word("FROM", Keyword::FROM)];
    let span = tokens[first].span;
    let mut expanded: Vec<TokenWithSpan> = select.map(|token| TokenWithSpan { token, span }).into();
    expanded.extend(tokens.into_iter().skip(first + 1));
    expanded
}

/// Whether a number has an exponent that no `numeric` of ours has digits for.
fn is_beyond_numeric(digits: &str) -> bool {
    let exponent = digits.split_once(['e', 'E']).and_then(|(_, exponent)| exponent.parse().ok());
    exponent.is_some_and(|exponent: i32| exponent.abs() > NUMERIC_EXPONENT_MAX)
}

/// The parts of an interval with a unit each. A bare number stays: its unit may follow the literal.
fn plain_interval(text: String) -> String {
    if text.trim().parse::<f64>().is_ok() {
        return text;
    }
    match parse::interval(&text) {
        Ok(interval) => format!(
            "{} months {} days {} microseconds",
            interval.months,
            interval.days,
            interval.nanoseconds / 1_000
        ),
        // What is wrong with it is told where the literal is cast.
        Err(_) => text,
    }
}
