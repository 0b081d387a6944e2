//! Identity columns: `GENERATED … AS IDENTITY (…)`, and the clauses of `ALTER COLUMN` about them.
//!
//! The parser requires the options of the sequence in one order and knows neither `SEQUENCE NAME`
//! nor most of `ALTER COLUMN`. Here a column's option is returned as the tokens of its clause: see
//! [`identity_option`]. `ALTER TABLE` is returned with options that hold the column and the
//! clauses: see [`altered_identity`].

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, ColumnOption, Expr, GeneratedAs, Ident, SqlOption, Statement,
    Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_types::Result as OurResult;
use thalweg_values::sql_parts::{NESTING_MAX, parse_part};

use super::dialect::ThalwegDialect;
use super::sequences::{SequenceClause, clauses};
use super::token_steps::one_of;

/// A clause of `ALTER TABLE … ALTER COLUMN` about the identity of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum IdentityChange {
    /// `ADD GENERATED … AS IDENTITY (…)`
    Add(GeneratedAs, Vec<SequenceClause>),
    /// `SET GENERATED …`
    Generated(GeneratedAs),
    /// `SET option` and `RESTART`
    Sequence(Box<SequenceClause>),
    /// `DROP IDENTITY`, with true for `IF EXISTS`.
    Drop(bool),
}

/// The identity that a column's option defines; `None` for another option.
///
/// # Errors
/// Only for internal errors: the clause was parsed before.
#[must_use]
pub fn identity_option(
    option: &ColumnOption,
) -> Option<OurResult<(GeneratedAs, Vec<SequenceClause>)>> {
    let ColumnOption::DialectSpecific(tokens) = option else { return None };
    let is_identity = matches!(tokens.first()?, Token::Word(word)
        if word.keyword == Keyword::GENERATED);
    let words = || tokens.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    is_identity.then(|| {
        parse_part(&words(), |parser| {
            parser.expect_keyword_is(Keyword::GENERATED)?;
            generated(parser)
        })
    })
}

/// The changes of a column's identity; `None` for another `ALTER TABLE`.
///
/// # Errors
/// Only for internal errors: the clauses were parsed before.
#[must_use]
pub fn altered_identity(alter: &AlterTable) -> Option<OurResult<(Ident, Vec<IdentityChange>)>> {
    let [AlterTableOperation::SetOptionsParens { options }] = alter.operations.as_slice() else {
        return None;
    };
    let [SqlOption::Ident(column), SqlOption::KeyValue { key, value: Expr::Value(value) }] =
        options.as_slice()
    else {
        return None;
    };
    let (true, Value::SingleQuotedString(text)) = (key.value.is_empty(), &value.value) else {
        return None;
    };
    let changes = parse_part(text, changes);
    Some(changes.map(|changes| (column.clone(), changes)))
}

/// Parses `GENERATED … AS IDENTITY (…)` as a column's option; `None` for another option.
pub(super) fn column_option(
    parser: &mut Parser<'_>,
) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
    // The index is that of a token afterwards, and not of the space before it.
    parser.next_token();
    parser.prev_token();
    let from = parser.index();
    if !parser.parse_keyword(Keyword::GENERATED) {
        return Ok(None);
    }
    let is_stored = {
        let always = parser.parse_keyword(Keyword::ALWAYS);
        always
            && parser.parse_keyword(Keyword::AS)
            && parser.peek_token_ref().token == Token::LParen
    };
    rewind(parser, from);
    if is_stored {
        // A computed column is left to the parser.
        return Ok(None);
    }
    parser.next_token();
    generated(parser)?;
    let to = parser.index();
    let mut tokens = Vec::new();
    rewind(parser, from);
    while parser.index() < to {
        tokens.push(parser.next_token().token);
    }
    Ok(Some(Ok(Some(ColumnOption::DialectSpecific(tokens)))))
}

fn rewind(parser: &mut Parser<'_>, to: usize) {
    while parser.index() > to {
        parser.prev_token();
    }
}

