//! `ALTER TABLE`: each operation makes a new schema of the table, which the next one starts from.
//!
//! Clauses and operations that do not run here were refused when the statement was parsed
//! (`thalweg_dialect::parse`).

use std::collections::BTreeSet;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::Schema;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, CastKind, ColumnDef, ColumnOption,
    DataType as SqlType, DropBehavior, Expr, Ident, RenameTableNameKind, TableConstraint,
};
use thalweg_dialect::walk;
use thalweg_store::codec;
use thalweg_txn::{CatalogChange, Object, Privilege, Referenced, Securable};
use thalweg_types::{
    Column, ColumnId, DataType, Error, Key, Result, SqlState, TableId, TableSchema,
};
use thalweg_values::types::{column_field, column_type, kept_digits};

use super::create::{
    add_check, add_foreign_key, add_primary_key, add_unique, check_names, column_of, key_names,
    set_default,
};
use super::dependents::{bind_views, drop_foreign_keys_over, drop_objects};
use super::found_rows::replace;
use super::rows::{compile, evaluate_default};
use super::target::QualifiedName;
use super::update::{Assignments, with_row_ids};
use super::{Execution, Target, ast_tools, folded, identity, owner, sequence};
use crate::outcome::{Notice, Outcome};
use crate::plan;

pub(super) async fn run(execution: &mut Execution<'_>, alter: &AlterTable) -> Result<Outcome> {
    let mut outcome = Outcome::command("ALTER TABLE");
    let catalog = execution.names.catalog();
    let name = QualifiedName::existing(&catalog, &alter.name)?;
    if alter.if_exists && catalog.object(&name.namespace, &name.name).is_none() {
        let notice = format!("relation \"{}\" does not exist, skipping", name.name);
        return Ok(outcome.with_notice(notice));
    }
    if let [AlterTableOperation::OwnerTo { new_owner }] = alter.operations.as_slice() {
        owner::of_relation(execution, &name, new_owner)?;
        return Ok(outcome);
    }
    if let other @ (Object::View(_) | Object::External(_) | Object::Sequence(_)) =
        name.find(&catalog)?
    {
        return Err(Error::unsupported(format!("ALTER TABLE on a {}", other.kind())));
    }
    let id = Target::find(&catalog, &alter.name)?.id();
    execution.names.rights().owns(&Securable::relation(&name.namespace, &name.name))?;
    bind_views(execution).await?;
    for operation in &alter.operations {
        outcome.notices.extend(drop_dependents(execution, id, operation)?);
        apply(execution, &current(execution, id)?, operation).await?;
    }
    Ok(outcome)
}

/// The table with the operations so far.
fn current(execution: &Execution<'_>, id: TableId) -> Result<Target> {
    let catalog = execution.names.catalog();
    let entry = catalog.table(id).ok_or_else(|| Error::internal("the table went away"))?;
    Ok(Target { entry: entry.clone() })
}

/// Drops the sequences that the columns of `DROP COLUMN` own, and with `CASCADE` what depends on
/// the columns.
fn drop_dependents(
    execution: &Execution<'_>,
    table: TableId,
    operation: &AlterTableOperation,
) -> Result<Option<Notice>> {
    let target = current(execution, table)?;
    if let AlterTableOperation::DropConstraint { name, drop_behavior, .. } = operation {
        let key = target.schema().constraints().find(|key| key.name == folded(name));
        let cascade = *drop_behavior == Some(DropBehavior::Cascade);
        let subject =
            |key: &Key| format!("constraint {} on table {}", key.name, target.schema().name);
        return match key {
            Some(key) => {
                drop_foreign_keys_over(execution, target.schema(), key, &subject(key), cascade)
            }
            None => Ok(None),
        };
    }
    let AlterTableOperation::DropColumn { column_names, drop_behavior, .. } = operation else {
        return Ok(None);
    };
    let found = column_names.iter().filter_map(|name| target.schema().column_named(&folded(name)));
    let columns = found.map(|(_, column)| Referenced::Column(table, column.id));
    let cascade = *drop_behavior == Some(DropBehavior::Cascade);
    drop_objects(execution, &columns.collect::<Vec<_>>(), cascade)
}

