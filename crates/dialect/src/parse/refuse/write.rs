//! Clauses of INSERT, UPDATE, DELETE, TRUNCATE and COPY.

use datafusion::sql::sqlparser::ast::{
    CopyLegacyOption, CopyOption, CopyTarget, Delete, FromTable, Insert, OnInsert, TableObject,
    Truncate, Update, UpdateTableFromKind,
};
use thalweg_types::{Error, Result};

use super::absent;
use super::select::joined;
use crate::parse::{conflict_predicate, overriding};

pub(super) fn insert(insert: &Insert) -> Result<()> {
    let Insert {
        insert_token: _,
        optimizer_hints: _,
        or,
        ignore,
        into,
        table,
        table_alias: _,
        columns: _,
        overwrite,
        source: _,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword,
        on,
        returning: _,
        output,
        replace_into,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    let has_settings =
        settings.is_some() && overriding(insert).is_none() && conflict_predicate(insert).is_none();
    absent([
        (or.is_some(), "INSERT OR"),
        (*ignore, "INSERT IGNORE"),
        (*overwrite, "INSERT OVERWRITE"),
        (*replace_into, "REPLACE INTO"),
        (!into, "INSERT without INTO"),
        (!matches!(table, TableObject::TableName(_)), "INSERT INTO anything but a table"),
        (!assignments.is_empty(), "INSERT ... SET"),
        (partitioned.is_some(), "INSERT ... PARTITION"),
        (!after_columns.is_empty(), "INSERT ... PARTITION"),
        (*has_table_keyword, "INSERT INTO TABLE"),
        (matches!(on, Some(OnInsert::DuplicateKeyUpdate(_))), "ON DUPLICATE KEY UPDATE"),
        (output.is_some(), "OUTPUT"),
        (priority.is_some(), "a priority of INSERT"),
        (insert_alias.is_some(), "an alias behind the rows of INSERT"),
        (has_settings, "SETTINGS"),
        (format_clause.is_some(), "FORMAT"),
        (multi_table_insert_type.is_some(), "INSERT ALL or FIRST"),
        (!multi_table_into_clauses.is_empty(), "INSERT into several tables"),
        (!multi_table_when_clauses.is_empty(), "INSERT ... WHEN"),
        (multi_table_else_clause.is_some(), "INSERT ... ELSE"),
    ])
}

pub(super) fn update(update: &Update) -> Result<()> {
    let Update {
        update_token: _,
        optimizer_hints: _,
        table,
        assignments: _,
        from,
        selection: _,
        returning: _,
        output,
        or,
        order_by,
        limit,
    } = update;
    absent([
        (!table.joins.is_empty(), "UPDATE of joined tables"),
        (matches!(from, Some(UpdateTableFromKind::BeforeSet(_))), "FROM before SET"),
        (output.is_some(), "OUTPUT"),
        (or.is_some(), "UPDATE OR"),
        (!order_by.is_empty(), "ORDER BY in UPDATE"),
        (limit.is_some(), "LIMIT in UPDATE"),
    ])?;
    match from {
        Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => {
            tables.iter().try_for_each(joined)
        }
        None => Ok(()),
    }
}

pub(super) fn delete(delete: &Delete) -> Result<()> {
    let Delete {
        delete_token: _,
        optimizer_hints: _,
        tables,
        from,
        using,
        selection: _,
        returning: _,
        output,
        order_by,
        limit,
    } = delete;
    absent([
        (!tables.is_empty(), "DELETE of several tables"),
        (matches!(from, FromTable::WithoutKeyword(_)), "DELETE without FROM"),
        (output.is_some(), "OUTPUT"),
        (!order_by.is_empty(), "ORDER BY in DELETE"),
        (limit.is_some(), "LIMIT in DELETE"),
    ])?;
    using.iter().flatten().try_for_each(joined)
}

pub(super) fn truncate(truncate: &Truncate) -> Result<()> {
    let Truncate {
        table_names: _,
        partitions,
        table: _,
        if_exists,
        // Both are handled where the statement runs.
        identity: _,
        cascade: _,
        on_cluster,
    } = truncate;
    absent([
        (partitions.is_some(), "TRUNCATE ... PARTITION"),
        (*if_exists, "TRUNCATE ... IF EXISTS"),
        (on_cluster.is_some(), "ON CLUSTER"),
    ])
}

pub(super) fn copy(
    target: &CopyTarget,
    options: &[CopyOption],
    legacy_options: &[CopyLegacyOption],
    values: &[Option<String>],
) -> Result<()> {
    // The parser takes a line's end behind the statement for an empty value.
    let has_rows =
        values.iter().any(|value| value.as_ref().is_none_or(|text| !text.trim().is_empty()));
    absent([
        (matches!(target, CopyTarget::Program { command: _ }), "COPY with PROGRAM"),
        (has_rows, "rows behind COPY in the same message"),
    ])?;
    options.iter().for_each(|option| match option {
        // Rows of a committed load need no later freezing here.
        CopyOption::Freeze(_) => (),
        // Each is read where the statement runs.
        CopyOption::Format(_)
        | CopyOption::Delimiter(_)
        | CopyOption::Null(_)
        | CopyOption::Header(_)
        | CopyOption::Quote(_)
        | CopyOption::Escape(_)
        | CopyOption::ForceQuote(_)
        | CopyOption::ForceNotNull(_)
        | CopyOption::ForceNull(_)
        | CopyOption::Encoding(_) => (),
    });
    legacy_options.iter().try_for_each(|option| match option {
        CopyLegacyOption::Binary
        | CopyLegacyOption::Csv(_)
        | CopyLegacyOption::Delimiter(_)
        | CopyLegacyOption::Header
        | CopyLegacyOption::Null(_) => Ok(()),
        other => Err(Error::unsupported(format!("the COPY option {other}"))),
    })
}