/// `ALWAYS AS IDENTITY (…)`, behind `GENERATED`.
fn generated(parser: &mut Parser<'_>) -> Result<(GeneratedAs, Vec<SequenceClause>), ParserError> {
    let generated_as = always_or_by_default(parser)?;
    parser.expect_keywords(&[Keyword::AS, Keyword::IDENTITY])?;
    let mut options = Vec::new();
    if parser.consume_token(&Token::LParen) {
        options = clauses(parser)?;
        if options.is_empty() {
            return parser.expected_ref("an option of a sequence", parser.peek_token_ref());
        }
        parser.expect_token(&Token::RParen)?;
    }
    Ok((generated_as, options))
}

fn always_or_by_default(parser: &mut Parser<'_>) -> Result<GeneratedAs, ParserError> {
    if parser.parse_keyword(Keyword::ALWAYS) {
        return Ok(GeneratedAs::Always);
    }
    parser.expect_keywords(&[Keyword::BY, Keyword::DEFAULT])?;
    Ok(GeneratedAs::ByDefault)
}

/// Parses an `ALTER TABLE` about a column's identity; `None` for another statement.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Tree, DataFusionError>> {
    let (_, rest) = one_of(tokens, &[Keyword::ALTER])?;
    let (_, rest) = one_of(rest, &[Keyword::TABLE])?;
    let mut parser = Parser::new(&ThalwegDialect)
        .with_tokens_with_locations(rest.to_vec())
        .with_recursion_limit(NESTING_MAX);
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let only = parser.parse_keyword(Keyword::ONLY);
    let name = parser.parse_object_name(false).ok()?;
    if !parser.parse_keyword(Keyword::ALTER) {
        return None;
    }
    let _ = parser.parse_keyword(Keyword::COLUMN);
    let column = parser.parse_identifier().ok()?;
    // The index is that of a token afterwards, and not of the space before it.
    parser.next_token();
    parser.prev_token();
    let from = parser.index();
    if !begins_change(&mut parser) {
        return None;
    }
    rewind(&mut parser, from);
    let parsed = changes(&mut parser);
    let to = parser.index();
    if let Err(error) = parsed.and_then(|_| parser.expect_token(&Token::EOF)) {
        return Some(Err(DataFusionError::SQL(Box::new(error), None)));
    }
    let end_token = AttachedToken(parser.get_current_token().clone());
    rewind(&mut parser, from);
    let mut text = String::new();
    while parser.index() < to {
        text.push_str(&parser.next_token().token.to_string());
        text.push(' ');
    }
    let value = Expr::Value(Value::SingleQuotedString(text).into());
    let clauses = SqlOption::KeyValue { key: Ident::new(""), value };
    let options = vec![SqlOption::Ident(column), clauses];
    Some(Ok(Tree::Statement(Box::new(Statement::AlterTable(AlterTable {
        name,
        if_exists,
        only,
        operations: vec![AlterTableOperation::SetOptionsParens { options }],
        location: None,
        on_cluster: None,
        table_type: None,
        end_token,
    })))))
}

/// True if what follows `ALTER COLUMN name` is about the identity of the column.
fn begins_change(parser: &mut Parser<'_>) -> bool {
    let Token::Word(first) = parser.next_token().token else { return false };
    let second = match parser.next_token().token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    };
    match first.keyword {
        Keyword::ADD => second == Keyword::GENERATED,
        Keyword::DROP => second == Keyword::IDENTITY,
        Keyword::SET => matches!(
            second,
            Keyword::GENERATED
                | Keyword::INCREMENT
                | Keyword::MINVALUE
                | Keyword::MAXVALUE
                | Keyword::NO
                | Keyword::START
                | Keyword::CACHE
                | Keyword::CYCLE
        ),
        _ => first.quote_style.is_none() && first.value.eq_ignore_ascii_case("restart"),
    }
}

