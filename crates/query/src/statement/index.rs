//! `CREATE INDEX`, `DROP INDEX`, `ALTER INDEX`.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterIndexOperation, CreateIndex, Expr, IndexColumn, IndexType, ObjectName,
};
use thalweg_dialect::rewrite::check_collation;
use thalweg_execution::cancel::on_own_thread;
use thalweg_store::{TableState, is_ordered};
use thalweg_txn::{Catalog, CatalogChange, Object, Securable, name_taken, prepare_index};
use thalweg_types::{
    ColumnId, DataType, Error, Index, Key, Result, SqlState, TableSchema, ValueOrder,
};

use super::create::free_name;
use super::dependents::drop_foreign_keys_over;
use super::target::QualifiedName;
use super::{Execution, Target, folded, storage_parameters};
use crate::outcome::{Notice, Outcome};

/// Maximum number of columns of an index, as in PostgreSQL.
const COLUMNS_MAX: usize = 32;

pub(super) async fn create(execution: &Execution<'_>, create: &CreateIndex) -> Result<Outcome> {
    let outcome = Outcome::command("CREATE INDEX");
    reject_unsupported(create)?;
    let notices = storage_parameters::of_index(&create.with)?;
    let outcome = notices.into_iter().fold(outcome, Outcome::with_notice);
    let catalog = execution.names.catalog();
    let table = QualifiedName::existing(&catalog, &create.table_name)?;
    if let other @ (Object::View(_) | Object::External(_) | Object::Sequence(_)) =
        table.find(&catalog)?
    {
        let message = format!("cannot create index on relation \"{}\"", table.name);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message)
            .with_detail(format!("This operation is not supported for {}s.", other.kind())));
    }
    let target = Target::find(&catalog, &create.table_name)?;
    execution.names.rights().owns(&Securable::relation(&table.namespace, &table.name))?;
    let mut schema = target.schema().as_ref().clone();
    let name = match &create.name {
        Some(name) => Some(own_name(name)?),
        None => None,
    };
    if let Some(name) = name.as_ref().filter(|name| is_taken(&catalog, &schema, name)) {
        if create.if_not_exists {
            let notice = format!("relation \"{name}\" already exists, skipping");
            return Ok(outcome.with_notice(notice));
        }
        return Err(name_taken(name));
    }
    let (columns, orders) = columns(&schema, &create.columns)?;
    let name = name.unwrap_or_else(|| default_name(&catalog, &schema, &columns));
    let index = Index { key: Key { name, columns }, orders, unique: create.unique };
    let state = execution.names.with(|t| t.state(schema.id))?;
    prepare(state, index.clone(), execution.database.shared.threads).await?;
    schema.indexes.push(index);
    alter(execution, schema)?;
    Ok(outcome)
}

/// Builds the index runs of existing rows, so that later queries find them ready, and the thread
/// that all transactions share does not have to.
///
/// This takes a while, so it runs on threads of its own and can be canceled.
async fn prepare(state: Arc<TableState>, index: Index, threads: usize) -> Result<()> {
    on_own_thread(move |is_unwanted| prepare_index(&state, &index, threads, is_unwanted)).await
}

fn alter(execution: &Execution<'_>, schema: TableSchema) -> Result<()> {
    let change = CatalogChange::AlterTable { schema, added: None, expected: None };
    execution.names.with(|t| t.change_catalog(change))
}

fn reject_unsupported(create: &CreateIndex) -> Result<()> {
    let what = match &create.using {
        Some(IndexType::BTree) | None if create.predicate.is_some() => "an index with WHERE",
        Some(IndexType::BTree) | None if !create.include.is_empty() => "an index with INCLUDE",
        Some(IndexType::BTree) | None if create.nulls_distinct == Some(false) => {
            "an index with NULLS NOT DISTINCT"
        }
        Some(IndexType::BTree) | None => return Ok(()),
        Some(other) => {
            let what = format!("an index USING {}", other.to_string().to_lowercase());
            return Err(Error::unsupported(what)
                .with_hint("Indexes are ordered: leave USING out, or write USING btree."));
        }
    };
    Err(Error::unsupported(what))
}

/// The name of a new index, which belongs to its table's namespace.
fn own_name(name: &ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [part] if part.as_ident().is_some() => Ok(part.as_ident().map(folded).unwrap_or_default()),
        _ => {
            let message = format!("the index {name} comes to lie in the schema of its table");
            Err(Error::new(SqlState::SYNTAX_ERROR, message)
                .with_hint("Name the index without a schema."))
        }
    }
}

