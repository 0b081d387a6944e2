//! The parser of statements.
//!
//! A text may hold several statements. Each comes back with its own text and position, and its tree
//! keeps the positions of the whole text, so that later errors can point into the text as written.
//! No text, however long or deep, exhausts the stack: see [`depth`].

mod balance;
mod comments;
mod conflict_predicates;
mod copy_options;
mod cursors;
mod dialect;
mod effort;
mod explain;
mod fetch;
mod identity;
mod intervals;
mod literal;
mod maintenance;
mod overriding;
mod postgres_words;
mod refuse;
mod roles;
mod row_locks;
mod sequences;
mod setting_defaults;
mod settings;
mod signs;
mod token_steps;
mod transactions;
mod windows;

use datafusion::error::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Tokenizer, Whitespace};
use thalweg_env::thread_net_bytes;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::bounded_output::allow_together;
use thalweg_values::errors;
use thalweg_values::sql_parts::{NESTING_MAX, parse_part};
use thalweg_values::sql_text::{SourcePositions, depth, parser_stack, tokens_at_most};
use thalweg_values::statement_control::check_cancelled;

use self::dialect::ThalwegDialect;
pub use comments::commented_constraint;
pub use conflict_predicates::conflict_predicate;
pub use cursors::is_move;
pub(crate) use dialect::SYMMETRIC_BOUNDS;
pub use identity::{IdentityChange, altered_identity, identity_option};
pub(crate) use intervals::interval_parts;
pub use maintenance::{Maintenance, MaintenanceCommand, ReindexKind, maintenance};
pub use overriding::{Overriding, overriding};
pub use sequences::{SequenceClause, altered_sequence, created_clauses, redundant_options};
pub use setting_defaults::SettingOwner;

/// The tokens of shorter texts take too little memory to be counted ahead.
const COUNTED_BYTES: usize = 64 << 10;

/// One statement of a text.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// DataFusion's tree: PostgreSQL's statements are its `Statement::Statement`, `COPY` in both
    /// directions included; `EXPLAIN` is `Statement::Explain`.
    pub statement: Statement,
    /// The statement as written, without the semicolon and the blanks around it.
    pub text: String,
    /// Where `text` begins in the whole text, in bytes.
    pub offset: usize,
    /// About the bytes of memory that the statement takes: of `statement` as the allocator counted
    /// them, and of `text`.
    pub bytes: usize,
}

/// Parses every statement of a text; an empty text has none.
///
/// Positions in errors, and the places that the trees hold, count from the start of `sql`.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    if let Some(at) = sql.find('\0') {
        return Err(Error::new(
            SqlState::INVALID_BYTE_SEQUENCE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        )
        .with_position(sql[..at].chars().count() + 1));
    }
    let tokens = tokens(sql)?;
    let depth = depth::check(&tokens)?;
    let count = tokens.len();
    parser_stack::for_tree(depth, count, || effort::bounded(count, || parse_all(tokens, sql)))
}

/// The tokens of a text, if the statement has memory for them.
fn tokens(sql: &str) -> Result<Vec<TokenWithSpan>> {
    let mut tokens = Vec::new();
    if sql.len() >= COUNTED_BYTES {
        let count = tokens_at_most(sql);
        // A statement moves its tokens into a list of its own, which some steps copy.
        allow_together(count.saturating_mul(4 * size_of::<TokenWithSpan>()))?;
        tokens.reserve_exact(count);
    }
    Tokenizer::new(&ThalwegDialect, sql)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(|error| errors::from_tokenizer(&error, sql))?;
    Ok(tokens)
}

fn parse_all(tokens: Vec<TokenWithSpan>, sql: &str) -> Result<Vec<Parsed>> {
    let mut places = SourcePositions::new(sql);
    let mut statements = Vec::new();
    // Tokens are moved and not copied: one may be a text of hundreds of megabytes.
    let mut tokens = tokens.into_iter();
    while tokens.len() > 0 {
        check_cancelled()?;
        let is_inside = |token: &&TokenWithSpan| token.token != Token::SemiColon;
        let count = tokens.as_slice().iter().take_while(is_inside).count();
        let of_one: Vec<TokenWithSpan> = tokens.by_ref().take(count).collect();
        tokens.next();
        let Some((first, last)) = ends(&of_one) else { continue };
        let offset = places.offset(first.span.start);
        let text = &sql[offset..places.offset(last.span.end)];
        let end = end_of_statement(last);
        // The tokens are freed meanwhile; most of their bytes are texts that move into the tree.
        let before = thread_net_bytes() - bytes_of(&of_one);
        let statement = parse_one(of_one, end, sql)?;
        let bytes = usize::try_from(thread_net_bytes() - before).unwrap_or(0) + text.len();
        statements.push(Parsed { statement, text: text.to_string(), offset, bytes });
    }
    Ok(statements)
}

/// Bytes of a list of tokens, without those of the tokens' texts.
fn bytes_of(tokens: &Vec<TokenWithSpan>) -> i64 {
    i64::try_from(tokens.capacity() * size_of::<TokenWithSpan>()).unwrap_or(i64::MAX)
}

/// Parses a text that must hold exactly one statement.
pub fn parse_single(sql: &str) -> Result<Parsed> {
    let mut statements = parse(sql)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (Some(_), false) => {
            Err(Error::new(SqlState::SYNTAX_ERROR, "cannot run several statements as one"))
        }
        (None, _) => Err(Error::new(SqlState::SYNTAX_ERROR, "the statement is empty")),
    }
}

