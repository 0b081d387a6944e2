//! Turns a `CREATE TABLE` statement into a table schema.

use std::collections::BTreeSet;

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::ExprSchemable;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableLike, CreateTableLikeDefaults,
    CreateTableLikeKind, CreateTableOptions, Expr, ForeignKeyConstraint, IndexColumn, SqlOption,
    TableConstraint, Value,
};
use thalweg_dialect::parse::identity_option;
use thalweg_store::arrow_schema;
use thalweg_txn::Privilege;
use thalweg_types::{
    Check, Column, ColumnId, DataType, Error, Key, Result, SqlState, TableId, TableSchema,
};
use thalweg_values::types::{column_type, kept_digits};

use super::super::identity::Numbering;
use super::super::rows::{compile, evaluate_default};
use super::super::sequence::{takes_numbers, with_numbers};
use super::super::{Execution, Target, folded, storage_parameters, stored_moments};
use super::check_names;
use super::foreign_key::{add_foreign_key, constraint_exists};
use crate::statement::target::QualifiedName;
use crate::temporary_objects::new_id;

/// Columns and constraints by name, before ids are assigned.
pub(in crate::statement) struct Definition {
    pub(in crate::statement) columns: Vec<Column>,
    /// The numbers of columns, whose sequences are created with the table.
    numberings: Vec<(ColumnId, Numbering)>,
    primary_key: Option<(Option<String>, Vec<String>)>,
    unique: Vec<(Option<String>, Vec<String>)>,
    checks: Vec<(Option<String>, Expr)>,
    /// Foreign keys with their names, and the column of each that was written with a column.
    foreign_keys: Vec<(Option<String>, Option<String>, ForeignKeyConstraint)>,
    shard_key: Option<String>,
    /// The notices about parameters that have no effect.
    notices: Vec<String>,
}

pub(super) fn reject_unsupported(create: &CreateTable) -> Result<()> {
    let what = if create.inherits.is_some() {
        "INHERITS"
    } else if create.partition_by.is_some() || create.partition_of.is_some() {
        "PARTITION BY"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(what))
}

/// The columns of another table, without their identity; with defaults if asked for.
fn columns_like(like: &CreateTableLike, execution: &Execution<'_>) -> Result<Vec<Column>> {
    let model = Target::find(&execution.names.catalog(), &like.name)?;
    model.require(execution, Privilege::Select)?;
    let with_defaults = matches!(like.defaults, Some(CreateTableLikeDefaults::Including));
    let columns = model.schema().columns.iter().enumerate();
    let columns = columns.map(|(index, column)| Column {
        id: ColumnId(index as u32),
        default: column.declared_default().cloned().filter(|_| with_defaults),
        identity: None,
        ..column.clone()
    });
    Ok(columns.collect())
}

impl Definition {
    pub(in crate::statement) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    pub(in crate::statement) fn of(
        create: &CreateTable,
        execution: &Execution<'_>,
    ) -> Result<Definition> {
        let (shard_key, notices) = parameters(&create.table_options)?;
        let mut definition = Definition {
            columns: Vec::new(),
            numberings: Vec::new(),
            primary_key: None,
            unique: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            shard_key,
            notices,
        };
        if let Some(CreateTableLikeKind::Parenthesized(like) | CreateTableLikeKind::Plain(like)) =
            &create.like
        {
            definition.columns = columns_like(like, execution)?;
        } else if create.query.is_none() {
            for (index, column) in create.columns.iter().enumerate() {
                let id = ColumnId(index as u32);
                let (column, numbering) = column_of(column, id, execution)?;
                definition.columns.push(column);
                definition.numberings.extend(numbering.map(|numbering| (id, numbering)));
            }
        }
        for column in &create.columns {
            definition.column_constraints(column)?;
        }
        for constraint in &create.constraints {
            definition.constraint(constraint)?;
        }
        Ok(definition)
    }