fn changes(parser: &mut Parser<'_>) -> Result<Vec<IdentityChange>, ParserError> {
    if parser.parse_keywords(&[Keyword::ADD, Keyword::GENERATED]) {
        let (generated_as, clauses) = generated(parser)?;
        return Ok(vec![IdentityChange::Add(generated_as, clauses)]);
    }
    if parser.parse_keywords(&[Keyword::DROP, Keyword::IDENTITY]) {
        let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        return Ok(vec![IdentityChange::Drop(if_exists)]);
    }
    let mut changes = Vec::new();
    loop {
        if parser.parse_keywords(&[Keyword::SET, Keyword::GENERATED]) {
            changes.push(IdentityChange::Generated(always_or_by_default(parser)?));
            continue;
        }
        let is_set = parser.parse_keyword(Keyword::SET);
        match super::sequences::clause(parser)? {
            Some(clause) if is_set || matches!(clause, SequenceClause::Restart(_)) => {
                changes.push(IdentityChange::Sequence(Box::new(clause)));
            }
            None if !is_set && !changes.is_empty() => return Ok(changes),
            _ => {
                return parser.expected_ref("a change of the identity", parser.peek_token_ref());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_single;

    fn altered(sql: &str) -> OurResult<Vec<IdentityChange>> {
        let parsed = parse_single(sql)?;
        let Tree::Statement(statement) = &parsed.statement else { panic!("{sql}") };
        let Statement::AlterTable(alter) = statement.as_ref() else { panic!("{sql}") };
        altered_identity(alter).expect("a change of identity").map(|(_, changes)| changes)
    }

    #[test]
    fn changes_of_identity_are_read_again() {
        for (sql, count) in [
            ("ALTER TABLE t ALTER a ADD GENERATED ALWAYS AS IDENTITY", 1),
            (
                "ALTER TABLE ONLY s.t ALTER COLUMN a ADD GENERATED BY DEFAULT AS IDENTITY ( \
                 SEQUENCE NAME s.t_a_seq START WITH 1 INCREMENT BY -1 NO MINVALUE CACHE 1)",
                1,
            ),
            ("ALTER TABLE t ALTER a SET GENERATED ALWAYS SET START 5 RESTART SET NO CYCLE", 4),
            ("ALTER TABLE t ALTER a RESTART WITH 7", 1),
            ("ALTER TABLE IF EXISTS t ALTER a DROP IDENTITY IF EXISTS", 1),
        ] {
            assert_eq!(altered(sql).unwrap().len(), count, "{sql}");
        }
        for sql in [
            "ALTER TABLE t ALTER a ADD GENERATED ALWAYS AS IDENTITY ()",
            "ALTER TABLE t ALTER a SET GENERATED",
            "ALTER TABLE t ALTER a RESTART WITH",
            "ALTER TABLE t ALTER a DROP IDENTITY, ALTER b DROP IDENTITY",
        ] {
            assert!(parse_single(sql).is_err(), "{sql}");
        }
        let other = parse_single("ALTER TABLE t ALTER a SET DEFAULT 5").unwrap();
        let Tree::Statement(statement) = &other.statement else { panic!() };
        let Statement::AlterTable(alter) = statement.as_ref() else { panic!() };
        assert!(altered_identity(alter).is_none());
    }

    #[test]
    fn options_of_identity_columns_come_in_any_order() {
        let sql = "CREATE TABLE t (a integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY \
                   (START 5 INCREMENT BY -2 SEQUENCE NAME s) NOT NULL, b text)";
        let parsed = parse_single(sql).unwrap();
        let Tree::Statement(statement) = &parsed.statement else { panic!() };
        let Statement::CreateTable(create) = statement.as_ref() else { panic!() };
        let options = create.columns[0].options.iter();
        let found: Vec<_> = options.filter_map(|option| identity_option(&option.option)).collect();
        let (generated_as, clauses) = found[0].as_ref().unwrap();
        assert_eq!((generated_as, clauses.len()), (&GeneratedAs::Always, 3));
    }
}
