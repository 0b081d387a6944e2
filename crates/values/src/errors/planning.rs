//! Errors of the planner: unknown names, types that do not fit, invalid queries.

use datafusion::common::Column;
use thalweg_types::{Error, SqlState};

use super::{clean, foreign_functions, position};
use crate::column_marks::{MARK, output_name};

pub(super) fn from_message(message: &str, sql: &str) -> Error {
    for recognise in RECOGNISERS {
        if let Some(error) = recognise(message, sql) {
            return error;
        }
    }
    Error::new(SqlState::SYNTAX_ERROR, lower_first(&clean(message)))
}

/// Each function recognises one kind of sentence, and returns `None` for others.
const RECOGNISERS: [fn(&str, &str) -> Option<Error>; 11] = [
    bad_literal,
    bad_position,
    unknown_table,
    unknown_function,
    wrong_arguments,
    no_operator,
    not_grouped,
    bad_placement,
    bad_order,
    wrong_column_counts,
    bad_type,
];

pub(super) fn not_implemented(message: &str, sql: &str) -> Error {
    let known = unknown_function(message, sql)
        .or_else(|| bad_type(message, sql))
        .or_else(|| bad_literal(message, sql));
    if let Some(error) = known {
        return error;
    }
    let error_text = clean(message);
    let error_text =
        error_text.trim_start_matches("Unsupported ").trim_start_matches("not supported: ");
    let error_text = lower_first(error_text);
    if error_text.contains("not support") || error_text.contains("not implemented") {
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, error_text)
    } else {
        Error::unsupported(error_text)
    }
}

pub(super) fn unknown_column(field: &Column, valid: &[Column], sql: &str) -> Error {
    let relation = field.relation.as_ref().map(|relation| relation.table());
    let is_outer = field.relation.as_ref().and_then(|relation| relation.schema());
    // The columns of outer queries are not among the valid ones.
    let is_outer = is_outer.is_some_and(|schema| schema.starts_with(MARK));
    let known_relation = relation.is_none_or(|relation| {
        is_outer
            || valid.iter().any(|column| {
                column.relation.as_ref().is_some_and(|known| known.table() == relation)
            })
    });
    if let (Some(relation), false) = (relation, known_relation) {
        let error = Error::new(
            SqlState::UNDEFINED_TABLE,
            format!("missing FROM-clause entry for table \"{relation}\""),
        );
        return position::at_name(error, relation, sql);
    }
    let error_text = match relation {
        Some(relation) => format!("column {relation}.{} does not exist", field.name),
        None => format!("column \"{}\" does not exist", field.name),
    };
    if named_twice(field, valid) {
        let error_text = format!("column reference \"{}\" is ambiguous", field.name);
        let error = Error::new(SqlState::AMBIGUOUS_COLUMN, error_text);
        return position::at_name(error, &field.name, sql);
    }
    let error = Error::new(SqlState::UNDEFINED_COLUMN, error_text);
    let error = match nearest(&field.name, valid) {
        Some(near) => {
            error.with_hint(format!("Perhaps you meant to reference the column \"{near}\"."))
        }
        None => error,
    };
    position::at_name(error, &field.name, sql)
}

/// True if several columns of a subquery have the name, each with a mark that makes it unique.
fn named_twice(field: &Column, valid: &[Column]) -> bool {
    let is_meant = |column: &&Column| {
        output_name(&column.name) == field.name
            && field.relation.as_ref().is_none_or(|relation| {
                column.relation.as_ref().is_some_and(|known| known.table() == relation.table())
            })
    };
    valid.iter().filter(is_meant).count() > 1
}

/// The known column whose name differs by a typing mistake.
fn nearest(name: &str, valid: &[Column]) -> Option<String> {
    let distance = |column: &&Column| {
        datafusion::common::utils::datafusion_strsim::levenshtein(
            &name.to_lowercase(),
            &column.name.to_lowercase(),
        )
    };
    let best = valid.iter().min_by_key(distance)?;
    let known = output_name(&best.name);
    (distance(&best) * 2 <= name.len().max(2)).then(|| match &best.relation {
        Some(relation) => format!("{}.{known}", relation.table()),
        None => known.to_owned(),
    })
}

/// "table 'thalweg.public.missing' not found"
fn unknown_table(message: &str, sql: &str) -> Option<Error> {
    let name = between(message, "table '", "' not found")?;
    let mut parts = name.rsplit('.');
    let table = parts.next()?;
    let shown = match parts.next() {
        Some(schema) if schema != "public" => format!("{schema}.{table}"),
        _ => table.to_string(),
    };
    let error =
        Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"));
    Some(position::at_name(error, table, sql))
}

