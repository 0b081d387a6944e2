//! `FETCH` and `MOVE` as PostgreSQL spells them.
//!
//! The parser requires a direction and `FROM`, and knows neither `MOVE` nor a sign before a number.
//! `MOVE` is returned as a `FETCH` into nothing: see [`is_move`].

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    FetchDirection, FetchPosition, ObjectName, Statement, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_values::sql_parts::NESTING_MAX;

use super::dialect::ThalwegDialect;

/// True if a `Statement::Fetch` was a `MOVE`.
#[must_use]
pub fn is_move(into: Option<&ObjectName>) -> bool {
    into.is_some_and(|name| name.0.is_empty())
}

/// Parses a statement about a cursor's place; `None` if it is about something else.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Tree, DataFusionError>> {
    let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)))?;
    let Token::Word(first) = &first.token else { return None };
    let moves = match first.value.to_ascii_uppercase().as_str() {
        _ if first.quote_style.is_some() => return None,
        "FETCH" => false,
        "MOVE" => true,
        _ => return None,
    };
    let mut parser = Parser::new(&ThalwegDialect)
        .with_tokens_with_locations(tokens.to_vec())
        .with_recursion_limit(NESTING_MAX);
    parser.next_token();
    let parsed = fetch(&mut parser, moves)
        .and_then(|statement| parser.expect_token(&Token::EOF).map(|_| statement));
    Some(match parsed {
        Ok(statement) => Ok(Tree::Statement(Box::new(statement))),
        Err(error) => Err(DataFusionError::SQL(Box::new(error), None)),
    })
}

fn fetch(parser: &mut Parser<'_>, moves: bool) -> Result<Statement, ParserError> {
    let direction = direction(parser)?;
    let _ = parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]);
    let name = parser.parse_identifier()?;
    let into = moves.then(|| ObjectName(Vec::new()));
    Ok(Statement::Fetch { name, direction, position: FetchPosition::From, into })
}

fn direction(parser: &mut Parser<'_>) -> Result<FetchDirection, ParserError> {
    // The last word is the cursor's name, whatever it is.
    if parser.peek_nth_token(1).token == Token::EOF {
        return Ok(FetchDirection::Next);
    }
    let simple = [
        (Keyword::NEXT, FetchDirection::Next),
        (Keyword::PRIOR, FetchDirection::Prior),
        (Keyword::FIRST, FetchDirection::First),
        (Keyword::LAST, FetchDirection::Last),
        (Keyword::ALL, FetchDirection::All),
    ];
    for (keyword, direction) in simple {
        if parser.parse_keyword(keyword) {
            return Ok(direction);
        }
    }
    if parser.parse_keyword(Keyword::ABSOLUTE) {
        return Ok(FetchDirection::Absolute { limit: number(parser)? });
    }
    if parser.parse_keyword(Keyword::RELATIVE) {
        return Ok(FetchDirection::Relative { limit: number(parser)? });
    }
    if parser.parse_keyword(Keyword::FORWARD) {
        return Ok(match parser.parse_keyword(Keyword::ALL) {
            true => FetchDirection::ForwardAll,
            false => FetchDirection::Forward { limit: number_if_any(parser)? },
        });
    }
    if parser.parse_keyword(Keyword::BACKWARD) {
        return Ok(match parser.parse_keyword(Keyword::ALL) {
            true => FetchDirection::BackwardAll,
            false => FetchDirection::Backward { limit: number_if_any(parser)? },
        });
    }
    Ok(match number_if_any(parser)? {
        Some(limit) => FetchDirection::Count { limit },
        None => FetchDirection::Next,
    })
}

fn number_if_any(parser: &mut Parser<'_>) -> Result<Option<ValueWithSpan>, ParserError> {
    match parser.peek_token().token {
        Token::Number(..) | Token::Minus | Token::Plus => number(parser).map(Some),
        _ => Ok(None),
    }
}

fn number(parser: &mut Parser<'_>) -> Result<ValueWithSpan, ParserError> {
    let negative = parser.consume_token(&Token::Minus);
    if !negative {
        let _ = parser.consume_token(&Token::Plus);
    }
    let mut number = parser.parse_number_value()?;
    if let (Value::Number(digits, _), true) = (&mut number.value, negative) {
        digits.insert(0, '-');
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_single;

    #[test]
    fn every_spelling_has_a_direction() {
        for (written, read) in [
            ("FETCH c", "FETCH NEXT FROM c"),
            ("fetch from c", "FETCH NEXT FROM c"),
            ("FETCH NEXT c", "FETCH NEXT FROM c"),
            ("FETCH FIRST IN c", "FETCH FIRST FROM c"),
            ("FETCH -3 FROM c", "FETCH -3 FROM c"),
            ("FETCH FORWARD c", "FETCH FORWARD FROM c"),
            ("FETCH FORWARD 5 c", "FETCH FORWARD 5 FROM c"),
            ("FETCH BACKWARD ALL IN c", "FETCH BACKWARD ALL FROM c"),
            ("FETCH ABSOLUTE +2 c", "FETCH ABSOLUTE 2 FROM c"),
            ("FETCH RELATIVE -2 c", "FETCH RELATIVE -2 FROM c"),
            ("FETCH first", "FETCH NEXT FROM first"),
            ("FETCH NEXT FROM next", "FETCH NEXT FROM next"),
        ] {
            let read_as = parse_single(written).unwrap().statement.to_string();
            assert_eq!(read_as.trim(), read, "{written}");
        }
    }

    #[test]
    fn moves_are_told_apart() {
        for (text, moves) in [("MOVE 3 c", true), ("move c", true), ("FETCH 3 c", false)] {
            let Tree::Statement(statement) = parse_single(text).unwrap().statement else {
                panic!()
            };
            let Statement::Fetch { into, .. } = *statement else { panic!("{text}") };
            assert_eq!(is_move(into.as_ref()), moves, "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["FETCH", "MOVE", "FETCH ABSOLUTE c", "FETCH 3 4 c", "FETCH ALL FROM"] {
            assert!(parse_single(text).is_err(), "{text}");
        }
    }
}
