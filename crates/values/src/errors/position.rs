//! The position in a statement, as the number of a character counted from 1.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use thalweg_types::Error;

use crate::sql_text::{SourcePositions, character_at};

/// The place of a line and column.
pub(super) fn of_location(sql: &str, line: u64, column: u64) -> usize {
    let offset = SourcePositions::new(sql).offset(Location { line, column });
    character_at(sql, offset)
}

/// The error at the first place where the statement has the name as a word of its own.
pub(super) fn at_name(error: Error, name: &str, sql: &str) -> Error {
    match of_name(sql, name) {
        Some(position) if error.position().is_none() => error.with_position(position),
        _ => error,
    }
}

fn of_name(sql: &str, name: &str) -> Option<usize> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().ok()?;
    let found = tokens.into_iter().find(|token| match &token.token {
        Token::Word(word) if word.quote_style.is_some() => word.value == name,
        Token::Word(word) => word.value.eq_ignore_ascii_case(name),
        _ => false,
    })?;
    Some(of_location(sql, found.span.start.line, found.span.start.column))
}