async fn apply(
    execution: &Execution<'_>,
    target: &Target,
    operation: &AlterTableOperation,
) -> Result<()> {
    let mut schema = target.schema().as_ref().clone();
    match operation {
        AlterTableOperation::AddColumn { column_def, if_not_exists, .. } => {
            let exists = schema.column_named(&folded(&column_def.name)).is_some();
            if exists && *if_not_exists {
                return Ok(());
            }
            return add_column(execution, schema, column_def).await;
        }
        AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
            for name in column_names {
                match target.position(&folded(name)) {
                    Err(_) if *if_exists => {}
                    position => drop_column(&mut schema, position?)?,
                }
            }
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let position = target.position(&folded(old_column_name))?;
            rename_column(&mut schema, position, &folded(new_column_name))?;
        }
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::To(name) | RenameTableNameKind::As(name)) = table_name;
            execution.names.rights().on_namespace(&schema.namespace, Privilege::Create)?;
            let name = QualifiedName::of(name)?.name;
            // The catalog finds the names of other relations.
            if name == schema.name {
                let message = format!("relation \"{name}\" already exists");
                return Err(Error::new(SqlState::DUPLICATE_TABLE, message));
            }
            schema.name = name;
        }
        AlterTableOperation::AlterColumn { column_name, op } => {
            let position = target.position(&folded(column_name))?;
            return alter_column(execution, target, schema, position, op).await;
        }
        AlterTableOperation::AddConstraint { constraint, not_valid } => {
            return add_constraint(execution, schema, constraint, *not_valid).await;
        }
        AlterTableOperation::ValidateConstraint { name } => {
            return validate_constraint(execution, schema, &folded(name));
        }
        AlterTableOperation::DropConstraint { name, if_exists, .. } => {
            drop_constraint(&mut schema, &folded(name), *if_exists)?;
        }
        other => return Err(Error::unsupported(format!("ALTER TABLE ... {other}"))),
    }
    change(execution, schema, None)
}

fn change(execution: &Execution<'_>, schema: TableSchema, added: Option<Vec<u8>>) -> Result<()> {
    check_names(&schema)?;
    let change = CatalogChange::AlterTable { schema, added, expected: None };
    execution.names.with(|t| t.change_catalog(change))
}

