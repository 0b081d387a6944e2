//! `FOREIGN KEY … REFERENCES`: makes the constraint of a table.

use datafusion::sql::sqlparser::ast::{
    ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial,
    ForeignKeyConstraint, Ident, ReferentialAction as Action,
};
use thalweg_txn::{Object, Privilege, no_referenced_key};
use thalweg_types::{
    ColumnId, DataType, Error, ForeignKey, ReferentialAction, Result, SqlState, TableSchema,
};

use super::super::{Execution, folded};
use super::definition::free_name;
use crate::statement::target::QualifiedName;

/// Adds a foreign key to a table that has its columns and keys. `column` is the column with which
/// the constraint was written, if it was.
///
/// # Errors
/// If the referenced table has no such key (`42830`), types do not fit (`42804`), the role may not
/// refer to the table, or the database has workers (`0A000`).
pub(in crate::statement) fn add_foreign_key(
    schema: &mut TableSchema,
    execution: &Execution<'_>,
    given: Option<String>,
    column: Option<&str>,
    constraint: &ForeignKeyConstraint,
) -> Result<()> {
    if !schema.id.is_temporary() {
        execution.names.cluster().only_without(
            "FOREIGN KEY in a cluster",
            "Leave REFERENCES and FOREIGN KEY out: rows of two tables may lie on two workers.",
        )?;
    }
    let parent = parent_of(schema, execution, constraint)?;
    check_persistence(schema, &parent)?;
    let names: Vec<String> = match column {
        Some(column) => vec![column.to_owned()],
        None => constraint.columns.iter().map(folded).collect(),
    };
    let columns = ids(schema, &names)?;
    let parent_columns = parent_columns(&parent, &constraint.referred_columns)?;
    if columns.len() != parent_columns.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(Error::new(SqlState::INVALID_FOREIGN_KEY, message));
    }
    let name = name(schema, given, &names)?;
    for (column, parent_column) in columns.iter().zip(&parent_columns) {
        check_types(schema, &parent, &name, (*column, *parent_column))?;
    }
    let (deferrable, initially_deferred) = characteristics(constraint.characteristics.as_ref())?;
    schema.foreign_keys.push(ForeignKey {
        name,
        columns,
        parent: parent.id,
        parent_columns,
        on_delete: action(constraint.on_delete),
        on_update: action(constraint.on_update),
        deferrable,
        initially_deferred,
        unvalidated: false,
    });
    Ok(())
}

/// The referenced table, which may be the table that is being made.
fn parent_of(
    schema: &TableSchema,
    execution: &Execution<'_>,
    constraint: &ForeignKeyConstraint,
) -> Result<TableSchema> {
    match constraint.match_kind {
        None | Some(ConstraintReferenceMatchKind::Simple) => {}
        Some(kind) => return Err(Error::unsupported(kind)),
    }
    let catalog = execution.names.catalog();
    let name = QualifiedName::existing(&catalog, &constraint.foreign_table)?;
    if (&name.namespace, &name.name) == (&schema.namespace, &schema.name) {
        return Ok(schema.clone());
    }
    let Object::Table(parent) = name.find(&catalog)? else {
        let message = format!("referenced relation \"{}\" is not a table", name.name);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    let parent = parent.schema.as_ref();
    execution.names.rights().on_relation(&parent.namespace, &parent.name, Privilege::References)?;
    Ok(parent.clone())
}

/// # Errors
/// 42P16 if one of the tables is temporary and the other is not.
fn check_persistence(child: &TableSchema, parent: &TableSchema) -> Result<()> {
    let message = match (child.id.is_temporary(), parent.id.is_temporary()) {
        (true, false) => "constraints on temporary tables may reference only temporary tables",
        (false, true) => "constraints on permanent tables may reference only permanent tables",
        (true, true) | (false, false) => return Ok(()),
    };
    Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message))
}

fn ids(schema: &TableSchema, names: &[String]) -> Result<Vec<ColumnId>> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        let (_, column) = schema.column_named(name).ok_or_else(|| {
            let message =
                format!("column \"{name}\" referenced in foreign key constraint does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if ids.contains(&column.id) {
            let message = "foreign key referenced-columns list must not contain duplicates";
            return Err(Error::new(SqlState::INVALID_FOREIGN_KEY, message));
        }
        ids.push(column.id);
    }
    Ok(ids)
}

fn parent_columns(parent: &TableSchema, names: &[Ident]) -> Result<Vec<ColumnId>> {
    if names.is_empty() {
        let primary = parent.primary_key.as_ref();
        return primary.map(|key| key.columns.clone()).ok_or_else(|| {
            let message =
                format!("there is no primary key for referenced table \"{}\"", parent.name);
            Error::new(SqlState::UNDEFINED_OBJECT, message)
        });
    }
    let ids = ids(parent, &names.iter().map(folded).collect::<Vec<_>>())?;
    match parent.key_of_columns(&ids) {
        Some(_) => Ok(ids),
        None => Err(no_referenced_key(&parent.name)),
    }
}

