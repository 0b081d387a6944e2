//! The sequences that number `serial` and identity columns, and `ALTER COLUMN` about identity.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterTable, ColumnDef, ColumnOption, ColumnOptionDef, GeneratedAs, Ident,
};
use thalweg_dialect::parse::{
    IdentityChange, SequenceClause, altered_identity, identity_option, redundant_options,
};
use thalweg_txn::{
    Catalog, CatalogChange, Object, Position, Securable, Sequence, SequenceCounter, name_taken,
};
use thalweg_types::{Column, ColumnId, DataType, Error, Identity, Result, SqlState, TableSchema};
use thalweg_values::types::is_serial;

use super::sequence::{Clauses, altered, define};
use super::target::QualifiedName;
use super::{Execution, Target, folded};
use crate::outcome::Outcome;
use crate::privileges;
use crate::sequences::{default_of_sequence, identity_sequence};
use crate::temporary_objects::new_id;

/// Maximum length of an identifier, in bytes, as in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

/// The numbers of a new column.
pub(in crate::statement) struct Numbering {
    /// `None` for `serial`.
    identity: Option<Identity>,
    clauses: Vec<SequenceClause>,
}

impl Numbering {
    /// The numbers that a column's definition asks for.
    ///
    /// # Errors
    /// If it asks for them twice.
    pub(in crate::statement) fn of(definition: &ColumnDef) -> Result<Option<Numbering>> {
        let serial = is_serial(&definition.data_type);
        let mut numbering = serial.then(|| Numbering { identity: None, clauses: Vec::new() });
        for option in &definition.options {
            let Some(identity) = identity_option(&option.option) else { continue };
            let (generated_as, clauses) = identity?;
            if let Some(numbering) = &numbering {
                let what = match numbering.identity {
                    None => "both default and identity",
                    Some(_) => "multiple identity",
                };
                let name = folded(&definition.name);
                let message = format!("{what} specified for column \"{name}\"");
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            }
            numbering = Some(Numbering { identity: Some(identity_of(generated_as)), clauses });
        }
        Ok(numbering)
    }