/// One row with the values of existing rows in new columns.
fn encoded(columns: Vec<(&Column, ArrayRef)>) -> Result<Vec<u8>> {
    let fields: Vec<_> = columns.iter().map(|(column, _)| column_field(column)).collect();
    let fields: Vec<_> = fields.into_iter().map(|field| field.with_nullable(true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let row = RecordBatch::try_new(std::sync::Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| Error::internal("a default does not fit").with_source(error))?;
    Ok(codec::encode_batch(&row))
}

async fn add_column(
    execution: &Execution<'_>,
    mut schema: TableSchema,
    definition: &ColumnDef,
) -> Result<()> {
    let id = ColumnId(schema.next_column_id);
    let (column, numbering) = column_of(definition, id, execution)?;
    let (table, checked) = (schema.id, schema.checks.len());
    let checked_keys = schema.foreign_keys.len();
    schema.next_column_id += 1;
    schema.columns.push(column);
    check_names(&schema)?;
    if let Some(numbering) = numbering {
        numbering.create(execution, &mut schema, id)?;
    }
    let column = schema.columns[schema.columns.len() - 1].clone();
    let (value, each_row) = default_value(execution, &column)?;
    let nulls = !column.nullable && value.is_null(0) && !each_row;
    if nulls {
        let target = current(execution, table)?;
        if any_row(execution, &target, "true").await? {
            return Err(nulls_in(&column.name, &schema));
        }
    }
    for option in &definition.options {
        let given = option.name.as_ref().map(folded);
        let name = column.name.clone();
        match &option.option {
            ColumnOption::PrimaryKey(_) => add_primary_key(&mut schema, given, &[name])?,
            ColumnOption::Unique(_) => add_unique(&mut schema, given, &[name])?,
            ColumnOption::Check(check) => {
                add_check(&mut schema, execution, given, &check.expr)?;
            }
            ColumnOption::ForeignKey(key) => {
                add_foreign_key(&mut schema, execution, given, Some(&name), key)?;
            }
            _ => {}
        }
    }
    let added = encoded(vec![(&column, value)])?;
    change(execution, schema, Some(added))?;
    if each_row {
        let default = column.default.as_deref().unwrap_or("NULL");
        let target = current(execution, table)?;
        let assigned = Assignments::one(&target, &column.name, ast_tools::expression(default)?)?;
        rewrite(execution, &target, &assigned).await?;
    }
    verify_foreign_keys(execution, table, checked_keys)?;
    verify_checks(execution, table, checked).await
}

/// The value that existing rows get, and true if each of them must get one of its own.
fn default_value(execution: &Execution<'_>, column: &Column) -> Result<(ArrayRef, bool)> {
    let null = || new_null_array(column_field(column).data_type(), 1);
    let Some(text) = &column.default else { return Ok((null(), false)) };
    let nothing = DFSchema::empty();
    let logical = execution.translate(execution.state.create_logical_expr(text, &nothing))?;
    if logical.is_volatile() {
        return Ok((null(), true));
    }
    let expression = compile(&execution.state, text, &nothing)?;
    Ok((evaluate_default(&expression, column, 1)?, false))
}

/// Gives every row new values.
async fn rewrite(
    execution: &Execution<'_>,
    target: &Target,
    assignments: &Assignments,
) -> Result<()> {
    let batches = read(execution, target, assignments).await?;
    replace(execution, target, batches).await.map(drop)
}

async fn read(
    execution: &Execution<'_>,
    target: &Target,
    assignments: &Assignments,
) -> Result<Vec<RecordBatch>> {
    rely_on(execution, target.id())?;
    let alias = Ident::with_quote('"', target.schema().name.as_str());
    let from = vec![with_row_ids(target, &alias)];
    let query = ast_tools::select(assignments.projection(target, &alias), from, None);
    let planned = execution.translate(plan::query(&execution.state, query).await)?;
    Ok(plan::collect(&execution.state, planned, execution.sql).await?.1)
}

fn drop_column(schema: &mut TableSchema, position: usize) -> Result<()> {
    if schema.columns.len() == 1 {
        return Err(Error::unsupported("dropping a table's only column"));
    }
    let column = schema.columns.remove(position);
    let of_column = |key: &thalweg_types::Key| key.columns.contains(&column.id);
    if schema.primary_key.as_ref().is_some_and(of_column) {
        schema.primary_key = None;
    }
    schema.unique.retain(|key| !of_column(key));
    schema.indexes.retain(|index| !of_column(&index.key));
    let id = schema.id;
    schema.foreign_keys.retain(|key| {
        let refers = key.parent == id && key.parent_columns.contains(&column.id);
        !key.columns.contains(&column.id) && !refers
    });
    let mut kept = Vec::with_capacity(schema.checks.len());
    for check in schema.checks.drain(..) {
        if !names_in(&check.expression)?.contains(&column.name) {
            kept.push(check);
        }
    }
    schema.checks = kept;
    if schema.shard_key == Some(column.id) {
        schema.shard_key = schema.primary_key.as_ref().map(|key| key.columns[0]);
    }
    Ok(())
}

/// The columns that a stored expression names.
fn names_in(expression: &str) -> Result<BTreeSet<String>> {
    let expression = ast_tools::expression(expression)?;
    let mut names = BTreeSet::new();
    let _ = walk::visit_expressions(&expression, |expr| {
        match expr {
            Expr::Identifier(ident) => {
                names.insert(folded(ident));
            }
            Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(folded)),
            _ => {}
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    Ok(names)
}

fn rename_column(schema: &mut TableSchema, position: usize, new: &str) -> Result<()> {
    let old = std::mem::replace(&mut schema.columns[position].name, new.to_owned());
    for check in &mut schema.checks {
        let mut expression = ast_tools::expression(&check.expression)?;
        let _ = walk::visit_expressions_mut(&mut expression, |expr| {
            let last = match expr {
                Expr::Identifier(ident) => Some(ident),
                Expr::CompoundIdentifier(parts) => parts.last_mut(),
                _ => None,
            };
            if let Some(ident) = last.filter(|ident| folded(ident) == old) {
                *ident = Ident::with_quote('"', new);
            }
            std::ops::ControlFlow::<()>::Continue(())
        });
        check.expression = expression.to_string();
    }
    Ok(())
}

async fn alter_column(
    execution: &Execution<'_>,
    target: &Target,
    mut schema: TableSchema,
    position: usize,
    operation: &AlterColumnOperation,
) -> Result<()> {
    refuse_of_identity(&schema, position, operation)?;
    let column = &mut schema.columns[position];
    match operation {
        AlterColumnOperation::SetNotNull => {
            column.nullable = false;
            let condition = format!("{} IS NULL", quoted(&column.name));
            let name = column.name.clone();
            if any_row(execution, target, &condition).await? {
                return Err(nulls_in(&name, &schema));
            }
        }
        AlterColumnOperation::DropNotNull => {
            let id = column.id;
            if schema.primary_key.as_ref().is_some_and(|key| key.columns.contains(&id)) {
                let name = &schema.columns[position].name;
                let message = format!("column \"{name}\" is in a primary key");
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            schema.columns[position].nullable = true;
        }
        AlterColumnOperation::SetDefault { value } => set_default(column, value, execution)?,
        AlterColumnOperation::DropDefault => column.default = None,
        AlterColumnOperation::SetDataType { data_type, using, .. } => {
            return set_type(execution, target, schema, position, data_type, using.as_ref()).await;
        }
        AlterColumnOperation::AddGenerated { .. } => {
            return Err(Error::internal("identity is altered by statements of its own"));
        }
    }
    change(execution, schema, None)
}

/// # Errors
/// If the column is an identity column, which has no default and allows no NULL.
fn refuse_of_identity(
    schema: &TableSchema,
    position: usize,
    operation: &AlterColumnOperation,
) -> Result<()> {
    let column = &schema.columns[position];
    if column.identity.is_none() {
        return Ok(());
    }
    match operation {
        AlterColumnOperation::DropDefault => Err(identity::is_identity(schema, column)
            .with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")),
        AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropNotNull => {
            Err(identity::is_identity(schema, column))
        }
        _ => Ok(()),
    }
}

/// True if values of the old type convert to the new type without an explicit cast.
fn is_automatic(old: &DataType, new: &DataType) -> bool {
    use DataType::{Array, Date, Interval, Json, Jsonb, Text, Time, Timestamp, Timestamptz};
    match (old, new) {
        (_, Text { .. }) => true,
        (Array(old), Array(new)) => is_automatic(old, new),
        (Date | Timestamp | Timestamptz, Date | Timestamp | Timestamptz)
        | (Timestamp | Timestamptz | Interval, Time)
        | (Time, Interval)
        | (Json | Jsonb, Json | Jsonb) => true,
        (old, new) if is_number(old) => is_number(new),
        (old, new) => old == new,
    }
}

fn is_number(data_type: &DataType) -> bool {
    use DataType::{Decimal, Float4, Float8, Int2, Int4, Int8};
    matches!(data_type, Int2 | Int4 | Int8 | Float4 | Float8 | Decimal { .. })
}

/// Changes a column's type. The column gets a new identity: the old values are cast and every row
/// is replaced.
async fn set_type(
    execution: &Execution<'_>,
    target: &Target,
    mut schema: TableSchema,
    position: usize,
    data_type: &SqlType,
    using: Option<&Expr>,
) -> Result<()> {
    let (old, name) = (schema.columns[position].id, schema.columns[position].name.clone());
    let column = Expr::Identifier(Ident::with_quote('"', name.as_str()));
    let cast = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(column.clone()),
        data_type: data_type.clone(),
        array: false,
        format: None,
    };
    let (new, digits) = (column_type(data_type)?, kept_digits(data_type)?);
    if using.is_none() && !is_automatic(&schema.columns[position].data_type, &new) {
        let message = format!("column \"{name}\" cannot be cast automatically to type {new}");
        let hint = format!("You might need to specify \"USING {name}::{new}\".");
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, message).with_hint(hint));
    }
    let catalog = execution.names.catalog();
    catalog.refuse_other_type(target.schema(), &schema.columns[position])?;
    let referring = schema.foreign_keys.iter().any(|key| key.columns.contains(&old));
    let referenced =
        catalog.references_to(schema.id).any(|(_, key)| key.parent_columns.contains(&old));
    if referring || referenced {
        let message = format!("changing the type of column \"{name}\", which a foreign key uses,");
        return Err(Error::unsupported(message)
            .with_hint("Drop the foreign key, change the type, and add the foreign key again."));
    }
    // A cast would truncate texts that are too long; an assignment refuses them.
    let value = match (using, &new) {
        (Some(using), _) => using.clone(),
        (None, DataType::Text { max_chars: Some(_) }) => column,
        (None, _) => cast,
    };
    let assigned = Assignments::one(target, &name, value)?;
    let rows = read(execution, target, &assigned).await?;

    let id = ColumnId(schema.next_column_id);
    schema.next_column_id += 1;
    schema.columns[position].id = id;
    schema.columns[position].data_type = new;
    schema.columns[position].second_digits = digits;
    let renumber = |columns: &mut Vec<ColumnId>| {
        columns.iter_mut().filter(|column| **column == old).for_each(|column| *column = id);
    };
    // Keys are set after the rows have their new values; before, the columns contain NULLs.
    schema.primary_key.iter_mut().for_each(|key| renumber(&mut key.columns));
    schema.unique.iter_mut().for_each(|key| renumber(&mut key.columns));
    schema.indexes.iter_mut().for_each(|index| renumber(&mut index.key.columns));
    if schema.shard_key == Some(old) {
        schema.shard_key = Some(id);
    }
    let column = schema.columns[position].clone();
    let null = new_null_array(column_field(&column).data_type(), 1);
    change(execution, schema, Some(encoded(vec![(&column, null)])?))?;
    let target = current(execution, target.id())?;
    sequence::reown(execution, target.id(), (old, id))?;
    replace(execution, &target, rows).await.map(drop)
}

async fn add_constraint(
    execution: &Execution<'_>,
    mut schema: TableSchema,
    constraint: &TableConstraint,
    not_valid: bool,
) -> Result<()> {
    let (id, checked) = (schema.id, schema.checks.len());
    let mut checked_keys = schema.foreign_keys.len();
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            let columns = key_names(&key.columns)?;
            add_primary_key(&mut schema, key.name.as_ref().map(folded), &columns)?;
            let target = current(execution, id)?;
            for name in &columns {
                let condition = format!("{} IS NULL", quoted(name));
                if any_row(execution, &target, &condition).await? {
                    return Err(nulls_in(name, &schema));
                }
            }
            if schema.shard_key.is_none() {
                schema.shard_key = schema.primary_key.as_ref().map(|key| key.columns[0]);
            }
        }
        TableConstraint::Unique(key) => {
            let columns = key_names(&key.columns)?;
            add_unique(&mut schema, key.name.as_ref().map(folded), &columns)?;
        }
        TableConstraint::Check(check) => {
            let name = check.name.as_ref().map(folded);
            add_check(&mut schema, execution, name, &check.expr)?;
        }
        TableConstraint::ForeignKey(key) => {
            let given = key.name.as_ref().map(folded);
            add_foreign_key(&mut schema, execution, given, None, key)?;
            if not_valid {
                schema.foreign_keys.last_mut().into_iter().for_each(|key| key.unvalidated = true);
                checked_keys += 1;
            }
        }
        other => return Err(Error::unsupported(format!("the constraint {other}"))),
    }
    change(execution, schema, None)?;
    verify_foreign_keys(execution, id, checked_keys)?;
    verify_checks(execution, id, checked).await
}

/// Checks that existing rows satisfy every foreign key after the first `checked` ones.
fn verify_foreign_keys(execution: &Execution<'_>, id: TableId, checked: usize) -> Result<()> {
    let target = current(execution, id)?;
    for key in &target.schema().foreign_keys[checked..] {
        rely_on(execution, id)?;
        rely_on(execution, key.parent)?;
        let check = || execution.check_cancelled();
        execution.names.with(|t| t.check_all_references(id, key, &check))?;
    }
    Ok(())
}

/// `VALIDATE CONSTRAINT`: checks the rows that existed before a constraint that was `NOT VALID`.
fn validate_constraint(
    execution: &Execution<'_>,
    mut schema: TableSchema,
    name: &str,
) -> Result<()> {
    let is_check = schema.checks.iter().any(|check| check.name == name);
    let position = schema.foreign_keys.iter().position(|key| key.name == name);
    let Some(position) = position else {
        let (state, what) = match (is_check, schema.constraints().any(|key| key.name == name)) {
            (true, _) => return Ok(()),
            (false, true) => {
                (SqlState::WRONG_OBJECT_TYPE, "is not a foreign key or check constraint")
            }
            (false, false) => (SqlState::UNDEFINED_OBJECT, "does not exist"),
        };
        let message = format!("constraint \"{name}\" of relation \"{}\" {what}", schema.name);
        return Err(Error::new(state, message));
    };
    if !std::mem::take(&mut schema.foreign_keys[position].unvalidated) {
        return Ok(());
    }
    let (id, key) = (schema.id, schema.foreign_keys[position].clone());
    change(execution, schema, None)?;
    rely_on(execution, id)?;
    rely_on(execution, key.parent)?;
    let check = || execution.check_cancelled();
    execution.names.with(|t| t.check_all_references(id, &key, &check))
}

fn drop_constraint(schema: &mut TableSchema, name: &str, if_exists: bool) -> Result<()> {
    let count = |schema: &TableSchema| {
        schema.unique.len() + schema.checks.len() + schema.foreign_keys.len()
    };
    let before = count(schema);
    schema.unique.retain(|key| key.name != name);
    schema.checks.retain(|check| check.name != name);
    schema.foreign_keys.retain(|key| key.name != name);
    let mut found = count(schema) < before;
    if schema.primary_key.as_ref().is_some_and(|key| key.name == name) {
        schema.primary_key = None;
        found = true;
    }
    if found || if_exists {
        return Ok(());
    }
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", schema.name);
    Err(Error::new(SqlState::UNDEFINED_OBJECT, message))
}

/// Checks that existing rows satisfy every check constraint after the first `checked` ones, which
/// they satisfied before.
async fn verify_checks(execution: &Execution<'_>, id: TableId, checked: usize) -> Result<()> {
    let target = current(execution, id)?;
    for check in &target.schema().checks[checked..] {
        let broken = format!("NOT ({})", check.expression);
        if any_row(execution, &target, &broken).await? {
            let (name, table) = (&check.name, &target.schema().name);
            let message = format!(
                "check constraint \"{name}\" of relation \"{table}\" is violated by some row"
            );
            let error = Error::new(SqlState::CHECK_VIOLATION, message);
            return Err(error.with_constraint(target.schema(), name));
        }
    }
    Ok(())
}

/// Records that the statement relies on the table's current rows. If others change them before the
/// transaction commits, the commit fails.
fn rely_on(execution: &Execution<'_>, id: TableId) -> Result<()> {
    execution.names.with(|t| {
        t.rely_on(id);
        Ok(())
    })
}

async fn any_row(execution: &Execution<'_>, target: &Target, condition: &str) -> Result<bool> {
    rely_on(execution, target.id())?;
    let (namespace, name) = (&target.schema().namespace, &target.schema().name);
    let text =
        format!("SELECT 1 FROM {}.{} WHERE {condition} LIMIT 1", quoted(namespace), quoted(name));
    let planned = execution.translate(plan::query_text(&execution.state, &text).await)?;
    let (_, batches) = plan::collect(&execution.state, planned, &text).await?;
    Ok(batches.iter().any(|batch| batch.num_rows() > 0))
}

fn quoted(name: &str) -> String {
    Ident::with_quote('"', name).to_string()
}

fn nulls_in(column: &str, table: &TableSchema) -> Error {
    let message =
        format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
    Error::new(SqlState::NOT_NULL_VIOLATION, message).with_column(table, column)
}