/// "Invalid function 'lenght'.\nDid you mean 'length'?"
fn unknown_function(message: &str, sql: &str) -> Option<Error> {
    let name = between(message, "Invalid function '", "'")
        .or_else(|| between(message, "Table function '", "' not found"))
        .or_else(|| between(message, "table function '", "' not found"))?;
    let error = Error::new(SqlState::UNDEFINED_FUNCTION, format!("function {name} does not exist"));
    let similar = || {
        let near = between(message, "Did you mean '", "'")?;
        Some(format!("Perhaps you meant the function {near}."))
    };
    let hint = foreign_functions::hint(name).map(str::to_owned).or_else(similar);
    let error = match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    };
    Some(position::at_name(error, name, sql))
}

/// "Failed to coerce arguments to satisfy a call to 'abs' function: coercion from …" and
/// "'abs' does not support zero arguments …".
fn wrong_arguments(message: &str, sql: &str) -> Option<Error> {
    let name = between(message, "satisfy a call to '", "' function")
        .or_else(|| between(message, "Function '", "' "))
        .or_else(|| between(message, "function '", "' "))
        .or_else(|| between(message, "The ", " function "))
        .or_else(|| between(message, "call to function '", "'"))
        .or_else(|| between(message, "'", "' does not support zero arguments"))?;
    let error = Error::new(
        SqlState::UNDEFINED_FUNCTION,
        format!("function {name} does not exist for the given argument types"),
    )
    .with_detail(first_line(&clean(message)))
    .with_hint("You might need to add explicit type casts.");
    Some(position::at_name(error, name, sql))
}

/// "Cannot coerce arithmetic expression Utf8 + Int64 to valid types" and "Cannot infer common
/// argument type for comparison operation Int64 = Boolean".
fn no_operator(message: &str, _sql: &str) -> Option<Error> {
    let operation =
        between(message, "arithmetic expression ", " to valid types").or_else(|| {
            message.split_once("operation ").and_then(|(head, rest)| {
                head.contains("Cannot infer common argument type").then_some(rest)
            })
        })?;
    let error_text = first_line(operation);
    Some(
        Error::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("operator does not exist: {}", postgres_types(&error_text)),
        )
        .with_hint("You might need to add explicit type casts."),
    )
}

/// "Column in SELECT must be in GROUP BY or an aggregate function: …"
fn not_grouped(message: &str, sql: &str) -> Option<Error> {
    let (clause, rest) = message.split_once("must be in GROUP BY or an aggregate function")?;
    let column = rest
        .split("expression \"")
        .nth(1)
        .or_else(|| rest.split("While expanding wildcard, column \"").nth(1))
        .and_then(|rest| rest.split('"').next())
        .map(str::to_string);
    let error_text = match &column {
        Some(column) => format!(
            "column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate \
             function"
        ),
        None => format!(
            "{} must appear in the GROUP BY clause or be used in an aggregate function",
            lower_first(clause.trim())
        ),
    };
    let error = Error::new(SqlState::GROUPING_ERROR, error_text);
    let name = column.as_deref().and_then(|column| column.rsplit('.').next());
    Some(match name {
        Some(name) => position::at_name(error, name, sql),
        None => error,
    })
}

/// Numbers with more digits than there are types for.
fn bad_literal(message: &str, _sql: &str) -> Option<Error> {
    let beyond = message.contains("exceeds the maximum supported precision")
        || message.contains("exceeds the minimum supported scale")
        || message.contains("exceeds the maximum supported scale");
    beyond.then(|| {
        Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
            .with_detail("A numeric value has at most 76 digits.")
    })
}

/// `ORDER BY 2` and `GROUP BY 2` beyond the columns, and invalid values of `LIMIT`.
fn bad_position(message: &str, _sql: &str) -> Option<Error> {
    let (clause, place) =
        if let Some(place) = between(message, "Order by column out of bounds, specified: ", ",") {
            ("ORDER BY", place)
        } else if let Some(place) =
            between(message, "Cannot find column with position ", " in SELECT clause")
        {
            ("GROUP BY", place)
        } else if message.contains("Order by index starts at 1") {
            ("ORDER BY", "0")
        } else if message.contains("LIMIT must be >= 0") {
            return Some(Error::new(SqlState::INVALID_LIMIT, "LIMIT must not be negative"));
        } else if message.contains("OFFSET must be >=") {
            return Some(Error::new(SqlState::INVALID_OFFSET, "OFFSET must not be negative"));
        } else if message.contains("Inconsistent data length across values list") {
            return Some(Error::new(
                SqlState::SYNTAX_ERROR,
                "VALUES lists must all be the same length",
            ));
        } else {
            return None;
        };
    Some(Error::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        format!("{clause} position {place} is not in select list"),
    ))
}

