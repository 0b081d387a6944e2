//! The dialect that statements are parsed in: the parser's PostgreSQL, but for these:
//!
//! - The parser lets a function's named argument have an expression for a name, which PostgreSQL
//!   does not. To find out, it parses every argument twice, and a call nested in
//!   twenty others a million times.
//! - A sign binds tighter than `^`: `-2 ^ 2` is 4.
//! - Literals on lines of their own are one literal.
//! - `BETWEEN SYMMETRIC` is unknown to it.
//! - `IS DISTINCT FROM` binds as `IS` does: the parser would read all that follows as its right
//!   side.
//! - `VARIADIC` in front of an argument is unknown to it.
//! - Behind `TO PUBLIC` the parser takes every other role for everybody, too.
//! - `ISNULL` is unknown to it, and so it takes it for an alias.
//! - `~ 1 + 1` is `~ (1 + 1)`: operators without a rank of their own bind looser than arithmetic,
//!   in front of an operand too, and from left to right.
//! - A comparison of a comparison needs parentheses: `1 < 2 = true` is a mistake.
//! - `COLLATE` is taken behind any expression.
//! - Words that are operators of other systems are none: `DIV`, `XOR`, `RLIKE` and their like.
//! - The options of identity columns come in any order.
//! - Words such as `ON` are no names of columns without `AS`.
//! - `trim(FROM x)` is unknown to it, and it forgets the `LEADING` of `trim(LEADING x, y)`.
//!
//! Everything else is passed on.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ColumnOption, Expr, GranteesType, TrimWhereField, UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::{effort, identity};
use crate::rewrite::{call, variadic_argument};

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// The words that name a column of a result only behind `AS`, as PostgreSQL's `pg_get_keywords()`
/// lists them.
const NO_BARE_LABELS: [Keyword; 38] = [
    Keyword::ARRAY,
    Keyword::AS,
    Keyword::CHAR,
    Keyword::CHARACTER,
    Keyword::CREATE,
    Keyword::DAY,
    Keyword::EXCEPT,
    Keyword::FETCH,
    Keyword::FILTER,
    Keyword::FOR,
    Keyword::FROM,
    Keyword::GRANT,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::HOUR,
    Keyword::INTERSECT,
    Keyword::INTO,
    Keyword::LIMIT,
    Keyword::MINUTE,
    Keyword::MONTH,
    Keyword::NOTNULL,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::ORDER,
    Keyword::OVER,
    Keyword::OVERLAPS,
    Keyword::PRECISION,
    Keyword::RETURNING,
    Keyword::SECOND,
    Keyword::TO,
    Keyword::UNION,
    Keyword::VARYING,
    Keyword::WHERE,
    Keyword::WINDOW,
    Keyword::WITH,
    Keyword::WITHIN,
    Keyword::WITHOUT,
    Keyword::YEAR,
];

#[derive(Debug)]
pub(super) struct ThalwegDialect;

/// Answers questions without arguments as PostgreSQL's dialect does.
macro_rules! as_postgres {
    ($($question:ident,)*) => {
        $(fn $question(&self) -> bool {
            POSTGRES.$question()
        })*
    };
}

impl Dialect for ThalwegDialect {
    fn parse_column_option(
        &self,
        parser: &mut Parser,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        identity::column_option(parser)
    }

    /// The parser treats this dialect as PostgreSQL's own.
    fn dialect(&self) -> TypeId {
        POSTGRES.dialect()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    /// Everybody is read as the name of a role, which carries the same information.
    fn get_reserved_grantees_types(&self) -> &[GranteesType] {
        &[GranteesType::Public]
    }

    fn supports_string_literal_concatenation_with_newline(&self) -> bool {
        true
    }

    /// `-x`: the operand of the sign ends where operators follow that bind less tightly than `::`
    /// and `[…]`. The operand of `VARIADIC` is an argument.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if let Err(error) = effort::attempt() {
            return Some(Err(error));
        }
        if is_trim(parser) {
            return Some(trim(parser));
        }
        if parser.parse_keyword(Keyword::VARIADIC) {
            return Some(parser.parse_expr().map(variadic_argument));
        }
        let (op, precedence) = match parser.peek_token_ref().token {
            Token::Minus => (UnaryOperator::Minus, Precedence::AtTz),
            Token::Plus => (UnaryOperator::Plus, Precedence::AtTz),
            Token::Tilde => (UnaryOperator::BitwiseNot, Precedence::PgOther),
            Token::AtSign => (UnaryOperator::PGAbs, Precedence::PgOther),
            Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, Precedence::PgOther),
            Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, Precedence::PgOther),
            _ => return None,
        };
        parser.advance_token();
        let operand = parser.parse_subexpr(self.prec_value(precedence));
        Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(negated) = symmetric_between(parser) {
            return Some(between(parser, expr, negated));
        }
        if let Some(negated) = is_distinct(parser) {
            let other = parser.parse_subexpr(POSTGRES.prec_value(Precedence::Is));
            let left = Box::new(expr.clone());
            return Some(other.map(|right| match negated {
                true => Expr::IsNotDistinctFrom(left, Box::new(right)),
                false => Expr::IsDistinctFrom(left, Box::new(right)),
            }));
        }
        if parser.parse_keyword(Keyword::COLLATE) {
            let collation = parser.parse_object_name(false);
            let expr = Box::new(expr.clone());
            return Some(collation.map(|collation| Expr::Collate { expr, collation }));
        }
        if is_comparison_token(&parser.peek_token_ref().token) && is_comparison(expr) {
            let token = parser.peek_token_ref().clone();
            return Some(parser.expected("a comparison of values", token));
        }
        if is_isnull(&parser.peek_token_ref().token) {
            parser.advance_token();
            return Some(Ok(Expr::IsNull(Box::new(expr.clone()))));
        }
        POSTGRES.parse_infix(parser, expr, precedence)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRES.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, c: char) -> bool {
        POSTGRES.is_delimited_identifier_start(c)
    }

    fn is_identifier_start(&self, c: char) -> bool {
        POSTGRES.is_identifier_start(c)
    }

    fn is_identifier_part(&self, c: char) -> bool {
        POSTGRES.is_identifier_part(c)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(keyword)
    }

    fn is_custom_operator_part(&self, c: char) -> bool {
        POSTGRES.is_custom_operator_part(c)
    }

    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser) -> bool {
        !NO_BARE_LABELS.contains(keyword) && POSTGRES.is_column_alias(keyword, parser)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        if is_isnull(&parser.peek_token_ref().token) {
            return Some(Ok(POSTGRES.prec_value(Precedence::Is)));
        }
        match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => {
                return Some(Ok(POSTGRES.prec_value(Precedence::PgOther)));
            }
            Token::DoubleEq | Token::Spaceship => return Some(Ok(POSTGRES.prec_unknown())),
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::OPERATOR => return Some(Ok(POSTGRES.prec_value(Precedence::PgOther))),
                Keyword::DIV
                | Keyword::XOR
                | Keyword::RLIKE
                | Keyword::REGEXP
                | Keyword::MATCH
                | Keyword::MEMBER => return Some(Ok(POSTGRES.prec_unknown())),
                _ => {}
            },
            _ => {}
        }
        POSTGRES.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRES.prec_value(precedence)
    }

    as_postgres! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}

