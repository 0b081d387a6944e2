//! Parses parts of statements, such as the names of types, within the same limits of depth as whole
//! statements. The parser of statements is `thalweg_dialect::parse`.

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use thalweg_types::Result;

use crate::errors;
use crate::sql_text::{depth, parser_stack};

/// Limit of the parser's recursion. A parenthesis takes up to four levels, and [`depth`] bounds
/// those before.
pub const NESTING_MAX: usize = 1_024;

/// Parses a whole text as a part of a statement, in our PostgreSQL dialect.
pub fn parse_part<T>(
    text: &str,
    parse: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
) -> Result<T> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| errors::from_tokenizer(&error, text))?;
    let depth = depth::check(&tokens)?;
    parser_stack::for_tree(depth, tokens.len(), || {
        let mut parser = Parser::new(&PostgreSqlDialect {})
            .with_tokens_with_locations(tokens)
            .with_recursion_limit(NESTING_MAX);
        let error_text =
            |error| errors::from_datafusion(DataFusionError::SQL(Box::new(error), None), text);
        let part = parse(&mut parser).map_err(error_text)?;
        parser.expect_token(&Token::EOF).map_err(error_text)?;
        Ok(part)
    })
}

/// Parses the name of a type, which may come from a client or from storage.
///
/// # Errors
/// If the text is no type's name, or has too many brackets.
pub fn parse_type(text: &str) -> Result<ast::DataType> {
    parse_part(text, |parser| parser.parse_data_type())
}