/// Sort keys that do not match the `DISTINCT` clause.
fn bad_order(message: &str, _sql: &str) -> Option<Error> {
    let error_text = if message.contains("SELECT DISTINCT ON expressions must match") {
        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions"
    } else if message.contains("For SELECT DISTINCT, ORDER BY expressions") {
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list"
    } else {
        return None;
    };
    Some(Error::new(SqlState::INVALID_COLUMN_REFERENCE, error_text))
}

/// Aggregates and windows in clauses that do not allow them.
fn bad_placement(message: &str, _sql: &str) -> Option<Error> {
    let error_text = if message.contains("Aggregate functions are not allowed in the WHERE clause")
    {
        "aggregate functions are not allowed in WHERE"
    } else if message.contains("Aggregate function calls cannot be nested") {
        "aggregate function calls cannot be nested"
    } else if message.contains("HAVING clause references") {
        "columns in HAVING must appear in the GROUP BY clause or be used in an aggregate function"
    } else {
        return None;
    };
    Some(Error::new(SqlState::GROUPING_ERROR, error_text))
}

/// Set operations and subqueries whose columns don't match.
fn wrong_column_counts(message: &str, _sql: &str) -> Option<Error> {
    if message.contains("queries have different number of columns")
        || message.contains("must have the same number of columns")
    {
        let error_text = "each query of a set operation must have the same number of columns";
        return Some(Error::new(SqlState::SYNTAX_ERROR, error_text));
    }
    let one_column = message.contains("subquery should only return one column")
        || message.contains("Too many columns! The subquery");
    one_column.then(|| Error::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"))
}

/// Conditions of another type than boolean, and casts that do not exist.
fn bad_type(message: &str, _sql: &str) -> Option<Error> {
    if let Some(given) = between(message, "non-boolean predicate ", " returning ") {
        let returned = message.split(" returning ").nth(1).unwrap_or_default();
        return Some(
            Error::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "argument of WHERE must be type boolean, not type {}",
                    postgres_types(&first_line(returned))
                ),
            )
            .with_detail(format!("The condition is {given}.")),
        );
    }
    if let Some((_, given)) =
        message.split_once("Unary operator 'NOT' requires a boolean expression, got ")
    {
        return Some(Error::new(
            SqlState::DATATYPE_MISMATCH,
            format!("argument of NOT must be type boolean, not type {}", postgres_types(given)),
        ));
    }
    let error_text = between(message, "Unsupported CAST from ", "\n")
        .or_else(|| message.split_once("Unsupported CAST from ").map(|(_, rest)| rest))?;
    let (from, to) = error_text.split_once(" to ")?;
    Some(Error::new(
        SqlState::CANNOT_COERCE,
        format!("cannot cast type {} to {}", postgres_types(from), postgres_types(to)),
    ))
}

/// A sentence with PostgreSQL's names in place of Arrow's type names.
fn postgres_types(text: &str) -> String {
    const NAMES: [(&str, &str); 18] = [
        ("Timestamp(ns)", "timestamp without time zone"),
        ("Timestamp(µs)", "timestamp without time zone"),
        ("Timestamp(µs, \"UTC\")", "timestamp with time zone"),
        ("Timestamp(Microsecond, None)", "timestamp without time zone"),
        ("Interval(MonthDayNano)", "interval"),
        ("Time64(µs)", "time without time zone"),
        ("LargeUtf8", "text"),
        ("Utf8View", "text"),
        ("Utf8", "text"),
        ("BinaryView", "bytea"),
        ("Binary", "bytea"),
        ("Boolean", "boolean"),
        ("Int16", "smallint"),
        ("Int32", "integer"),
        ("Int64", "bigint"),
        ("Float32", "real"),
        ("Float64", "double precision"),
        ("Date32", "date"),
    ];
    let mut text = text.to_string();
    for (arrow, postgres) in NAMES {
        text = text.replace(arrow, postgres);
    }
    while let Some(start) = text.find("Decimal128(").or_else(|| text.find("Decimal256(")) {
        let Some(length) = text[start..].find(')') else { break };
        text.replace_range(start..=start + length, "numeric");
    }
    text
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.split_once(end)?.0)
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end_matches('.').to_string()
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        // An abbreviation such as "SQL" keeps its capitals.
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_string(),
    }
}
