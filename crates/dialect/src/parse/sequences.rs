//! `CREATE SEQUENCE` and `ALTER SEQUENCE` as PostgreSQL spells them.
//!
//! The parser requires the options of a sequence in one order, and knows no `ALTER SEQUENCE`. Here
//! they may come in any order. `ALTER SEQUENCE` is returned as an `ALTER TABLE` that sets options:
//! see [`altered_sequence`].

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, DataType, Expr, Ident, ObjectName, Owner, SequenceOptions,
    SqlOption, Statement, Value,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_types::{Error, Result as OurResult, SqlState};
use thalweg_values::sql_parts::NESTING_MAX;

use super::dialect::ThalwegDialect;

/// One clause of a definition of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceClause {
    As(DataType),
    Increment(Expr),
    /// `None` for `NO MINVALUE`.
    Min(Option<Expr>),
    /// `None` for `NO MAXVALUE`.
    Max(Option<Expr>),
    Start(Expr),
    /// `None` for the start value.
    Restart(Option<Expr>),
    Cache(Expr),
    Cycle(bool),
    /// `None` for `OWNED BY NONE`.
    OwnedBy(Option<ObjectName>),
    /// `SEQUENCE NAME`, of an identity column.
    Name(ObjectName),
    RenameTo(Ident),
    OwnerTo(Owner),
    SetSchema(Ident),
}

/// The clauses of an `ALTER SEQUENCE`; `None` for an `ALTER TABLE`.
///
/// # Errors
/// Only for internal errors: the text of a clause is read again.
#[must_use]
pub fn altered_sequence(alter: &AlterTable) -> Option<OurResult<Vec<SequenceClause>>> {
    let [AlterTableOperation::SetOptionsParens { options }] = alter.operations.as_slice() else {
        return None;
    };
    let [SqlOption::KeyValue { key, value: Expr::Value(value) }] = options.as_slice() else {
        return None;
    };
    let (true, Value::SingleQuotedString(text)) = (key.value.is_empty(), &value.value) else {
        return None;
    };
    Some(clauses_of(text))
}

fn clauses_of(text: &str) -> OurResult<Vec<SequenceClause>> {
    thalweg_values::sql_parts::parse_part(text, clauses)
}

/// Parses a definition of a sequence; `None` if it is about something else.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Tree, DataFusionError>> {
    let mut words = tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    });
    let (first, mut second) = (words.next()?, words.next()?);
    let temporary = first == Keyword::CREATE && is_temporary(second);
    if temporary {
        second = words.next()?;
    }
    let parse: fn(&mut Parser<'_>, bool) -> Result<Statement, ParserError> = match (first, second) {
        (Keyword::CREATE, Keyword::SEQUENCE) => create,
        (Keyword::ALTER, Keyword::SEQUENCE) => |parser, _| alter(parser),
        _ => return None,
    };
    let mut parser = Parser::new(&ThalwegDialect)
        .with_tokens_with_locations(tokens.to_vec())
        .with_recursion_limit(NESTING_MAX);
    (0..2 + usize::from(temporary)).for_each(|_| drop(parser.next_token()));
    let parsed = parse(&mut parser, temporary)
        .and_then(|statement| parser.expect_token(&Token::EOF).map(|_| statement));
    Some(match parsed {
        Ok(statement) => Ok(Tree::Statement(Box::new(statement))),
        Err(error) => Err(DataFusionError::SQL(Box::new(error), None)),
    })
}

fn is_temporary(word: Keyword) -> bool {
    matches!(word, Keyword::TEMP | Keyword::TEMPORARY)
}

