//! Clauses that the parser accepts and that would have no effect.
//!
//! The parser's tree has fields for the clauses of a dozen systems. Each field of the statements
//! that Thalweg runs is either used or refused here. The patterns name every field, so that a field
//! added by a new version of the parser stops this module from compiling until it is handled.

mod calls;
mod define;
mod select;
mod write;

use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::parser::Statement as EngineStatement;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, Statement, TableFactor, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_types::{Error, Result};

/// Refuses a statement that has a clause without an effect.
///
/// # Errors
///
/// 0A000 with the name of the clause.
pub(super) fn check(statement: &EngineStatement) -> Result<()> {
    match statement {
        EngineStatement::Statement(statement) => match walk::visit(statement, &mut Refuse) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        },
        EngineStatement::Explain(explain) => check(&explain.statement),
        EngineStatement::CreateExternalTable(_)
        | EngineStatement::CopyTo(_)
        | EngineStatement::Reset(_) => Ok(()),
    }
}

fn is(token: &TokenWithSpan, keyword: Keyword) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == keyword)
}

/// The first word of a definition that the parser drops silently: it reads the column options of
/// other systems, and ignores them in PostgreSQL's dialect. No upstream issue found.
pub(super) fn swallowed(tokens: &[TokenWithSpan]) -> Option<&TokenWithSpan> {
    let mut words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    if !words.next().is_some_and(|first| is(first, Keyword::CREATE) || is(first, Keyword::ALTER)) {
        return None;
    }
    let mut before = words.next().filter(|second| is(second, Keyword::TABLE))?;
    for token in words {
        if is(token, Keyword::SELECT) || is(token, Keyword::VALUES) {
            return None;
        }
        // Behind these a word is a name.
        let is_name = matches!(before.token, Token::LParen | Token::Comma | Token::Period)
            || [Keyword::TO, Keyword::COLUMN, Keyword::ADD, Keyword::DROP, Keyword::EXISTS]
                .into_iter()
                .any(|keyword| is(before, keyword));
        let option = match &token.token {
            Token::Word(word) if word.quote_style.is_none() => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let is_swallowed = match option {
            Keyword::AUTO_INCREMENT | Keyword::AUTOINCREMENT | Keyword::SRID => true,
            Keyword::ASC | Keyword::DESC => true,
            Keyword::IDENTITY => !is(before, Keyword::AS) && !is(before, Keyword::RESTART),
            _ => false,
        };
        if is_swallowed && !is_name {
            return Some(token);
        }
        before = token;
    }
    None
}

/// Refuses the first clause that is present.
fn absent<const N: usize>(clauses: [(bool, &str); N]) -> Result<()> {
    match clauses.into_iter().find(|(is_present, _)| *is_present) {
        Some((_, clause)) => Err(Error::unsupported(clause)),
        None => Ok(()),
    }
}

struct Refuse;

fn flow(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

impl Visitor for Refuse {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<Error> {
        flow(match statement {
            Statement::Insert(insert) => write::insert(insert),
            Statement::Update(update) => write::update(update),
            Statement::Delete(delete) => write::delete(delete),
            Statement::Truncate(truncate) => write::truncate(truncate),
            Statement::CreateTable(create) => define::table(create),
            Statement::CreateIndex(create) => define::index(create),
            Statement::CreateView(create) => define::view(create),
            Statement::AlterTable(alter) => define::alter(alter),
            Statement::Analyze(analyze) => define::analyze(analyze),
            Statement::CreateSchema {
                schema_name: _,
                if_not_exists: _,
                with,
                options,
                default_collate_spec,
                clone,
            } => absent([
                (with.is_some(), "CREATE SCHEMA ... WITH"),
                (options.is_some(), "CREATE SCHEMA ... OPTIONS"),
                (default_collate_spec.is_some(), "CREATE SCHEMA ... DEFAULT COLLATE"),
                (clone.is_some(), "CREATE SCHEMA ... CLONE"),
            ]),
            Statement::Drop {
                object_type: _,
                if_exists: _,
                names: _,
                // One at most is given; without either the statement restricts.
                cascade: _,
                restrict: _,
                purge,
                temporary,
                table,
            } => absent([
                (*purge, "DROP ... PURGE"),
                (*temporary, "DROP TEMPORARY"),
                (table.is_some(), "DROP ... ON"),
            ]),
            Statement::Copy { source: _, to: _, target, options, legacy_options, values } => {
                write::copy(target, options, legacy_options, values)
            }
            _ => Ok(()),
        })
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        flow(select::query(query))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        flow(select::select(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Error> {
        flow(select::table(factor))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        flow(select::expression(expr))
    }
}
