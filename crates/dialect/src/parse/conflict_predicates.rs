//! `ON CONFLICT (columns) WHERE predicate`, which the parser does not know.
//!
//! PostgreSQL chooses partial indexes with it. There are none here, so any predicate that is valid
//! may stand there. It is returned as a setting of the INSERT: see [`conflict_predicate`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, Expr, Ident, Insert, OnInsert, Setting, Statement, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_values::sql_parts::NESTING_MAX;

use super::dialect::ThalwegDialect;
use super::token_steps::{is_one_of, next, one_of};

/// The name of the setting. No identifier can be written so.
const KEY: &str = "ON CONFLICT () WHERE";

/// The predicate of a statement's conflict target.
#[must_use]
pub fn conflict_predicate(insert: &Insert) -> Option<&Expr> {
    let mut settings = insert.settings.iter().flatten();
    settings.find(|setting| setting.key.value == KEY).map(|setting| &setting.value)
}

/// Predicates by the number of their clause among those of a statement with columns.
pub(super) type Predicates = BTreeMap<usize, Vec<TokenWithSpan>>;

/// The tokens of a statement without the predicates, and the predicates.
pub(super) fn without(tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, Predicates) {
    let mut found = Predicates::new();
    if !tokens.iter().any(|token| is_one_of(token, &[Keyword::CONFLICT])) {
        return (tokens, found);
    }
    let (mut kept, mut clauses) = (Vec::with_capacity(tokens.len()), 0);
    let mut rest = tokens.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        let Some(clause) = columns(rest) else {
            kept.push(first.clone());
            rest = behind;
            continue;
        };
        clauses += 1;
        kept.extend_from_slice(&rest[..rest.len() - clause.len()]);
        rest = clause;
        if let Some((predicate, action)) = predicate(clause) {
            found.insert(clauses, predicate.to_vec());
            rest = action;
        }
    }
    (kept, found)
}

/// The tokens behind `ON CONFLICT (…)`, if the clause begins here.
fn columns(tokens: &[TokenWithSpan]) -> Option<&[TokenWithSpan]> {
    is_one_of(tokens.first()?, &[Keyword::ON]).then_some(())?;
    let (_, rest) = one_of(&tokens[1..], &[Keyword::CONFLICT])?;
    let (opening, mut rest) = next(rest)?;
    (opening.token == Token::LParen).then_some(())?;
    let mut depth = 1;
    while depth > 0 {
        let (token, behind) = rest.split_first()?;
        depth = depth_behind(depth, &token.token);
        rest = behind;
    }
    Some(rest)
}

/// The predicate with the `DO` behind it, and the tokens from `DO` on.
fn predicate(tokens: &[TokenWithSpan]) -> Option<(&[TokenWithSpan], &[TokenWithSpan])> {
    let (_, rest) = one_of(tokens, &[Keyword::WHERE])?;
    let mut depth = 0;
    let end = rest.iter().position(|token| {
        depth = depth_behind(depth, &token.token);
        depth == 0 && is_one_of(token, &[Keyword::DO])
    })?;
    Some((&rest[..=end], &rest[end..]))
}

fn depth_behind(depth: i64, token: &Token) -> i64 {
    match token {
        Token::LParen => depth + 1,
        Token::RParen => depth - 1,
        _ => depth,
    }
}

/// Adds the predicates to the statement that was parsed without them.
///
/// # Errors
/// If one is no expression.
pub(super) fn add(parsed: &mut Tree, predicates: Predicates) -> Result<(), ParserError> {
    if predicates.is_empty() {
        return Ok(());
    }
    let parser_of = |tokens: Vec<TokenWithSpan>| {
        let mut parser = Parser::new(&ThalwegDialect)
            .with_tokens_with_locations(tokens)
            .with_recursion_limit(NESTING_MAX);
        if parser.peek_keyword(Keyword::DO) {
            return parser.expected_ref("an expression", parser.peek_token_ref());
        }
        let predicate = parser.parse_expr()?;
        parser.expect_keyword_is(Keyword::DO)?;
        Ok::<Expr, ParserError>(predicate)
    };
    let parsed_predicates = predicates
        .into_iter()
        .map(|(clause, tokens)| Ok((clause, parser_of(tokens)?)))
        .collect::<Result<BTreeMap<_, _>, ParserError>>()?;
    let mut inserts = Inserts { clauses: 0, predicates: parsed_predicates };
    let mut inner = parsed;
    while let Tree::Explain(explain) = inner {
        inner = explain.statement.as_mut();
    }
    if let Tree::Statement(statement) = inner {
        let _ = walk::visit_mut(statement.as_mut(), &mut inserts);
    }
    Ok(())
}

/// Visits the inserts of a statement in the order of the text.
struct Inserts {
    clauses: usize,
    predicates: BTreeMap<usize, Expr>,
}

impl VisitorMut for Inserts {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        let Statement::Insert(insert) = statement else { return ControlFlow::Continue(()) };
        if let Some(OnInsert::OnConflict(on)) = &insert.on
            && let Some(ConflictTarget::Columns(_)) = on.conflict_target
        {
            self.clauses += 1;
            if let Some(value) = self.predicates.remove(&self.clauses) {
                let setting = Setting { key: Ident::new(KEY), value };
                insert.settings.get_or_insert_default().push(setting);
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{overriding, parse_single};

    #[test]
    fn the_predicate_of_a_target_belongs_to_its_insert() {
        let predicate_of = |sql: &str| {
            let parsed = parse_single(sql).unwrap();
            let Tree::Statement(statement) = &parsed.statement else { panic!("{sql}") };
            let Statement::Insert(insert) = statement.as_ref() else { panic!("{sql}") };
            let system = overriding(insert).is_some();
            (conflict_predicate(insert).map(ToString::to_string), system)
        };
        for (sql, predicate, system) in [
            (
                "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE b > 1 DO NOTHING",
                Some("b > 1"),
                false,
            ),
            (
                "INSERT INTO t SELECT 1 ON CONFLICT (a, b) WHERE (b IS NULL) DO UPDATE \
                 SET a = 1 WHERE t.a = 2",
                Some("(b IS NULL)"),
                false,
            ),
            (
                "INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (1) ON CONFLICT (a) WHERE c \
                 DO NOTHING",
                Some("c"),
                true,
            ),
            ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING", None, false),
            ("INSERT INTO t SELECT 'ON CONFLICT (a) WHERE b DO'", None, false),
        ] {
            let wanted = (predicate.map(str::to_owned), system);
            assert_eq!(predicate_of(sql), wanted, "{sql}");
        }
        for refused in [
            "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE DO NOTHING",
            "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE b b DO NOTHING",
            "INSERT INTO t VALUES (1) ON CONFLICT WHERE b DO NOTHING",
            "INSERT INTO t VALUES (1) ON CONFLICT (a) WHERE b",
        ] {
            assert!(parse_single(refused).is_err(), "{refused}");
        }
    }
}
