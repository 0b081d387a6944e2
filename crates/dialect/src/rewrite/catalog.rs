//! Spellings that clients use when they query the catalog.
//!
//! They name functions, operators and types of `pg_catalog` with their namespace, so that no object
//! of a user can take their place. The planner knows functions by their bare names only, and does
//! not know the other spellings.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderBy,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Subscript, TableFactor,
    TableFunctionArgs, Value,
};
use thalweg_types::{Error, Result};
use thalweg_values::system_types::SystemType;

use super::build::{call, cast};
use super::figure::quoted;
use super::names::normalized;
use super::operators::literal_text;
use super::rows::parse_query;
use super::sources::gives_rows;

/// Rewrites `expr` itself; the expressions inside are rewritten separately.
pub(super) fn respell(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Function(function) => {
            unqualify(&mut function.name);
            if let Some(array) = array_subquery(function)? {
                *expr = array;
            }
        }
        Expr::BinaryOp { op, .. } => plain_operator(op),
        // Behind a bare name a dot may still mean that the name is a table's.
        Expr::CompoundFieldAccess { root, access_chain }
            if !matches!(root.as_ref(), Expr::Identifier(_)) =>
        {
            access_chain.iter_mut().for_each(subscript_by_name);
        }
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. }
            if literal_text(pattern).is_none() =>
        {
            if let Some(escape) = escape_char.take() {
                let given = std::mem::replace(pattern.as_mut(), nothing());
                **pattern = call("like_escape", vec![given, Expr::Value(escape)]);
            }
        }
        // There are no domains.
        Expr::Subquery(query) if follows_domains(query) => {
            let oid = SqlType::Custom(ObjectName::from(vec![quoted("oid")]), vec![]);
            *expr = cast(Expr::value(Value::Null), oid);
        }
        Expr::Cast { expr: inner, data_type, format: None, .. } => {
            if let Some(function) = registering_function(data_type) {
                let inner = std::mem::replace(inner.as_mut(), nothing());
                *expr = call(function, vec![inner]);
            }
        }
        _ => {}
    }
    Ok(())
}

/// `(row).field` is `(row)['field']`.
fn subscript_by_name(access: &mut AccessExpr) {
    if let AccessExpr::Dot(Expr::Identifier(field)) = access {
        let name = Value::SingleQuotedString(normalized(field));
        *access = AccessExpr::Subscript(Subscript::Index { index: Expr::value(name) });
    }
}

/// True if a query follows a domain to its base type. asyncpg sends such a query for each type.
fn follows_domains(query: &Query) -> bool {
    let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
    recursive && query.to_string().contains("typbasetype")
}

/// `SELECT (_pg_expandarray(…)).n` gives rows, also where the call stands within an expression.
pub(super) fn expand_sets(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            expand_set(expr);
        }
    }
}

fn expand_set(expr: &mut Expr) {
    match expr {
        Expr::Function(function) if is_expanding(&function.name) => {
            let array = std::mem::replace(expr, nothing());
            *expr = call("unnest", vec![array]);
        }
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => expand_set(inner),
        Expr::CompoundFieldAccess { root, .. } => expand_set(root),
        _ => {}
    }
}

fn is_expanding(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|name| normalized(name) == "_pg_expandarray")
}

/// Functions without arguments whose rows are those of a table.
const TABLE_FUNCTIONS: [(&str, &str); 6] = [
    ("pg_cursor", "pg_cursors"),
    ("pg_get_keywords", "pg_get_keywords"),
    ("pg_listening_channels", "pg_listening_channels"),
    ("pg_prepared_statement", "pg_prepared_statements"),
    ("pg_show_all_settings", "pg_settings"),
    ("pg_timezone_names", "pg_timezone_names"),
];

/// Rewrites a function in FROM.
pub(super) fn respell_source(factor: &mut TableFactor) {
    match factor {
        TableFactor::Table { name, args: args @ Some(_), .. } => {
            unqualify(name);
            let takes_nothing = args.as_ref().is_some_and(|list| list.args.is_empty());
            let table = table_of(name).filter(|_| takes_nothing);
            let of_options = || args.as_ref().and_then(|list| options_table(name, list));
            if let Some(table) = table.or_else(of_options) {
                *name = ObjectName::from(vec![quoted("pg_catalog"), quoted(table)]);
                *args = None;
            }
        }
        TableFactor::Function { name, .. } => unqualify(name),
        _ => {}
    }
}

fn table_of(name: &ObjectName) -> Option<&'static str> {
    let [name] = name.0.as_slice() else { return None };
    let name = normalized(name.as_ident()?);
    TABLE_FUNCTIONS.iter().find(|known| known.0 == name).map(|known| known.1)
}

/// Columns of the catalog with options of foreign data and of storage, which no object here has.
const OPTIONS: [&str; 6] =
    ["attfdwoptions", "fdwoptions", "ftoptions", "reloptions", "srvoptions", "umoptions"];

/// The table without rows that `pg_options_to_table` of such a column gives.
fn options_table(name: &ObjectName, arguments: &TableFunctionArgs) -> Option<&'static str> {
    const NAME: &str = "pg_options_to_table";
    let [function] = name.0.as_slice() else { return None };
    if normalized(function.as_ident()?) != NAME {
        return None;
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = arguments.args.as_slice() else {
        return None;
    };
    let column = match argument {
        Expr::Identifier(column) => column,
        Expr::CompoundIdentifier(parts) => parts.last()?,
        _ => return None,
    };
    OPTIONS.contains(&normalized(column).as_str()).then_some(NAME)
}