fn create(parser: &mut Parser<'_>, temporary: bool) -> Result<Statement, ParserError> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    let (mut data_type, mut owned_by, mut sequence_options) = (None, None, Vec::new());
    for clause in clauses(parser)? {
        sequence_options.push(match clause {
            SequenceClause::As(of) if data_type.is_none() => {
                data_type = Some(of);
                continue;
            }
            SequenceClause::OwnedBy(column) if owned_by.is_none() => {
                owned_by = Some(column.unwrap_or_else(|| ObjectName(Vec::new())));
                continue;
            }
            SequenceClause::Increment(by) => SequenceOptions::IncrementBy(by, true),
            SequenceClause::Min(min) => SequenceOptions::MinValue(min),
            SequenceClause::Max(max) => SequenceOptions::MaxValue(max),
            SequenceClause::Start(start) => SequenceOptions::StartWith(start, true),
            SequenceClause::Cache(cache) => SequenceOptions::Cache(cache),
            // The parser's tree says whether `NO` was written.
            SequenceClause::Cycle(cycles) => SequenceOptions::Cycle(!cycles),
            SequenceClause::As(_) | SequenceClause::OwnedBy(_) => {
                return Err(ParserError::ParserError(REDUNDANT.to_owned()));
            }
            _ => {
                return parser
                    .expected_ref("an option of CREATE SEQUENCE", parser.peek_token_ref());
            }
        });
    }
    Ok(Statement::CreateSequence {
        temporary,
        if_not_exists,
        name,
        data_type,
        sequence_options,
        owned_by,
    })
}

const REDUNDANT: &str = "conflicting or redundant options";

/// The clauses of a `CREATE SEQUENCE`, or of an identity column.
#[must_use]
pub fn created_clauses(
    data_type: Option<&DataType>,
    options: &[SequenceOptions],
    owned_by: Option<&ObjectName>,
) -> Vec<SequenceClause> {
    let mut clauses: Vec<SequenceClause> =
        data_type.iter().map(|of| SequenceClause::As((*of).clone())).collect();
    clauses.extend(options.iter().cloned().map(|option| match option {
        SequenceOptions::IncrementBy(by, _) => SequenceClause::Increment(by),
        SequenceOptions::MinValue(min) => SequenceClause::Min(min),
        SequenceOptions::MaxValue(max) => SequenceClause::Max(max),
        SequenceOptions::StartWith(start, _) => SequenceClause::Start(start),
        SequenceOptions::Cache(cache) => SequenceClause::Cache(cache),
        SequenceOptions::Cycle(no) => SequenceClause::Cycle(!no),
    }));
    clauses.extend(
        owned_by
            .map(|column| SequenceClause::OwnedBy((!column.0.is_empty()).then(|| column.clone()))),
    );
    clauses
}

fn alter(parser: &mut Parser<'_>) -> Result<Statement, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = parser.parse_object_name(false)?;
    // The index is that of a token afterwards, and not of the space before it.
    parser.next_token();
    parser.prev_token();
    let from = parser.index();
    // The clauses are checked here, where errors have a position.
    if clauses(parser)?.is_empty() {
        return parser.expected_ref("a clause of ALTER SEQUENCE", parser.peek_token_ref());
    }
    let end_token = parser.get_current_token().clone();
    let mut text = String::new();
    let to = parser.index();
    while parser.index() > from {
        parser.prev_token();
    }
    while parser.index() < to {
        text.push_str(&parser.next_token().token.to_string());
        text.push(' ');
    }
    let value = Expr::Value(Value::SingleQuotedString(text).into());
    let option = SqlOption::KeyValue { key: Ident::new(""), value };
    Ok(Statement::AlterTable(AlterTable {
        name,
        if_exists,
        only: false,
        operations: vec![AlterTableOperation::SetOptionsParens { options: vec![option] }],
        location: None,
        on_cluster: None,
        table_type: None,
        end_token: datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken(
            end_token,
        ),
    }))
}

pub(super) fn clauses(parser: &mut Parser<'_>) -> Result<Vec<SequenceClause>, ParserError> {
    let mut found = Vec::new();
    while let Some(clause) = clause(parser)? {
        found.push(clause);
    }
    Ok(found)
}