/// `table_column_column_fkey`, with a number if that is taken.
fn name(schema: &TableSchema, given: Option<String>, columns: &[String]) -> Result<String> {
    let taken = |name: &str| schema.has_constraint(name);
    match given {
        Some(name) if taken(&name) => Err(constraint_exists(&name, &schema.name)),
        Some(name) => Ok(name),
        None => Ok(free_name(format!("{}_{}_fkey", schema.name, columns.join("_")), taken)),
    }
}

/// `constraint "…" for relation "…" already exists`
pub(super) fn constraint_exists(name: &str, table: &str) -> Error {
    let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    Error::new(SqlState::DUPLICATE_OBJECT, message)
}

fn check_types(
    child: &TableSchema,
    parent: &TableSchema,
    name: &str,
    (column, parent_column): (ColumnId, ColumnId),
) -> Result<()> {
    let found = |table: &TableSchema, id| {
        let column = table.columns.iter().find(|known| known.id == id);
        column.cloned().ok_or_else(|| Error::internal("a foreign key's column is missing"))
    };
    let (column, parent_column) = (found(child, column)?, found(parent, parent_column)?);
    match Comparison::of(&column.data_type, &parent_column.data_type) {
        Comparison::Same => Ok(()),
        Comparison::Unsupported => Err(Error::unsupported(format!(
            "a foreign key from {} to {}",
            column.data_type, parent_column.data_type
        ))
        .with_hint("Give both columns the same type.")),
        Comparison::Incompatible => {
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            let (left, right) = (&column.name, &parent_column.name);
            let detail = format!(
                "Key columns \"{left}\" and \"{right}\" are of incompatible types: {} and {}.",
                written(&column.data_type),
                written(&parent_column.data_type)
            );
            Err(Error::new(SqlState::DATATYPE_MISMATCH, message).with_detail(detail))
        }
    }
}

/// A type as PostgreSQL's message has it: without modifiers.
fn written(data_type: &DataType) -> String {
    match data_type {
        DataType::Text { max_chars: Some(_) } => "character varying".to_owned(),
        DataType::Decimal { .. } => "numeric".to_owned(),
        other => other.to_string(),
    }
}

/// The relation of two columns' types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Same,
    /// PostgreSQL compares them, and this database does not.
    Unsupported,
    Incompatible,
}

impl Comparison {
    fn of(column: &DataType, parent_column: &DataType) -> Comparison {
        use DataType::{
            Date, Decimal, Float4, Float8, Int2, Int4, Int8, Text, Timestamp, Timestamptz,
        };
        let is_integer = |data_type: &DataType| matches!(data_type, Int2 | Int4 | Int8);
        let is_number = |data_type: &DataType| {
            is_integer(data_type) || matches!(data_type, Decimal { .. } | Float4 | Float8)
        };
        let is_time = |data_type: &DataType| matches!(data_type, Date | Timestamp | Timestamptz);
        match (column, parent_column) {
            (Text { .. }, Text { .. }) => Comparison::Same,
            (Decimal { scale, .. }, Decimal { scale: other, .. }) if scale == other => {
                Comparison::Same
            }
            (one, other) if one == other => Comparison::Same,
            (one, other) if is_integer(one) && is_integer(other) => Comparison::Same,
            (one, other) if is_number(one) && is_number(other) => Comparison::Unsupported,
            (one, other) if is_time(one) && is_time(other) => Comparison::Unsupported,
            _ => Comparison::Incompatible,
        }
    }
}

fn action(action: Option<Action>) -> ReferentialAction {
    match action {
        None | Some(Action::NoAction) => ReferentialAction::NoAction,
        Some(Action::Restrict) => ReferentialAction::Restrict,
        Some(Action::Cascade) => ReferentialAction::Cascade,
        Some(Action::SetNull) => ReferentialAction::SetNull,
        Some(Action::SetDefault) => ReferentialAction::SetDefault,
    }
}

/// Returns whether a constraint is deferrable, and whether it is deferred at first.
fn characteristics(given: Option<&ConstraintCharacteristics>) -> Result<(bool, bool)> {
    let Some(ConstraintCharacteristics { deferrable, initially, enforced }) = given else {
        return Ok((false, false));
    };
    if *enforced == Some(false) {
        return Err(Error::unsupported("NOT ENFORCED"));
    }
    let deferred = *initially == Some(DeferrableInitial::Deferred);
    if deferred && *deferrable == Some(false) {
        let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    Ok((deferred || *deferrable == Some(true), deferred))
}
