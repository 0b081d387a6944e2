//! Errors of the parser and the tokenizer.

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, TokenWithSpan, TokenizerError};
use thalweg_types::{Error, SqlState};

use super::position;
use crate::sql_text::{SourcePositions, may_hold_password, without_passwords};

pub(super) fn from_parser(error: &ParserError, sql: &str) -> Error {
    match error {
        ParserError::RecursionLimitExceeded => {
            Error::new(SqlState::STATEMENT_TOO_COMPLEX, "statement is too complex")
                .with_detail("It nests too deeply.")
        }
        ParserError::TokenizerError(message) => broken_token(message, sql),
        ParserError::ParserError(message) => unexpected_token(message, sql),
    }
}

/// The error of a text without tokens, such as one with an open quote.
pub fn from_tokenizer(error: &TokenizerError, sql: &str) -> Error {
    let Location { line, column } = error.location;
    broken_token(&format!("{} at Line: {line}, Column: {column}", error.message), sql)
}

/// A token where the grammar does not allow it.
pub fn unexpected(token: &TokenWithSpan, sql: &str) -> Error {
    let mut places = SourcePositions::new(sql);
    let (start, end) = (places.offset(token.span.start), places.offset(token.span.end));
    let error_text = format!("syntax error at or near \"{}\"", shown(&sql[start..end], sql));
    at(Error::new(SqlState::SYNTAX_ERROR, error_text), Some(token.span.start), sql)
}

/// A number with characters behind it that do not belong to a number.
pub fn trailing_junk(token: &TokenWithSpan, sql: &str) -> Error {
    let mut places = SourcePositions::new(sql);
    let (start, end) = (places.offset(token.span.start), places.offset(token.span.end));
    let near = shown(&sql[start..end], sql);
    let error_text = format!("trailing junk after numeric literal at or near \"{near}\"");
    at(Error::new(SqlState::SYNTAX_ERROR, error_text), Some(token.span.start), sql)
}

/// The parser says "Expected: an expression, found: FROM at Line: 1, Column: 8".
fn unexpected_token(message: &str, sql: &str) -> Error {
    let (error_text, location) = split_location(message);
    let expected = error_text
        .strip_prefix("Expected: ")
        .and_then(|rest| rest.split_once(", found: "))
        .map(|(expected, found)| (expected, found.trim()));
    let Some((expected, found)) = expected else {
        let error = Error::new(SqlState::SYNTAX_ERROR, format!("syntax error: {error_text}"));
        return at(error, location, sql);
    };
    let near = location.map(|location| word_at(sql, location)).unwrap_or_default();
    let error_text = if found == "EOF" || near.is_empty() {
        "syntax error at end of input".to_string()
    } else {
        format!("syntax error at or near \"{}\"", shown(&near, sql))
    };
    let error =
        Error::new(SqlState::SYNTAX_ERROR, error_text).with_detail(format!("Expected {expected}."));
    at(error, location, sql)
}

/// A piece of a statement for an error message; hidden if it may be a password.
fn shown<'a>(piece: &'a str, sql: &str) -> &'a str {
    if without_passwords(sql).contains(piece) { piece } else { "***" }
}

fn broken_token(message: &str, sql: &str) -> Error {
    let (error_text, location) = split_location(message);
    let error_text = error_text.trim_end_matches([' ', '.']);
    let error_text = match error_text {
        "Unterminated string literal" => "unterminated quoted string",
        "Unexpected EOF while in a multi-line comment" => "unterminated /* comment",
        "Unterminated dollar-quoted string" | "Unterminated dollar-quoted, expected $" => {
            "unterminated dollar-quoted string"
        }
        error_text if error_text.starts_with("Expected close delimiter '\"'") => {
            "unterminated quoted identifier"
        }
        error_text => error_text,
    };
    // Text without a closing quote may be a password.
    let near = location
        .filter(|_| !may_hold_password(sql))
        .map(|location| {
            sql[SourcePositions::new(sql).offset(location)..].chars().take(40).collect::<String>()
        })
        .unwrap_or_default();
    let error_text = if near.is_empty() {
        error_text.to_string()
    } else {
        format!("{error_text} at or near \"{near}\"")
    };
    at(Error::new(SqlState::SYNTAX_ERROR, error_text), location, sql)
}

fn at(error: Error, location: Option<Location>, sql: &str) -> Error {
    match location {
        Some(Location { line, column }) => {
            error.with_position(position::of_location(sql, line, column))
        }
        None => error,
    }
}

/// Cuts "… at Line: 1, Column: 8" from the end of a message.
fn split_location(message: &str) -> (&str, Option<Location>) {
    let Some((error_text, place)) = message.rsplit_once(" at Line: ") else {
        return (message, None);
    };
    let location = place.split_once(", Column: ").and_then(|(line, column)| {
        Some(Location { line: line.parse().ok()?, column: column.trim().parse().ok()? })
    });
    (error_text, location)
}

/// The text at a position: a whole word or number, or one character.
fn word_at(sql: &str, location: Location) -> String {
    let rest = &sql[SourcePositions::new(sql).offset(location)..];
    let word: String =
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').take(63).collect();
    if word.is_empty() { rest.chars().take(1).collect() } else { word }
}