/// Parses an expression that was stored as text.
///
/// # Errors
/// If the text is no expression, or nests too deeply.
pub fn parse_expression(text: &str) -> Result<ast::Expr> {
    parse_part(text, |parser| parser.parse_expr())
}

/// Parses a query that was put together from parts of other statements.
///
/// # Errors
/// If the text is no query, or nests too deeply.
pub fn parse_query(text: &str) -> Result<ast::Query> {
    parse_part(text, |parser| parser.parse_query().map(|query| *query))
}

/// The first and the last token that are more than blanks and comments.
fn ends(tokens: &[TokenWithSpan]) -> Option<(&TokenWithSpan, &TokenWithSpan)> {
    let spoken = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_) | Token::EOF);
    Some((tokens.iter().find(spoken)?, tokens.iter().rev().find(spoken)?))
}

fn parse_one(mut tokens: Vec<TokenWithSpan>, end: TokenWithSpan, sql: &str) -> Result<Statement> {
    // Options of other statements may be pairs of literals.
    let mut words = tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    });
    if let Some(junk) = literal::hexadecimal(&tokens) {
        return Err(errors::trailing_junk(junk, sql));
    }
    if let Some(junk) = literal::number_with_letters(&tokens) {
        return Err(errors::trailing_junk(&junk, sql));
    }
    if let Some(word) = refuse::swallowed(&tokens) {
        return Err(errors::unexpected(word, sql));
    }
    if let Some(Keyword::SELECT | Keyword::WITH | Keyword::INSERT) = words.next()
        && let Some(stray) = literal::stray(&tokens)
    {
        return Err(errors::unexpected(stray, sql));
    }
    tokens.retain(|token| {
        // The content of a comment must not look like a place where parsing stopped.
        !matches!(
            token.token,
            Token::Whitespace(
                Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_)
            )
        )
    });
    tokens.push(end);
    let tokens = signs::separated(tokens);
    let tokens = literal::expand_table(literal::readable(transactions::without_abort(tokens)));
    let tokens = explain::known_formats(transactions::without_waiting(row_locks::known(tokens)));
    let tokens = fetch::as_limits(postgres_words::without(tokens));
    let tokens = windows::named(intervals::spelled_out(tokens));
    let (tokens, overriding) = overriding::without_clause(tokens);
    let (tokens, predicates) = conflict_predicates::without(tokens);
    let parsed = match first_of(&tokens) {
        Some(parsed) => parsed,
        None => parse_balanced(tokens),
    };
    let mut parsed = parsed.map_err(|error| errors::from_datafusion(error, sql))?;
    overriding::add_clause(&mut parsed, overriding);
    conflict_predicates::add(&mut parsed, predicates).map_err(|error| {
        errors::from_datafusion(DataFusionError::SQL(Box::new(error), None), sql)
    })?;
    refuse::check(&parsed)?;
    Ok(parsed)
}

/// The statements that the parser does not know.
fn first_of(tokens: &[TokenWithSpan]) -> Option<Result<Statement, DataFusionError>> {
    cursors::parse(tokens)
        .or_else(|| setting_defaults::parse(tokens))
        .or_else(|| roles::parse(tokens))
        .or_else(|| settings::parse(tokens))
        .or_else(|| sequences::parse(tokens))
        .or_else(|| identity::parse(tokens))
        .or_else(|| comments::parse(tokens))
        .or_else(|| maintenance::parse(tokens))
}

fn parse_balanced(tokens: Vec<TokenWithSpan>) -> Result<Statement, DataFusionError> {
    let leads_with = |keyword: Keyword| {
        let first = tokens.iter().find(|token| !matches!(token.token, Token::Whitespace(_)));
        first.is_some_and(
            |first| matches!(&first.token, Token::Word(word) if word.keyword == keyword),
        )
    };
    let parsed = if leads_with(Keyword::COPY) { parse_copy(tokens) } else { parse_other(tokens) };
    parsed.map(|mut parsed| {
        balance::balance(&mut parsed);
        parsed
    })
}

fn parse_other(tokens: Vec<TokenWithSpan>) -> Result<Statement, DataFusionError> {
    let mut parser = DFParserBuilder::new(tokens)
        .with_dialect(&ThalwegDialect)
        .with_recursion_limit(NESTING_MAX)
        .build()?;
    let statement = parser.parse_statement()?;
    parser.parser.expect_token(&Token::EOF)?;
    Ok(statement)
}

/// `COPY` as in PostgreSQL; if that fails, DataFusion's `COPY … STORED AS …`.
fn parse_copy(tokens: Vec<TokenWithSpan>) -> Result<Statement, DataFusionError> {
    let tokens = copy_options::spelled_out(tokens);
    let mut parser = Parser::new(&ThalwegDialect)
        .with_tokens_with_locations(tokens.clone())
        .with_recursion_limit(NESTING_MAX);
    let parsed = parser
        .parse_statement()
        .and_then(|statement| parser.expect_token(&Token::EOF).map(|_| statement));
    match parsed {
        Ok(statement) => Ok(Statement::Statement(Box::new(statement))),
        Err(error) => parse_other(tokens).map_err(|_| DataFusionError::SQL(Box::new(error), None)),
    }
}

/// A token that stands for the end of a statement, placed behind its last token.
fn end_of_statement(last: &TokenWithSpan) -> TokenWithSpan {
    TokenWithSpan { token: Token::EOF, span: Span::new(last.span.end, last.span.end) }
}

#[cfg(test)]
mod tests;