    fn column_constraints(&mut self, column: &ColumnDef) -> Result<()> {
        let name = folded(&column.name);
        for option in &column.options {
            let given = option.name.as_ref().map(folded);
            match &option.option {
                ColumnOption::PrimaryKey(_) => self.set_primary(given, vec![name.clone()])?,
                ColumnOption::Unique(_) => self.unique.push((given, vec![name.clone()])),
                ColumnOption::Check(check) => {
                    self.checks.push((given, check.expr.as_ref().clone()));
                }
                ColumnOption::ForeignKey(key) => {
                    self.foreign_keys.push((given, Some(name.clone()), key.clone()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn constraint(&mut self, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                self.set_primary(key.name.as_ref().map(folded), names(&key.columns)?)
            }
            TableConstraint::Unique(key) => {
                self.unique.push((key.name.as_ref().map(folded), names(&key.columns)?));
                Ok(())
            }
            TableConstraint::Check(check) => {
                let name = check.name.as_ref().map(folded);
                self.checks.push((name, check.expr.as_ref().clone()));
                Ok(())
            }
            TableConstraint::ForeignKey(key) => {
                self.foreign_keys.push((key.name.as_ref().map(folded), None, key.clone()));
                Ok(())
            }
            other => Err(Error::unsupported(format!("the constraint {other}"))),
        }
    }

    fn set_primary(&mut self, name: Option<String>, columns: Vec<String>) -> Result<()> {
        if self.primary_key.replace((name, columns)).is_some() {
            let message = "multiple primary keys for a table are not allowed";
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        Ok(())
    }

    /// Assigns ids, names and positions.
    pub(in crate::statement) fn build(
        self,
        name: &QualifiedName,
        execution: &Execution<'_>,
    ) -> Result<TableSchema> {
        let id = new_id(execution, &name.namespace)?;
        let mut schema = TableSchema {
            id,
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            next_column_id: self.columns.len() as u32,
            columns: self.columns,
            primary_key: None,
            unique: Vec::new(),
            checks: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            shard_key: None,
        };
        check_names(&schema)?;
        // PostgreSQL names checks before keys, so that a check may have the usual name of a key.
        for (given, expression) in self.checks {
            add_check(&mut schema, execution, given, &expression)?;
        }
        if let Some((given, columns)) = self.primary_key {
            add_primary_key(&mut schema, given, &columns)?;
        }
        for (given, columns) in self.unique {
            add_unique(&mut schema, given, &columns)?;
        }
        for (given, column, key) in self.foreign_keys {
            add_foreign_key(&mut schema, execution, given, column.as_deref(), &key)?;
        }
        schema.shard_key = shard_column(&schema, self.shard_key.as_deref())?;
        for (column, numbering) in self.numberings {
            numbering.create(execution, &mut schema, column)?;
        }
        debug_assert_ne!(schema.id, TableId(0));
        Ok(schema)
    }
}

/// A column without its constraints, and its numbers.
pub(in crate::statement) fn column_of(
    definition: &ColumnDef,
    id: ColumnId,
    execution: &Execution<'_>,
) -> Result<(Column, Option<Numbering>)> {
    let name = folded(&definition.name);
    let data_type = column_type(&definition.data_type)?;
    let mut column = Column {
        id,
        name,
        data_type,
        nullable: true,
        default: None,
        identity: None,
        second_digits: kept_digits(&definition.data_type)?,
    };
    for option in &definition.options {
        match &option.option {
            ColumnOption::NotNull => column.nullable = false,
            ColumnOption::Null
            | ColumnOption::PrimaryKey(_)
            | ColumnOption::Unique(_)
            | ColumnOption::Check(_)
            | ColumnOption::Collation(_)
            | ColumnOption::ForeignKey(_)
            | ColumnOption::Comment(_) => {}
            ColumnOption::Default(expression) => set_default(&mut column, expression, execution)?,
            option if identity_option(option).is_some() => {}
            other => return Err(Error::unsupported(format!("the column option {other}"))),
        }
    }
    let numbering = Numbering::of(definition)?;
    if let Some(numbering) = &numbering {
        numbering.apply(&mut column, &definition.options)?;
    }
    Ok((column, numbering))
}

/// Stores the text of a default, after a check that it can be evaluated.
pub(in crate::statement) fn set_default(
    column: &mut Column,
    expression: &Expr,
    execution: &Execution<'_>,
) -> Result<()> {
    if column.data_type == DataType::Timestamptz {
        stored_moments::check_definition(expression)?;
    }
    let text = with_numbers(&execution.names.catalog(), expression)?.to_string();
    let logical =
        execution.translate(execution.state.create_logical_expr(&text, &DFSchema::empty()));
    let logical = logical.map_err(|error| match error.state() {
        SqlState::UNDEFINED_COLUMN => Error::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "cannot use column reference in DEFAULT expression",
        ),
        _ => error,
    })?;
    let compiled = compile(&execution.state, &text, &DFSchema::empty())?;
    // A default that does not fit its column is refused now, not at the first insert. A number of a
    // sequence is not taken for that.
    if !takes_numbers(&logical)? {
        evaluate_default(&compiled, column, 1)?;
    }
    column.default = Some(text);
    Ok(())
}

pub(in crate::statement) fn add_primary_key(
    schema: &mut TableSchema,
    given: Option<String>,
    columns: &[String],
) -> Result<()> {
    if schema.primary_key.is_some() {
        let message =
            format!("multiple primary keys for table \"{}\" are not allowed", schema.name);
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    let name = given.unwrap_or_else(|| format!("{}_pkey", schema.name));
    require_free_name(schema, &name)?;
    let ids = column_ids(schema, columns)?;
    for column in &mut schema.columns {
        column.nullable &= !ids.contains(&column.id);
    }
    schema.primary_key = Some(Key { name, columns: ids });
    Ok(())
}

/// Refuses the name of another constraint. An index of the name is reported when the table is
/// created or altered.
fn require_free_name(schema: &TableSchema, name: &str) -> Result<()> {
    let is_index = schema.index_names().any(|known| known == name);
    match !is_index && schema.has_constraint(name) {
        true => Err(constraint_exists(name, &schema.name)),
        false => Ok(()),
    }
}

pub(in crate::statement) fn add_unique(
    schema: &mut TableSchema,
    given: Option<String>,
    columns: &[String],
) -> Result<()> {
    let base = format!("{}_{}_key", schema.name, columns.join("_"));
    let taken =
        |name: &str| schema.has_constraint(name) || schema.index_names().any(|known| known == name);
    let name = given.unwrap_or_else(|| free_name(base, taken));
    require_free_name(schema, &name)?;
    let columns = column_ids(schema, columns)?;
    schema.unique.push(Key { name, columns });
    Ok(())
}

pub(in crate::statement) fn add_check(
    schema: &mut TableSchema,
    execution: &Execution<'_>,
    given: Option<String>,
    expression: &Expr,
) -> Result<()> {
    let taken = |name: &str| schema.has_constraint(name);
    if let Some(name) = given.as_ref().filter(|name| taken(name)) {
        return Err(constraint_exists(name, &schema.name));
    }
    if schema.columns.iter().any(|column| column.data_type == DataType::Timestamptz) {
        stored_moments::check_definition(expression)?;
    }
    // PostgreSQL shows a check without the parentheses around it that have no meaning.
    let mut expression = expression;
    while let Expr::Nested(inner) = expression {
        expression = inner;
    }
    let text = expression.to_string();
    let whole = execution.translate(DFSchema::try_from(arrow_schema(schema)))?;
    let logical = execution.translate(execution.state.create_logical_expr(&text, &whole))?;
    let data_type = execution.translate(logical.get_type(&whole))?;
    if !matches!(data_type, ArrowType::Boolean | ArrowType::Null) {
        let message = "argument of CHECK must be type boolean";
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, message));
    }
    compile(&execution.state, &text, &whole)?;
    // A check of one column is named after it, wherever it is written.
    let columns: BTreeSet<&str> =
        logical.column_refs().into_iter().map(|column| column.name.as_str()).collect();
    let base = match columns.first().filter(|_| columns.len() == 1) {
        Some(column) => format!("{}_{column}_check", schema.name),
        None => format!("{}_check", schema.name),
    };
    let name = given.unwrap_or_else(|| free_name(base, taken));
    schema.checks.push(Check { name, expression: text });
    Ok(())
}

/// `base`, or `base1`, `base2`, … where that is taken.
pub(in crate::statement) fn free_name(base: String, taken: impl Fn(&str) -> bool) -> String {
    let numbered = (1..).map(|number| format!("{base}{number}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    names.find(|name| !taken(name)).expect("numbers do not run out")
}

fn column_ids(schema: &TableSchema, names: &[String]) -> Result<Vec<ColumnId>> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        let (_, column) = schema.column_named(name).ok_or_else(|| {
            let message = format!("column \"{name}\" named in key does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if matches!(column.data_type, DataType::Array(_)) {
            return Err(Error::unsupported("an array as part of a key"));
        }
        if ids.contains(&column.id) {
            let message = format!("column \"{name}\" appears twice in a key");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        ids.push(column.id);
    }
    Ok(ids)
}

pub(in crate::statement) fn names(columns: &[IndexColumn]) -> Result<Vec<String>> {
    columns
        .iter()
        .map(|column| match &column.column.expr {
            Expr::Identifier(ident) => Ok(folded(ident)),
            other => Err(Error::unsupported(format!("the expression {other} in a key"))),
        })
        .collect()
}

/// `WITH (shard_key = 'column', fillfactor = 70)`: the shard key, and the notices about the others.
fn parameters(options: &CreateTableOptions) -> Result<(Option<String>, Vec<String>)> {
    let (CreateTableOptions::With(options)
    | CreateTableOptions::Options(options)
    | CreateTableOptions::Plain(options)
    | CreateTableOptions::TableProperties(options)) = options
    else {
        return Ok((None, Vec::new()));
    };
    let (mut shard_key, mut notices) = (None, Vec::new());
    for option in options {
        match option {
            SqlOption::KeyValue { key, value } if folded(key) == "shard_key" => {
                shard_key = Some(option_name(value)?);
            }
            SqlOption::KeyValue { key, value } if storage_parameters::is_of_table(&folded(key)) => {
                storage_parameters::check(&folded(key), value)?;
                notices.push(storage_parameters::notice(&folded(key)));
            }
            other => {
                let message = format!("unrecognized parameter in {other}");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("The parameters of a table are: shard_key."));
            }
        }
    }
    Ok((shard_key, notices))
}

fn option_name(value: &Expr) -> Result<String> {
    match value {
        Expr::Identifier(ident) => Ok(folded(ident)),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) | Value::DoubleQuotedString(name) => Ok(name.clone()),
            _ => Err(not_a_column(value)),
        },
        other => Err(not_a_column(other)),
    }
}

fn not_a_column(value: &dyn std::fmt::Display) -> Error {
    let message = format!("shard_key must be the name of a column, not {value}");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn shard_column(schema: &TableSchema, wanted: Option<&str>) -> Result<Option<ColumnId>> {
    let Some(name) = wanted else {
        return Ok(schema.primary_key.as_ref().map(|key| key.columns[0]));
    };
    let (_, column) = schema.column_named(name).ok_or_else(|| {
        let message = format!("column \"{name}\" named as shard_key does not exist");
        Error::new(SqlState::UNDEFINED_COLUMN, message)
    })?;
    if let Some(key) = schema.keys().find(|key| !key.columns.contains(&column.id)) {
        let message = format!("shard_key \"{name}\" is not part of the key \"{}\"", key.name);
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message).with_hint(
            "Rows with equal keys must meet on one shard: choose a column of the key.",
        ));
    }
    Ok(Some(column.id))
}