/// `pg_catalog.lower` is `lower`.
fn unqualify(name: &mut ObjectName) {
    let [namespace, function] = name.0.as_slice() else { return };
    let (Some(namespace), Some(function)) = (namespace.as_ident(), function.as_ident()) else {
        return;
    };
    let in_catalog = namespace.value.eq_ignore_ascii_case("pg_catalog");
    let expands = function.value.eq_ignore_ascii_case("_pg_expandarray");
    if in_catalog || (expands && namespace.value.eq_ignore_ascii_case("information_schema")) {
        name.0.remove(0);
    }
}

/// `OPERATOR(pg_catalog.~)` is `~`.
fn plain_operator(op: &mut BinaryOperator) {
    let BinaryOperator::PGCustomBinaryOperator(parts) = op else { return };
    let plain = match parts.last().map(String::as_str) {
        Some("~") => BinaryOperator::PGRegexMatch,
        Some("~*") => BinaryOperator::PGRegexIMatch,
        Some("!~") => BinaryOperator::PGRegexNotMatch,
        Some("!~*") => BinaryOperator::PGRegexNotIMatch,
        Some("~~") => BinaryOperator::PGLikeMatch,
        Some("~~*") => BinaryOperator::PGILikeMatch,
        Some("!~~") => BinaryOperator::PGNotLikeMatch,
        Some("!~~*") => BinaryOperator::PGNotILikeMatch,
        Some("=") => BinaryOperator::Eq,
        Some("<>" | "!=") => BinaryOperator::NotEq,
        Some("<") => BinaryOperator::Lt,
        Some("<=") => BinaryOperator::LtEq,
        Some(">") => BinaryOperator::Gt,
        Some(">=") => BinaryOperator::GtEq,
        Some("+") => BinaryOperator::Plus,
        Some("-") => BinaryOperator::Minus,
        Some("*") => BinaryOperator::Multiply,
        Some("/") => BinaryOperator::Divide,
        Some("%") => BinaryOperator::Modulo,
        Some("||") => BinaryOperator::StringConcat,
        Some("&&") => BinaryOperator::PGOverlap,
        _ => return,
    };
    *op = plain;
}

/// The function with the effect of a cast to `regclass` and its like.
fn registering_function(data_type: &SqlType) -> Option<&'static str> {
    match SystemType::from_sql(data_type)? {
        registered @ SystemType::Registered(_) => Some(registered.name()),
        _ => None,
    }
}

/// `ARRAY(SELECT …)`: its rows' values in one array, which may be empty but is never NULL.
fn array_subquery(function: &Function) -> Result<Option<Expr>> {
    let is_array = matches!(function.name.0.as_slice(), [name]
        if name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("array")));
    let FunctionArguments::Subquery(query) = &function.args else { return Ok(None) };
    if !is_array {
        return Ok(None);
    }
    let gathered = match gathered_directly(query) {
        Some(gathered) => gathered,
        None => gathered_around(query)?,
    };
    Ok(Some(call("array_or_empty", vec![Expr::Subquery(Box::new(gathered))])))
}

/// `SELECT array_agg(item) FROM (query) AS items(item)`
fn gathered_around(query: &Query) -> Result<Query> {
    let mut outer =
        parse_query("SELECT array_agg(\"__item\") FROM (SELECT 1) AS \"__items\"(\"__item\")")?;
    let SetExpr::Select(select) = outer.body.as_mut() else {
        return Err(Error::internal("a SELECT was parsed as something else"));
    };
    if let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation {
        **subquery = query.clone();
    }
    Ok(outer)
}

/// A plain SELECT gathers its values itself, in the order that it asks for.
fn gathered_directly(query: &Query) -> Option<Query> {
    let mut query = query.clone();
    let order = query.order_by.take();
    let is_plain = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let ungrouped = GroupByExpr::Expressions(vec![], vec![]);
    if !is_plain
        || select.distinct.is_some()
        || select.having.is_some()
        || select.group_by != ungrouped
    {
        return None;
    }
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    // An item that gives rows cannot be aggregated directly: its rows are made first.
    if gives_rows(item) {
        return None;
    }
    let item = item.clone();
    let keys = match order {
        None => Vec::new(),
        Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) => keys,
        Some(_) => return None,
    };
    // A number there is the position of the one column.
    let keys = keys.into_iter().map(|key| match key.expr {
        Expr::Value(_) => OrderByExpr { expr: item.clone(), ..key },
        _ => key,
    });
    let keys: Vec<OrderByExpr> = keys.collect();
    let mut gathering = call("array_agg", vec![item.clone()]);
    if let Expr::Function(function) = &mut gathering
        && let FunctionArguments::List(list) = &mut function.args
        && !keys.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(keys));
    }
    select.projection = vec![SelectItem::UnnamedExpr(gathering)];
    Some(query)
}

/// Stands in for an expression that is moved out.
fn nothing() -> Expr {
    Expr::Identifier(Ident::new(""))
}