    /// Marks the column as numbered.
    ///
    /// # Errors
    /// If the column has another default, or allows NULL, or is no integer.
    pub(in crate::statement) fn apply(
        &self,
        column: &mut Column,
        options: &[ColumnOptionDef],
    ) -> Result<()> {
        if column.default.is_some() {
            let name = &column.name;
            let message = match self.identity {
                None => format!("multiple default values specified for column \"{name}\""),
                Some(_) => format!("both default and identity specified for column \"{name}\""),
            };
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        if options.iter().any(|option| matches!(option.option, ColumnOption::Null)) {
            let message =
                format!("conflicting NULL/NOT NULL declarations for column \"{}\"", column.name);
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        }
        integer(&column.data_type)?;
        column.identity = self.identity;
        column.nullable = false;
        Ok(())
    }

    /// Creates the sequence of a column. The table need not exist yet.
    ///
    /// # Errors
    /// If the options contradict each other.
    pub(in crate::statement) fn create(
        self,
        execution: &Execution<'_>,
        schema: &mut TableSchema,
        column: ColumnId,
    ) -> Result<()> {
        create(execution, schema, column, self.clauses)
    }
}

fn identity_of(generated_as: GeneratedAs) -> Identity {
    match generated_as {
        GeneratedAs::Always => Identity::Always,
        _ => Identity::ByDefault,
    }
}

/// The type of an identity column.
///
/// # Errors
/// 22023 if it is no integer.
pub(super) fn integer(data_type: &DataType) -> Result<DataType> {
    match data_type {
        DataType::Int2 | DataType::Int4 | DataType::Int8 => Ok(data_type.clone()),
        _ => {
            let message = "identity column type must be smallint, integer, or bigint";
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// Creates a sequence for a column, whose default takes its next number.
fn create(
    execution: &Execution<'_>,
    schema: &mut TableSchema,
    column: ColumnId,
    clauses: Vec<SequenceClause>,
) -> Result<()> {
    let position = schema.position(column).expect("the column is one of the table's");
    let mut clauses = Clauses::of(clauses)?;
    if clauses.data_type.is_some() || clauses.owned_by.is_some() {
        return Err(redundant_options());
    }
    clauses.data_type = Some(schema.columns[position].data_type.clone());
    let (options, start) = clauses.created()?;
    let catalog = execution.names.catalog();
    let name = match &clauses.name {
        None => QualifiedName {
            namespace: schema.namespace.clone(),
            name: free_name(&catalog, schema, &schema.columns[position].name),
        },
        Some(name) => {
            let mut chosen = QualifiedName::of(name)?;
            if name.0.len() == 1 {
                chosen.namespace.clone_from(&schema.namespace);
            }
            if chosen.namespace != schema.namespace {
                let message = "sequence must be in same schema as table it is linked to";
                return Err(Error::new(SqlState::OBJECT_NOT_IN_STATE, message));
            }
            if is_taken(&catalog, schema, &chosen.name) {
                return Err(name_taken(&chosen.name));
            }
            chosen
        }
    };
    let id = new_id(execution, &schema.namespace)?;
    let sequence = Sequence {
        id,
        options,
        owned_by: Some((schema.id, column)),
        counter: Arc::new(SequenceCounter::new(start)),
    };
    schema.columns[position].default = Some(default_of_sequence(id));
    privileges::create(execution.names, define(&name, sequence, false))
}

/// `table_column_seq`, shortened to the length of an identifier, with a number behind it if that
/// is taken.
fn free_name(catalog: &Catalog, schema: &TableSchema, column: &str) -> String {
    let labels = std::iter::once("seq".to_owned()).chain((1..).map(|n| format!("seq{n}")));
    let mut names = labels.map(|label| shortened(&schema.name, column, &label));
    names.find(|name| !is_taken(catalog, schema, name)).expect("numbers do not run out")
}

fn is_taken(catalog: &Catalog, schema: &TableSchema, name: &str) -> bool {
    catalog.object(&schema.namespace, name).is_some()
        || catalog.table_of_index(&schema.namespace, name).is_some()
        || schema.name == name
        || schema.index_names().any(|index| index == name)
}

/// `first_second_label` with the longer one of the two first parts cut.
fn shortened(first: &str, second: &str, label: &str) -> String {
    let available = NAME_BYTES_MAX.saturating_sub(label.len() + 2);
    let (mut kept_first, mut kept_second) = (first.len(), second.len());
    while kept_first + kept_second > available {
        if kept_first > kept_second {
            kept_first -= 1;
        } else {
            kept_second -= 1;
        }
    }
    let first = &first[..first.floor_char_boundary(kept_first)];
    let second = &second[..second.floor_char_boundary(kept_second)];
    format!("{first}_{second}_{label}")
}

/// `ALTER TABLE … ALTER COLUMN` about a column's identity; `None` for another `ALTER TABLE`.
pub(super) fn alter(execution: &Execution<'_>, alter: &AlterTable) -> Option<Result<Outcome>> {
    let changes = altered_identity(alter)?;
    Some(changes.and_then(|(column, changes)| alter_column(execution, alter, &column, changes)))
}

fn alter_column(
    execution: &Execution<'_>,
    alter: &AlterTable,
    column: &Ident,
    changes: Vec<IdentityChange>,
) -> Result<Outcome> {
    let outcome = Outcome::command("ALTER TABLE");
    let catalog = execution.names.catalog();
    let name = QualifiedName::existing(&catalog, &alter.name)?;
    if alter.if_exists && catalog.object(&name.namespace, &name.name).is_none() {
        let notice = format!("relation \"{}\" does not exist, skipping", name.name);
        return Ok(outcome.with_notice(notice));
    }
    let target = Target::find(&catalog, &alter.name)?;
    execution.names.rights().owns(&Securable::relation(&name.namespace, &name.name))?;
    let position = target.position(&folded(column))?;
    let schema = target.schema().as_ref().clone();
    if let [IdentityChange::Add(generated_as, clauses)] = changes.as_slice() {
        add(execution, schema, position, identity_of(*generated_as), clauses.clone())?;
        return Ok(outcome);
    }
    if schema.columns[position].identity.is_none() {
        let error = wrong_state(&schema, position, "is not an identity column");
        return match changes.as_slice() {
            [IdentityChange::Drop(true)] => {
                Ok(outcome.with_notice(format!("{}, skipping", error.message())))
            }
            _ => Err(error),
        };
    }
    match changes.as_slice() {
        [IdentityChange::Drop(_)] => drop_identity(execution, schema, position)?,
        _ => change(execution, schema, position, changes)?,
    }
    Ok(outcome)
}

fn wrong_state(schema: &TableSchema, position: usize, what: &str) -> Error {
    let (column, table) = (&schema.columns[position].name, &schema.name);
    let message = format!("column \"{column}\" of relation \"{table}\" {what}");
    Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
}

/// `ADD GENERATED … AS IDENTITY`
fn add(
    execution: &Execution<'_>,
    mut schema: TableSchema,
    position: usize,
    identity: Identity,
    clauses: Vec<SequenceClause>,
) -> Result<()> {
    let column = &schema.columns[position];
    let id = column.id;
    integer(&column.data_type)?;
    let refusal = if column.nullable {
        "must be declared NOT NULL before identity can be added"
    } else if column.identity.is_some() {
        "is already an identity column"
    } else if column.default.is_some() {
        "already has a default value"
    } else {
        schema.columns[position].identity = Some(identity);
        create(execution, &mut schema, id, clauses)?;
        return change_table(execution, schema);
    };
    Err(wrong_state(&schema, position, refusal))
}

/// `DROP IDENTITY`
fn drop_identity(
    execution: &Execution<'_>,
    mut schema: TableSchema,
    position: usize,
) -> Result<()> {
    let catalog = execution.names.catalog();
    let column = &mut schema.columns[position];
    let sequence = identity_sequence(column).and_then(|id| catalog.sequence(id));
    (column.identity, column.default) = (None, None);
    change_table(execution, schema)?;
    let Some((namespace, name, _)) = sequence else { return Ok(()) };
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    execution.names.with(|t| t.change_catalog(CatalogChange::Undefine { namespace, name }))
}

/// `SET GENERATED …`, `SET option` and `RESTART`
fn change(
    execution: &Execution<'_>,
    mut schema: TableSchema,
    position: usize,
    changes: Vec<IdentityChange>,
) -> Result<()> {
    let before = schema.columns[position].identity;
    let sequence = identity_sequence(&schema.columns[position]);
    let mut clauses = Vec::new();
    for change in changes {
        match change {
            IdentityChange::Generated(generated_as) => {
                schema.columns[position].identity = Some(identity_of(generated_as));
            }
            IdentityChange::Sequence(clause) => clauses.push(*clause),
            IdentityChange::Add(..) | IdentityChange::Drop(_) => {
                return Err(Error::internal("these changes stand alone"));
            }
        }
    }
    if schema.columns[position].identity != before {
        change_table(execution, schema)?;
    }
    if clauses.is_empty() {
        return Ok(());
    }
    let catalog = execution.names.catalog();
    let Some((namespace, name, sequence)) = sequence.and_then(|id| catalog.sequence(id)) else {
        return Err(Error::unsupported("a change of a counter from an older version"));
    };
    let name = QualifiedName { namespace: namespace.to_owned(), name: name.to_owned() };
    let clauses = Clauses::of(clauses)?;
    if clauses.owned_by.is_some() || clauses.name.is_some() || clauses.data_type.is_some() {
        return Err(redundant_options());
    }
    let object = Securable::relation(&name.namespace, &name.name);
    let change = altered(execution, &name, sequence.clone(), &object, clauses)?;
    execution.names.with(|t| t.change_catalog(change))
}

fn change_table(execution: &Execution<'_>, schema: TableSchema) -> Result<()> {
    let change = CatalogChange::AlterTable { schema, added: None, expected: None };
    execution.names.with(|t| t.change_catalog(change))
}

/// The column whose identity a sequence is, as an error of what cannot be done to the sequence.
pub(super) fn owner_of_identity<'a>(
    catalog: &'a Catalog,
    sequence: &Sequence,
) -> Option<(&'a TableSchema, &'a Column)> {
    let (table, column) = sequence.owned_by?;
    let table = catalog.table(table)?.schema.as_ref();
    let column = &table.columns[table.position(column)?];
    (identity_sequence(column) == Some(sequence.id)).then_some((table, column))
}

/// # Errors
/// 2BP01 if the sequence numbers an identity column.
pub(super) fn refuse_drop(catalog: &Catalog, name: &str, sequence: &Sequence) -> Result<()> {
    let Some((table, column)) = owner_of_identity(catalog, sequence) else { return Ok(()) };
    let required = format!("column {} of table {}", column.name, table.name);
    let message = format!("cannot drop sequence {name} because {required} requires it");
    Err(Error::new(SqlState::DEPENDENT_OBJECTS, message)
        .with_hint(format!("You can drop {required} instead.")))
}

/// Starts the sequences that a table's columns own again: `RESTART IDENTITY`.
///
/// # Errors
/// If the role does not own one of them.
pub(super) fn restart(execution: &Execution<'_>, table: &TableSchema) -> Result<()> {
    let catalog = execution.names.catalog();
    if table.columns.iter().any(Column::has_own_counter) {
        return Err(Error::unsupported("TRUNCATE with RESTART IDENTITY of an older table"));
    }
    for (namespace, name, sequence) in catalog.sequences() {
        if sequence.owned_by.is_none_or(|(owner, _)| owner != table.id) {
            continue;
        }
        execution.names.rights().owns(&Securable::relation(namespace, name))?;
        let name = QualifiedName { namespace: namespace.to_owned(), name: name.to_owned() };
        let start = Position { last: sequence.options.start, is_called: false };
        // A rollback leaves the counter so far.
        let counter = Arc::new(SequenceCounter::new(start));
        let change = define(&name, Sequence { counter, ..sequence.clone() }, true);
        execution.names.with(|t| t.change_catalog(change))?;
    }
    Ok(())
}

/// The sequences that a table's columns own, by name.
pub(super) fn owned_sequences(catalog: &Catalog, name: &QualifiedName) -> Vec<Securable> {
    let Some(Object::Table(entry)) = catalog.object(&name.namespace, &name.name) else {
        return Vec::new();
    };
    let id = entry.schema.id;
    let owned = catalog
        .sequences()
        .filter(|(_, _, sequence)| sequence.owned_by.is_some_and(|(owner, _)| owner == id));
    owned.map(|(namespace, name, _)| Securable::relation(namespace, name)).collect()
}

/// The error of a change of an identity column's default or of its `NOT NULL`.
pub(super) fn is_identity(table: &TableSchema, column: &Column) -> Error {
    let message =
        format!("column \"{}\" of relation \"{}\" is an identity column", column.name, table.name);
    Error::new(SqlState::SYNTAX_ERROR, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sequences_are_shortened_as_in_postgresql() {
        assert_eq!(shortened("t", "id", "seq"), "t_id_seq");
        let (long, other) = ("a".repeat(60), "b".repeat(40));
        // From PostgreSQL 15.
        assert_eq!(shortened(&long, "id", "seq"), format!("{}_id_seq", "a".repeat(56)));
        let both = shortened(&long, &other, "seq1");
        assert_eq!(both, format!("{}_{}_seq1", "a".repeat(29), "b".repeat(28)));
        assert_eq!(both.len(), NAME_BYTES_MAX);
        assert!(shortened(&"ä".repeat(40), "id", "seq").len() <= NAME_BYTES_MAX);
    }
}