pub(super) fn clause(parser: &mut Parser<'_>) -> Result<Option<SequenceClause>, ParserError> {
    let Token::Word(word) = &parser.peek_token_ref().token else { return Ok(None) };
    let keyword = match word.quote_style {
        None => word.keyword,
        Some(_) => return Ok(None),
    };
    let is_restart = word.value.eq_ignore_ascii_case("restart");
    let token = parser.next_token();
    Ok(Some(match keyword {
        Keyword::AS => SequenceClause::As(parser.parse_data_type()?),
        Keyword::INCREMENT => {
            let _ = parser.parse_keyword(Keyword::BY);
            SequenceClause::Increment(number(parser)?)
        }
        Keyword::MINVALUE => SequenceClause::Min(Some(number(parser)?)),
        Keyword::MAXVALUE => SequenceClause::Max(Some(number(parser)?)),
        Keyword::NO if parser.parse_keyword(Keyword::MINVALUE) => SequenceClause::Min(None),
        Keyword::NO if parser.parse_keyword(Keyword::MAXVALUE) => SequenceClause::Max(None),
        Keyword::NO if parser.parse_keyword(Keyword::CYCLE) => SequenceClause::Cycle(false),
        Keyword::CYCLE => SequenceClause::Cycle(true),
        Keyword::START => {
            let _ = parser.parse_keyword(Keyword::WITH);
            SequenceClause::Start(number(parser)?)
        }
        _ if is_restart => {
            let with = parser.parse_keyword(Keyword::WITH);
            let follows = matches!(
                parser.peek_token_ref().token,
                Token::Number(..) | Token::Minus | Token::Plus
            );
            SequenceClause::Restart((with || follows).then(|| number(parser)).transpose()?)
        }
        Keyword::CACHE => SequenceClause::Cache(number(parser)?),
        Keyword::OWNED => {
            parser.expect_keyword_is(Keyword::BY)?;
            let is_none = parser.parse_keyword(Keyword::NONE);
            let column = || parser.parse_object_name(false);
            SequenceClause::OwnedBy((!is_none).then(column).transpose()?)
        }
        Keyword::SEQUENCE => {
            parser.expect_keyword_is(Keyword::NAME)?;
            SequenceClause::Name(parser.parse_object_name(false)?)
        }
        Keyword::RENAME => {
            parser.expect_keyword_is(Keyword::TO)?;
            SequenceClause::RenameTo(parser.parse_identifier()?)
        }
        Keyword::OWNER => {
            parser.expect_keyword_is(Keyword::TO)?;
            SequenceClause::OwnerTo(parser.parse_owner()?)
        }
        Keyword::SET if parser.parse_keyword(Keyword::SCHEMA) => {
            SequenceClause::SetSchema(parser.parse_identifier()?)
        }
        _ => return parser.expected_ref("an option of a sequence", &token),
    }))
}

fn number(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.parse_number()
}

/// The error of an option that is given twice.
#[must_use]
pub fn redundant_options() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, REDUNDANT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_single;

    #[test]
    fn options_come_in_any_order() {
        for (written, read) in [
            ("CREATE SEQUENCE s", "CREATE SEQUENCE s"),
            (
                "create sequence if not exists a.s start 5 increment -2 no maxvalue as int",
                "CREATE SEQUENCE IF NOT EXISTS a.s AS INT START WITH 5 INCREMENT BY -2 NO MAXVALUE",
            ),
        ] {
            assert_eq!(parse_single(written).unwrap().statement.to_string(), read, "{written}");
        }
        for wrong in
            ["CREATE SEQUENCE s AS int AS int", "ALTER SEQUENCE s", "ALTER SEQUENCE s CYCLE 1"]
        {
            assert!(parse_single(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn alterations_are_read_again() {
        let parsed = parse_single("ALTER SEQUENCE IF EXISTS s RESTART WITH -7 OWNED BY t.\"C\"");
        let Tree::Statement(statement) = parsed.unwrap().statement else { panic!() };
        let Statement::AlterTable(alter) = statement.as_ref() else { panic!("{statement}") };
        let clauses = altered_sequence(alter).unwrap().unwrap();
        let written: Vec<String> = clauses.iter().map(|clause| format!("{clause:?}")).collect();
        assert_eq!(clauses.len(), 2, "{written:?}");
        assert!(matches!(&clauses[0], SequenceClause::Restart(Some(_))));
        assert!(matches!(&clauses[1], SequenceClause::OwnedBy(Some(_))));
    }
}
