//! `VACUUM`, `ANALYZE`, `REINDEX`, `CLUSTER` and `CHECKPOINT` in all forms that PostgreSQL parses.
//!
//! The parser has no tree for them. The statement is returned as a `PRAGMA` whose name has an empty
//! first part, and whose value is the statement's text: see [`maintenance`].

use datafusion::error::DataFusionError;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Statement, Value};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_types::{Error, Result as OurResult, SqlState};
use thalweg_values::sql_parts::{NESTING_MAX, parse_part};

use super::dialect::ThalwegDialect;
use super::token_steps::next;

/// A command that maintains storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceCommand {
    Vacuum,
    Analyze,
    Cluster,
    Checkpoint,
    Reindex(ReindexKind),
}

/// The kind of object that `REINDEX` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReindexKind {
    Index,
    Table,
    Schema,
    Database,
    System,
}

/// A statement that maintains storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    pub command: MaintenanceCommand,
    /// True for `VACUUM ANALYZE`.
    pub analyzes: bool,
    /// True for `VACUUM FULL`.
    pub is_full: bool,
    pub is_concurrent: bool,
    /// The objects, with the columns that are named for each.
    pub objects: Vec<(ObjectName, Vec<Ident>)>,
    /// The index of `CLUSTER table USING index`.
    pub index: Option<Ident>,
}

const VACUUM_OPTIONS: &[&str] = &[
    "analyze",
    "verbose",
    "full",
    "freeze",
    "disable_page_skipping",
    "skip_locked",
    "index_cleanup",
    "process_toast",
    "truncate",
    "parallel",
];
const ANALYZE_OPTIONS: &[&str] = &["verbose", "skip_locked"];
const REINDEX_OPTIONS: &[&str] = &["verbose", "concurrently", "tablespace"];
const CLUSTER_OPTIONS: &[&str] = &["verbose"];

/// The maintenance that a statement asks for; `None` for another statement.
///
/// # Errors
/// 42601 for an option that the command does not have.
#[must_use]
pub fn maintenance(statement: &Statement) -> Option<OurResult<Maintenance>> {
    let Statement::Pragma { name, value: Some(value), .. } = statement else { return None };
    let is_marked = name.0.first()?.as_ident().is_some_and(|ident| *ident == Ident::new(""));
    let (true, Value::SingleQuotedString(text)) = (is_marked, &value.value) else { return None };
    let parsed = parse_part(text, command);
    Some(parsed.and_then(|(parsed, options)| with_options(parsed, &options)))
}

/// Parses such a statement; `None` for another one.
pub(super) fn parse(tokens: &[TokenWithSpan]) -> Option<Result<Tree, DataFusionError>> {
    let (first, _) = next(tokens)?;
    let Token::Word(word) = &first.token else { return None };
    if word.quote_style.is_some() || command_named(&word.value).is_none() {
        return None;
    }
    let mut parser = Parser::new(&ThalwegDialect)
        .with_tokens_with_locations(tokens.to_vec())
        .with_recursion_limit(NESTING_MAX);
    let parsed = command(&mut parser).and_then(|_| parser.expect_token(&Token::EOF));
    if let Err(error) = parsed {
        return Some(Err(DataFusionError::SQL(Box::new(error), None)));
    }
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::EOF));
    let text: String = words.map(|token| token.token.to_string()).collect();
    let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new(""))]);
    let value = Some(Value::SingleQuotedString(text).into());
    Some(Ok(Tree::Statement(Box::new(Statement::Pragma { name, value, is_eq: true }))))
}

fn command_named(word: &str) -> Option<MaintenanceCommand> {
    Some(match word.to_ascii_lowercase().as_str() {
        "vacuum" => MaintenanceCommand::Vacuum,
        "analyze" | "analyse" => MaintenanceCommand::Analyze,
        "cluster" => MaintenanceCommand::Cluster,
        "checkpoint" => MaintenanceCommand::Checkpoint,
        "reindex" => MaintenanceCommand::Reindex(ReindexKind::Table),
        _ => return None,
    })
}

/// An option, and its value.
type Options = Vec<(String, Option<String>)>;

