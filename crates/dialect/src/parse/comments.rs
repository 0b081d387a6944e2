//! `COMMENT ON CONSTRAINT … ON …`, which the parser does not know.
//!
//! The statement is returned as a comment on a column whose name has an empty first part: see
//! [`commented_constraint`].

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    CommentObject, Ident, ObjectName, ObjectNamePart, Statement,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use thalweg_values::sql_parts::NESTING_MAX;

use super::dialect::ThalwegDialect;
use super::token_steps::one_of;

/// The table and the constraint of `COMMENT ON CONSTRAINT`; `None` for the name of a column.
#[must_use]
pub fn commented_constraint(name: &ObjectName) -> Option<(ObjectName, Ident)> {
    let (first, rest) = name.0.split_first()?;
    let (constraint, table) = rest.split_last()?;
    let is_marked = first.as_ident().is_some_and(|ident| *ident == Ident::new(""));
    (is_marked && !table.is_empty())
        .then(|| Some((ObjectName(table.to_vec()), constraint.as_ident()?.clone())))?
}

/// Parses a comment on a constraint; `None` for another statement.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Tree, DataFusionError>> {
    let (_, rest) = one_of(tokens, &[Keyword::COMMENT])?;
    let (_, rest) = one_of(rest, &[Keyword::ON])?;
    let (_, rest) = one_of(rest, &[Keyword::CONSTRAINT])?;
    let mut parser = Parser::new(&ThalwegDialect)
        .with_tokens_with_locations(rest.to_vec())
        .with_recursion_limit(NESTING_MAX);
    Some(match comment(&mut parser) {
        Ok(statement) => Ok(Tree::Statement(Box::new(statement))),
        Err(error) => Err(DataFusionError::SQL(Box::new(error), None)),
    })
}

fn comment(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    let constraint = parser.parse_identifier()?;
    parser.expect_keyword_is(Keyword::ON)?;
    let table = parser.parse_object_name(false)?;
    parser.expect_keyword_is(Keyword::IS)?;
    let comment = match parser.parse_keyword(Keyword::NULL) {
        true => None,
        false => Some(parser.parse_literal_string()?),
    };
    parser.expect_token(&datafusion::sql::sqlparser::tokenizer::Token::EOF)?;
    let mut parts = vec![ObjectNamePart::Identifier(Ident::new(""))];
    parts.extend(table.0);
    parts.push(ObjectNamePart::Identifier(constraint));
    Ok(Statement::Comment {
        object_type: CommentObject::Column,
        object_name: ObjectName(parts),
        comment,
        if_exists: false,
    })
}
