//! Literals of intervals with a unit for each of their parts.
//!
//! DataFusion's planner reads `1 months 2 days 3 microseconds`, but few of PostgreSQL's other
//! forms: `INTERVAL '1-2'`, `INTERVAL '1 2:03' DAY TO MINUTE`, `INTERVAL(3) '1.2345'`.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use thalweg_formats::text::{IntervalFields, IntervalPart, parse};

use super::token_steps::{is_one_of, next, one_of};

/// Values have microseconds.
const SECOND_DIGITS_MAX: u8 = 6;

/// The tokens with such literals replaced; positions stay those of the text.
pub(super) fn spelled_out(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_one_of(token, &[Keyword::INTERVAL])) {
        return tokens;
    }
    let mut spelled = Vec::with_capacity(tokens.len());
    let mut rest = tokens.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        match literal(rest) {
            Some(literal) => {
                literal.spell(first, &mut spelled);
                rest = literal.behind;
            }
            None => {
                spelled.push(first.clone());
                rest = behind;
            }
        }
    }
    spelled
}

struct Literal<'t> {
    text: &'t str,
    span: Span,
    fields: IntervalFields,
    /// The fields as the statement spells them.
    said: &'t [TokenWithSpan],
    behind: &'t [TokenWithSpan],
}

impl Literal<'_> {
    /// Writes a literal of the same value. An invalid one becomes a cast of its text, which reports
    /// the error.
    fn spell(&self, keyword: &TokenWithSpan, spelled: &mut Vec<TokenWithSpan>) {
        let here = |token| TokenWithSpan { token, span: self.span };
        match parse::interval_in(self.text, self.fields) {
            Ok(value) => {
                spelled.push(keyword.clone());
                spelled.push(here(Token::SingleQuotedString(interval_parts(value))));
            }
            Err(_) => {
                spelled.push(here(Token::SingleQuotedString(self.text.to_owned())));
                spelled.push(here(Token::DoubleColon));
                spelled.push(keyword.clone());
                spelled.extend_from_slice(self.said);
            }
        }
    }
}

/// A value in the words that DataFusion's planner reads.
pub(crate) fn interval_parts(value: IntervalMonthDayNano) -> String {
    let IntervalMonthDayNano { months, days, nanoseconds } = value;
    format!("{months} months {days} days {} microseconds", nanoseconds / 1_000)
}

/// The literal that begins with `INTERVAL`, if there is one. A bare number without fields is left
/// alone: the word behind it may be a unit that PostgreSQL does not have.
fn literal(tokens: &[TokenWithSpan]) -> Option<Literal<'_>> {
    let (keyword, rest) = tokens.split_first()?;
    if !is_one_of(keyword, &[Keyword::INTERVAL]) {
        return None;
    }
    let (digits, behind_digits) = match digits(rest) {
        Some((digits, behind)) => (Some(digits), behind),
        None => (None, rest),
    };
    let (token, behind) = next(behind_digits)?;
    let Token::SingleQuotedString(text) = &token.token else { return None };
    let (parts, second_digits, said, behind) = match digits {
        Some(digits) => (None, Some(digits), between(rest, behind_digits), behind),
        None => {
            let (parts, digits, after) = qualifier(behind)?;
            (parts, digits, between(behind, after), after)
        }
    };
    if said.is_empty() && text.trim().parse::<f64>().is_ok() {
        return None;
    }
    let second_digits = Some(second_digits.unwrap_or(SECOND_DIGITS_MAX));
    let fields = IntervalFields { parts, second_digits };
    Some(Literal { text, span: token.span, fields, said, behind })
}

/// The tokens of the first slice in front of the second one, which is its end.
fn between<'t>(tokens: &'t [TokenWithSpan], end: &[TokenWithSpan]) -> &'t [TokenWithSpan] {
    &tokens[..tokens.len() - end.len()]
}

type Parts = Option<(IntervalPart, IntervalPart)>;

/// `DAY TO SECOND(3)` or nothing, and what follows it; `None` for fields that no type has.
fn qualifier(tokens: &[TokenWithSpan]) -> Option<(Parts, Option<u8>, &[TokenWithSpan])> {
    use IntervalPart::{Day, Hour, Minute, Month, Second, Year};
    let Some((greatest, rest)) = part(tokens) else { return Some((None, None, tokens)) };
    let (smallest, rest) = match one_of(rest, &[Keyword::TO]) {
        Some((_, behind)) => part(behind)?,
        None => (greatest, rest),
    };
    let is_one = greatest == smallest
        || matches!(
            (greatest, smallest),
            (Year, Month)
                | (Day, Hour | Minute | Second)
                | (Hour, Minute | Second)
                | (Minute, Second)
        );
    if !is_one {
        return None;
    }
    let parts = Some((greatest, smallest));
    match digits(rest).filter(|_| smallest == Second) {
        Some((digits, behind)) => Some((parts, Some(digits), behind)),
        None => Some((parts, None, rest)),
    }
}

fn part(tokens: &[TokenWithSpan]) -> Option<(IntervalPart, &[TokenWithSpan])> {
    const PARTS: [(Keyword, IntervalPart); 6] = [
        (Keyword::YEAR, IntervalPart::Year),
        (Keyword::MONTH, IntervalPart::Month),
        (Keyword::DAY, IntervalPart::Day),
        (Keyword::HOUR, IntervalPart::Hour),
        (Keyword::MINUTE, IntervalPart::Minute),
        (Keyword::SECOND, IntervalPart::Second),
    ];
    let (keyword, behind) = one_of(tokens, &PARTS.map(|(keyword, _)| keyword))?;
    let (_, part) = PARTS.into_iter().find(|(known, _)| *known == keyword)?;
    Some((part, behind))
}

/// `(3)`
fn digits(tokens: &[TokenWithSpan]) -> Option<(u8, &[TokenWithSpan])> {
    let (open, rest) = next(tokens)?;
    let (number, rest) = next(rest)?;
    let (close, behind) = next(rest)?;
    match (&open.token, &number.token, &close.token) {
        (Token::LParen, Token::Number(digits, _), Token::RParen) => {
            let digits: u64 = digits.parse().ok()?;
            Some((digits.min(u64::from(SECOND_DIGITS_MAX)) as u8, behind))
        }
        _ => None,
    }
}