fn command(parser: &mut Parser<'_>) -> Result<(Maintenance, Options), ParserError> {
    let first = parser.next_token();
    let found = match &first.token {
        Token::Word(word) => command_named(&word.value),
        _ => None,
    };
    let Some(found) = found else { return parser.expected("a maintenance command", first) };
    let mut parsed = Maintenance {
        command: found,
        analyzes: false,
        is_full: false,
        is_concurrent: false,
        objects: Vec::new(),
        index: None,
    };
    if found == MaintenanceCommand::Checkpoint {
        return Ok((parsed, Vec::new()));
    }
    let mut options = Vec::new();
    if parser.consume_token(&Token::LParen) {
        options = parser.parse_comma_separated(option)?;
        parser.expect_token(&Token::RParen)?;
    } else {
        words(parser, &mut parsed);
    }
    match found {
        MaintenanceCommand::Reindex(_) => reindexed(parser, &mut parsed)?,
        MaintenanceCommand::Cluster => clustered(parser, &mut parsed)?,
        _ if !matches!(parser.peek_token_ref().token, Token::EOF) => {
            parsed.objects = parser.parse_comma_separated(|parser| {
                let name = parser.parse_object_name(false)?;
                let mut columns = Vec::new();
                if parser.consume_token(&Token::LParen) {
                    columns = parser.parse_comma_separated(|parser| parser.parse_identifier())?;
                    parser.expect_token(&Token::RParen)?;
                }
                Ok((name, columns))
            })?;
        }
        _ => {}
    }
    Ok((parsed, options))
}

/// `VACUUM FULL FREEZE VERBOSE ANALYZE`, in this order; `ANALYZE VERBOSE`; `CLUSTER VERBOSE`.
fn words(parser: &mut Parser<'_>, parsed: &mut Maintenance) {
    let is_vacuum = parsed.command == MaintenanceCommand::Vacuum;
    parsed.is_full = is_vacuum && word(parser, "full");
    if is_vacuum {
        word(parser, "freeze");
    }
    if !matches!(parsed.command, MaintenanceCommand::Reindex(_)) {
        word(parser, "verbose");
    }
    parsed.analyzes = is_vacuum && (word(parser, "analyze") || word(parser, "analyse"));
}

/// Takes a word without quotes, if it comes next.
fn word(parser: &mut Parser<'_>, wanted: &str) -> bool {
    let is_next = matches!(&parser.peek_token_ref().token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted));
    if is_next {
        parser.next_token();
    }
    is_next
}

fn option(parser: &mut Parser<'_>) -> Result<(String, Option<String>), ParserError> {
    let name = parser.parse_identifier()?;
    let name = if name.quote_style.is_some() { name.value } else { name.value.to_lowercase() };
    if matches!(parser.peek_token_ref().token, Token::Comma | Token::RParen) {
        return Ok((name, None));
    }
    let value = parser.next_token();
    let value = match value.token {
        Token::Minus | Token::Plus => format!("{}{}", value.token, parser.next_token().token),
        Token::SingleQuotedString(text) => text,
        Token::Word(_) | Token::Number(..) => value.token.to_string(),
        _ => return parser.expected("the value of an option", value),
    };
    Ok((name, Some(value)))
}

fn reindexed(parser: &mut Parser<'_>, parsed: &mut Maintenance) -> Result<(), ParserError> {
    let kinds = [
        ("index", ReindexKind::Index),
        ("table", ReindexKind::Table),
        ("schema", ReindexKind::Schema),
        ("database", ReindexKind::Database),
        ("system", ReindexKind::System),
    ];
    let Some((_, kind)) = kinds.into_iter().find(|(name, _)| word(parser, name)) else {
        return parser
            .expected_ref("INDEX, TABLE, SCHEMA, DATABASE or SYSTEM", parser.peek_token_ref());
    };
    parsed.command = MaintenanceCommand::Reindex(kind);
    parsed.is_concurrent = word(parser, "concurrently");
    parsed.objects = vec![(parser.parse_object_name(false)?, Vec::new())];
    Ok(())
}

fn clustered(parser: &mut Parser<'_>, parsed: &mut Maintenance) -> Result<(), ParserError> {
    if matches!(parser.peek_token_ref().token, Token::EOF) {
        return Ok(());
    }
    let name = parser.parse_object_name(false)?;
    if word(parser, "using") {
        parsed.index = Some(parser.parse_identifier()?);
    } else if word(parser, "on") {
        // `CLUSTER index ON table`, as before PostgreSQL 8.3.
        parsed.index = name.0.last().and_then(|part| part.as_ident()).cloned();
        parsed.objects = vec![(parser.parse_object_name(false)?, Vec::new())];
        return Ok(());
    }
    parsed.objects = vec![(name, Vec::new())];
    Ok(())
}