/// True if a relation or an index in the table's namespace has the name. To clients, key
/// constraints have indexes, too.
fn is_taken(catalog: &Catalog, table: &TableSchema, name: &str) -> bool {
    let namespace = &table.namespace;
    catalog.table_of_index(namespace, name).is_some()
        || catalog.object(namespace, name).is_some()
        || constraint_named(catalog, namespace, name).is_some()
}

/// The table that has a key constraint of this name.
fn constraint_named<'a>(
    catalog: &'a Catalog,
    namespace: &str,
    name: &str,
) -> Option<&'a TableSchema> {
    catalog.objects(namespace).find_map(|(_, object)| match object {
        Object::Table(entry) => {
            let found = entry.schema.constraints().any(|key| key.name == name);
            found.then_some(entry.schema.as_ref())
        }
        Object::View(_) | Object::External(_) | Object::Sequence(_) => None,
    })
}

fn columns(
    table: &TableSchema,
    columns: &[IndexColumn],
) -> Result<(Vec<ColumnId>, Vec<ValueOrder>)> {
    if columns.len() > COLUMNS_MAX {
        let message = format!("cannot use more than {COLUMNS_MAX} columns in an index");
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    let (mut ids, mut orders) = (Vec::new(), Vec::new());
    for column in columns {
        let expr = match &column.column.expr {
            Expr::Collate { expr, collation } => {
                check_collation(collation)?;
                expr.as_ref()
            }
            expr => expr,
        };
        let Expr::Identifier(name) = expr else {
            return Err(Error::unsupported("an index over an expression"));
        };
        let name = folded(name);
        let (_, known) = table.column_named(&name).ok_or_else(|| {
            let message = format!("column \"{name}\" does not exist");
            Error::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        check_type(&known.data_type)?;
        if let Some(class) = &column.operator_class {
            check_class(class, &known.data_type)?;
        }
        let options = &column.column.options;
        let descending = options.asc == Some(false);
        let nulls_first = options.nulls_first.unwrap_or(descending);
        ids.push(known.id);
        orders.push(ValueOrder { descending, nulls_first });
    }
    Ok((ids, orders))
}

fn check_type(data_type: &DataType) -> Result<()> {
    if is_ordered(data_type) {
        return Ok(());
    }
    if *data_type == DataType::Json {
        let message = "data type json has no default operator class for access method \"btree\"";
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
    }
    Err(Error::unsupported(format!("a column of type {data_type} in an index")))
}

/// The operator classes whose order is the order of an index here, with the type that each accepts.
/// Text is compared byte by byte, so that the classes for patterns have the order of the others.
static OPERATOR_CLASSES: [(&str, DataType); 20] = [
    ("bool_ops", DataType::Boolean),
    ("int2_ops", DataType::Int2),
    ("int4_ops", DataType::Int4),
    ("int8_ops", DataType::Int8),
    ("float4_ops", DataType::Float4),
    ("float8_ops", DataType::Float8),
    ("numeric_ops", DataType::Decimal { precision: 38, scale: 0 }),
    ("date_ops", DataType::Date),
    ("time_ops", DataType::Time),
    ("timestamp_ops", DataType::Timestamp),
    ("timestamptz_ops", DataType::Timestamptz),
    ("uuid_ops", DataType::Uuid),
    ("bytea_ops", DataType::Bytea),
    ("jsonb_ops", DataType::Jsonb),
    ("text_ops", DataType::Text { max_chars: None }),
    ("varchar_ops", DataType::Text { max_chars: None }),
    ("bpchar_ops", DataType::Text { max_chars: None }),
    ("text_pattern_ops", DataType::Text { max_chars: None }),
    ("varchar_pattern_ops", DataType::Text { max_chars: None }),
    ("bpchar_pattern_ops", DataType::Text { max_chars: None }),
];

/// # Errors
/// 42704 for an unknown operator class, 42804 if it is one of another type.
fn check_class(class: &ObjectName, data_type: &DataType) -> Result<()> {
    let name = QualifiedName::of(class)?.name;
    let known = OPERATOR_CLASSES.iter().find(|known| known.0 == name);
    let Some((_, accepted)) = known else {
        let message =
            format!("operator class \"{class}\" does not exist for access method \"btree\"");
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
    };
    // Lengths and digits do not matter.
    if std::mem::discriminant(accepted) == std::mem::discriminant(data_type) {
        return Ok(());
    }
    let message = format!("operator class \"{class}\" does not accept data type {data_type}");
    Err(Error::new(SqlState::DATATYPE_MISMATCH, message))
}

/// `table_column_column_idx`, with a number if that is taken.
fn default_name(catalog: &Catalog, table: &TableSchema, columns: &[ColumnId]) -> String {
    let names = columns.iter().filter_map(|id| table.position(*id));
    let names: Vec<&str> = names.map(|place| table.columns[place].name.as_str()).collect();
    free_name(format!("{}_{}_idx", table.name, names.join("_")), |name| {
        is_taken(catalog, table, name)
    })
}

/// Drops one index.
/// With `cascade`, foreign keys that refer to it are dropped as well, and a notice is returned.
///
/// # Errors
/// If there is none of the name (`42704`), it belongs to a constraint, or without `cascade`, a
/// foreign key refers to it.
pub(super) fn drop(
    execution: &Execution<'_>,
    name: &QualifiedName,
    cascade: bool,
) -> Result<Option<Notice>> {
    let catalog = execution.names.catalog();
    let Some(table) = catalog.table_of_index(&name.namespace, &name.name) else {
        return Err(not_dropped(&catalog, name));
    };
    let mut schema = table.schema.as_ref().clone();
    execution.names.rights().owns(&Securable::relation(&schema.namespace, &schema.name))?;
    let mut notice = None;
    if let Some(index) = schema.indexes.iter().find(|i| i.unique && i.key.name == name.name) {
        let subject = format!("index {}", name.name);
        notice = drop_foreign_keys_over(execution, &schema, &index.key, &subject, cascade)?;
        // A foreign key of the table itself may be gone.
        if let Some(now) = execution.names.catalog().table(schema.id) {
            schema = now.schema.as_ref().clone();
        }
    }
    schema.indexes.retain(|index| index.key.name != name.name);
    alter(execution, schema)?;
    Ok(notice)
}

fn not_dropped(catalog: &Catalog, name: &QualifiedName) -> Error {
    let QualifiedName { namespace, name } = name;
    if let Some(table) = constraint_named(catalog, namespace, name) {
        let table = &table.name;
        let message = format!(
            "cannot drop index {name} because constraint {name} on table {table} requires it"
        );
        return Error::new(SqlState::DEPENDENT_OBJECTS, message)
            .with_hint(format!("You can drop constraint {name} on table {table} instead."));
    }
    match catalog.object(namespace, name) {
        Some(object) => wrong_kind(name, object),
        None => {
            let message = format!("index \"{name}\" does not exist");
            Error::new(SqlState::UNDEFINED_OBJECT, message)
        }
    }
}

fn wrong_kind(name: &str, object: &Object) -> Error {
    let message = format!("\"{name}\" is not an index");
    Error::new(SqlState::WRONG_OBJECT_TYPE, message)
        .with_hint(format!("Use DROP {} to remove it.", object.kind().to_uppercase()))
}

pub(super) fn rename(
    execution: &Execution<'_>,
    name: &ObjectName,
    operation: &AlterIndexOperation,
) -> Result<Outcome> {
    let AlterIndexOperation::RenameIndex { index_name } = operation;
    let catalog = execution.names.catalog();
    let (name, new) = (QualifiedName::existing(&catalog, name)?, own_name(index_name)?);
    let table = match catalog.table_of_index(&name.namespace, &name.name) {
        Some(entry) => Some(entry.schema.as_ref()),
        None => constraint_named(&catalog, &name.namespace, &name.name),
    };
    let mut schema = table.ok_or_else(|| thalweg_txn::no_table(&name.name))?.clone();
    execution.names.rights().owns(&Securable::relation(&schema.namespace, &schema.name))?;
    if is_taken(&catalog, &schema, &new) {
        return Err(name_taken(&new));
    }
    // The index of a constraint has the constraint's name.
    let constraints = schema.primary_key.iter_mut().chain(&mut schema.unique);
    let indexes = schema.indexes.iter_mut().map(|index| &mut index.key);
    for key in constraints.chain(indexes).filter(|key| key.name == name.name) {
        key.name.clone_from(&new);
    }
    alter(execution, schema)?;
    Ok(Outcome::command("ALTER INDEX"))
}