/// Reads `[NOT] BETWEEN SYMMETRIC`, if it comes next; true if it is negated.
fn symmetric_between(parser: &mut Parser) -> Option<bool> {
    [
        (&[Keyword::NOT, Keyword::BETWEEN, Keyword::SYMMETRIC][..], true),
        (&[Keyword::BETWEEN, Keyword::SYMMETRIC][..], false),
    ]
    .into_iter()
    .find_map(|(words, negated)| parser.parse_keywords(words).then_some(negated))
}

/// Reads `IS [NOT] DISTINCT FROM`, if it comes next; true if it is negated.
fn is_distinct(parser: &mut Parser) -> Option<bool> {
    [
        (&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM][..], true),
        (&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM][..], false),
    ]
    .into_iter()
    .find_map(|(words, negated)| parser.parse_keywords(words).then_some(negated))
}

/// Name of the function around the bounds of `BETWEEN SYMMETRIC` in the syntax tree.
pub(crate) const SYMMETRIC_BOUNDS: &str = "__symmetric_bounds";

/// A value between two others, whichever of them is the greater one. The tree has no such form: it
/// gets a `BETWEEN` with both bounds in the place of the lower one, until it is rewritten.
fn between(parser: &mut Parser, expr: &Expr, negated: bool) -> Result<Expr, ParserError> {
    let precedence = POSTGRES.prec_value(Precedence::Between);
    let one = parser.parse_subexpr(precedence)?;
    parser.expect_keyword_is(Keyword::AND)?;
    let other = parser.parse_subexpr(precedence)?;
    Ok(Expr::Nested(Box::new(Expr::Between {
        expr: Box::new(expr.clone()),
        negated,
        low: Box::new(call(SYMMETRIC_BOUNDS, vec![one, other])),
        high: Box::new(Expr::value(Value::Null)),
    })))
}

fn is_comparison_token(token: &Token) -> bool {
    matches!(token, Token::Eq | Token::Neq | Token::Lt | Token::Gt | Token::LtEq | Token::GtEq)
}

/// True if an expression is a comparison without parentheses around it.
fn is_comparison(expr: &Expr) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(expr, Expr::BinaryOp { op: Eq | NotEq | Lt | LtEq | Gt | GtEq, .. })
}

/// `ISNULL`, which the parser knows as no keyword.
fn is_isnull(token: &Token) -> bool {
    matches!(token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("isnull"))
}

fn is_trim(parser: &Parser) -> bool {
    matches!(&parser.peek_token_ref().token, Token::Word(word) if word.keyword == Keyword::TRIM)
        && parser.peek_nth_token_ref(1).token == Token::LParen
}

/// `trim([BOTH | LEADING | TRAILING] [[what] FROM] text [, what])`
fn trim(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let ends = [Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING];
    let trim_where = parser.parse_one_of_keywords(&ends).map(|end| match end {
        Keyword::LEADING => TrimWhereField::Leading,
        Keyword::TRAILING => TrimWhereField::Trailing,
        _ => TrimWhereField::Both,
    });
    let mut what = None;
    let mut values = Vec::new();
    if !parser.parse_keyword(Keyword::FROM) {
        let first = parser.parse_expr()?;
        if parser.parse_keyword(Keyword::FROM) {
            what = Some(first);
        } else {
            values.push(first);
        }
    }
    if values.is_empty() || parser.consume_token(&Token::Comma) {
        values.extend(parser.parse_comma_separated(Parser::parse_expr)?);
    }
    parser.expect_token(&Token::RParen)?;
    values.extend(what);
    let mut values = values.into_iter();
    let (Some(text), what, None) = (values.next(), values.next(), values.next()) else {
        let error_text = "function btrim takes a text and what is to be trimmed".to_owned();
        return Err(ParserError::ParserError(error_text));
    };
    let (expr, trim_what) = (Box::new(text), what.map(Box::new));
    Ok(Expr::Trim { expr, trim_where, trim_what, trim_characters: None })
}