/// Applies options in parentheses.
fn with_options(mut parsed: Maintenance, options: &Options) -> OurResult<Maintenance> {
    let (command, known) = match parsed.command {
        MaintenanceCommand::Vacuum => ("VACUUM", VACUUM_OPTIONS),
        MaintenanceCommand::Analyze => ("ANALYZE", ANALYZE_OPTIONS),
        MaintenanceCommand::Reindex(_) => ("REINDEX", REINDEX_OPTIONS),
        MaintenanceCommand::Cluster => ("CLUSTER", CLUSTER_OPTIONS),
        MaintenanceCommand::Checkpoint => ("CHECKPOINT", &[][..]),
    };
    let mut workers = 0;
    for (name, value) in options {
        if !known.contains(&name.as_str()) {
            let message = format!("unrecognized {command} option \"{name}\"");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        let value = value.as_deref();
        match name.as_str() {
            "analyze" => parsed.analyzes = is_on(name, value)?,
            "full" => parsed.is_full = is_on(name, value)?,
            "concurrently" => parsed.is_concurrent = is_on(name, value)?,
            "parallel" => workers = parallel_workers(value)?,
            "index_cleanup" if value.is_some_and(|value| value.eq_ignore_ascii_case("auto")) => {}
            "tablespace" => return Err(Error::unsupported("REINDEX with a tablespace")),
            _ => {
                is_on(name, value)?;
            }
        }
    }
    if parsed.is_full && workers > 0 {
        let message = "VACUUM FULL cannot be performed in parallel";
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(parsed)
}

fn is_on(name: &str, value: Option<&str>) -> OurResult<bool> {
    let Some(value) = value else { return Ok(true) };
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" => Ok(true),
        "0" | "false" | "off" => Ok(false),
        _ => {
            let message = format!("{name} requires a Boolean value");
            Err(Error::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

/// Maximum of workers that PostgreSQL takes.
const WORKERS_MAX: i64 = 1_024;

fn parallel_workers(value: Option<&str>) -> OurResult<i64> {
    let Some(value) = value else {
        let message = "parallel option requires a value between 0 and 1024";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    };
    let workers: i64 = value
        .parse()
        .map_err(|_| Error::new(SqlState::SYNTAX_ERROR, "parallel requires an integer value"))?;
    if !(0..=WORKERS_MAX).contains(&workers) {
        let message = "parallel workers for vacuum must be between 0 and 1024";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    Ok(workers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_single;

    fn read(sql: &str) -> OurResult<Maintenance> {
        let parsed = parse_single(sql)?;
        let Tree::Statement(statement) = &parsed.statement else { panic!("{sql}") };
        maintenance(statement).expect("a maintenance statement")
    }

    #[test]
    fn all_forms_are_read() {
        for (sql, objects, columns) in [
            ("VACUUM", 0, 0),
            ("vacuum full freeze verbose analyze s.t (a, b), u", 2, 2),
            ("VACUUM (ANALYZE off, PARALLEL 2, INDEX_CLEANUP auto) t", 1, 0),
            ("VACUUM ANALYZE t", 1, 0),
            ("ANALYSE VERBOSE t (a)", 1, 1),
            ("ANALYZE (VERBOSE, SKIP_LOCKED false)", 0, 0),
            ("REINDEX INDEX i", 1, 0),
            ("REINDEX (VERBOSE) TABLE CONCURRENTLY s.t", 1, 0),
            ("CLUSTER", 0, 0),
            ("CLUSTER VERBOSE t USING i", 1, 0),
            ("CHECKPOINT", 0, 0),
        ] {
            let parsed = read(sql).unwrap();
            assert_eq!(parsed.objects.len(), objects, "{sql}");
            assert_eq!(parsed.objects.iter().map(|o| o.1.len()).sum::<usize>(), columns, "{sql}");
        }
        assert!(read("VACUUM ANALYZE t").unwrap().analyzes);
        assert!(!read("VACUUM (ANALYZE 0) t").unwrap().analyzes);
        assert!(read("REINDEX (CONCURRENTLY) TABLE t").unwrap().is_concurrent);
        assert_eq!(read("CLUSTER t USING i").unwrap().index, Some(Ident::new("i")));
    }

    #[test]
    fn others_are_syntax_errors() {
        for sql in [
            "VACUUM ANALYZE FULL t",
            "VACUUM (FOO) t",
            "VACUUM (FULL, PARALLEL 2) t",
            "VACUUM (FULL maybe) t",
            "VACUUM (PARALLEL) t",
            "ANALYZE t t",
            "REINDEX t",
            "CHECKPOINT now",
            "CLUSTER t USING",
        ] {
            assert!(read(sql).is_err(), "{sql}");
        }
    }
}
