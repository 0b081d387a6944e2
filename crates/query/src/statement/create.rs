//! `CREATE TABLE`, `CREATE TABLE AS`, `CREATE VIEW`, `CREATE SCHEMA`, `CREATE EXTERNAL TABLE`.

mod definition;
mod foreign_key;

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::sql::parser::CreateExternalTable;
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateView, Ident, ObjectNamePart, OnCommit as Written, Query, SchemaName,
    SetExpr, Value, Visitor,
};
use futures::StreamExt;
use thalweg_dialect::walk;
use thalweg_txn::{
    Catalog, CatalogChange, ExternalTable, Object, Referenced, View, ViewBinding,
    is_temporary_namespace, name_taken,
};
use thalweg_types::{Column, ColumnId, Error, Result, SqlState, TableSchema};
use thalweg_values::types::{display_name, from_field};

use super::dependents::{bind_views, drop_objects};
use super::target::QualifiedName;
use super::{Execution, Shaper, Target, ast_tools, folded};
use crate::catalog::{SearchPath, bind};
use crate::loader::Loader;
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::privileges;
use crate::sequences::names_temporary;
use crate::temporary_objects::{OnCommit, shown_namespace};

use definition::Definition;
pub(super) use definition::{
    add_check, add_primary_key, add_unique, column_of, free_name, names as key_names, set_default,
};
pub(super) use foreign_key::add_foreign_key;

/// Maximum number of columns of a table, as in PostgreSQL.
const COLUMNS_MAX: usize = 1_600;

/// Names of users' schemas do not begin with this, as in PostgreSQL.
const RESERVED_PREFIX: &str = "pg_";

pub(super) async fn table(execution: &mut Execution<'_>, create: &CreateTable) -> Result<Outcome> {
    let name = QualifiedName::to_create(execution, &create.name, create.temporary)?;
    let on_commit = on_commit(create, &name)?;
    let catalog = execution.names.catalog();
    if let Some(object) = catalog.object(&name.namespace, &name.name) {
        if create.if_not_exists {
            let notice = format!("relation \"{}\" already exists, skipping", name.name);
            return Ok(Outcome::command("CREATE TABLE").with_notice(notice));
        }
        match object {
            Object::Table(entry) if create.or_replace => {
                execution.names.rights().may_drop(&name.namespace, &name.name)?;
                bind_views(execution).await?;
                drop_objects(execution, &[Referenced::Table(entry.schema.id)], false)?;
            }
            _ => return Err(name_taken(&name.name)),
        }
    }
    definition::reject_unsupported(create)?;
    let mut outcome = match &create.query {
        Some(query) => table_as(execution, create, &name, query).await?,
        None => {
            let mut definition = Definition::of(create, execution)?;
            let notices = definition.take_notices();
            let schema = definition.build(&name, execution)?;
            privileges::create(execution.names, CatalogChange::CreateTable { schema })?;
            let outcome = Outcome::command("CREATE TABLE");
            notices.into_iter().fold(outcome, Outcome::with_notice)
        }
    };
    if let (Some(action), Some(Object::Table(entry))) =
        (on_commit, execution.names.catalog().object(&name.namespace, &name.name))
    {
        execution.temporary.at_commit(entry.schema.id, action);
    }
    if create.temporary && create.global == Some(true) {
        let warning = "GLOBAL is deprecated in temporary table creation";
        outcome = outcome.with_warning(SqlState::WARNING, warning);
    }
    Ok(outcome)
}

/// The action on the table at the end of a transaction; `None` if there is none.
///
/// # Errors
/// 42P16 for a permanent table.
fn on_commit(create: &CreateTable, name: &QualifiedName) -> Result<Option<OnCommit>> {
    let Some(written) = &create.on_commit else { return Ok(None) };
    if !is_temporary_namespace(&name.namespace) {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    Ok(match written {
        Written::PreserveRows => None,
        Written::DeleteRows => Some(OnCommit::DeleteRows),
        Written::Drop => Some(OnCommit::Drop),
    })
}

/// `SELECT … INTO name` as the equivalent `CREATE TABLE name AS`.
pub(super) fn of_select_into(query: &Query) -> Result<CreateTable> {
    let mut create = ast_tools::create_table_as()?;
    let mut query = query.clone();
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(into) = select.into.take()
    {
        create.temporary = into.temporary;
        create.name = into.name;
    }
    create.query = Some(Box::new(query));
    Ok(create)
}

async fn table_as(
    execution: &mut Execution<'_>,
    create: &CreateTable,
    name: &QualifiedName,
    query: &Query,
) -> Result<Outcome> {
    let planned = execution.translate(plan::query(&execution.state, query.clone()).await)?;
    let (source, mut batches) = plan::stream(&execution.state, planned, execution.sql).await?;
    let mut definition = Definition::of(create, execution)?;
    let given: Vec<String> = create.columns.iter().map(|column| folded(&column.name)).collect();
    if given.len() > source.fields().len() {
        let message = "CREATE TABLE AS specifies too many column names";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    definition.columns = source
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| {
            Ok(Column {
                id: ColumnId(index as u32),
                name: given.get(index).unwrap_or(field.name()).clone(),
                data_type: from_field(field)?,
                nullable: true,
                default: None,
                identity: None,
                second_digits: None,
            })
        })
        .collect::<Result<_>>()?;
    let schema = definition.build(name, execution)?;
    privileges::create(execution.names, CatalogChange::CreateTable { schema })?;

    // The search path of the statement may lack a namespace that the statement has created.
    let target = match name.find(&execution.names.catalog())? {
        Object::Table(entry) => Target { entry: entry.clone() },
        _ => return Err(Error::internal("the table was created just now")),
    };
    let all: Vec<usize> = (0..target.schema().columns.len()).collect();
    let counters = execution.names.with(|t| Ok(t.state(target.id())?.identities().clone()))?;
    let shaper = Shaper::new(&execution.state, target.schema(), &all, counters)?;
    let mut loader = Loader::new(execution.database.clone(), target.schema().clone());
    while let Some(batch) = batches.next().await {
        loader.push_later(shaper.shape(&batch?)?).await?;
    }
    let rows = execution.names.with(|t| loader.finish().append_to(t, target.id()))?;
    Ok(Outcome::done(Tag::Other(format!("SELECT {rows}"))))
}

/// # Errors
/// If the new view lacks a column of the old one, or has it with another type: queries may rely on
/// it.
async fn keeps_columns(
    execution: &Execution<'_>,
    view: &QualifiedName,
    names: &[String],
    new: &Schema,
) -> Result<()> {
    let quoted = |name: &str| Ident::with_quote('"', name).to_string();
    let all = format!("SELECT * FROM {}.{}", quoted(&view.namespace), quoted(&view.name));
    // A view that can no longer be planned has no columns to keep.
    let Ok(planned) = plan::query_text(&execution.state, &all).await else { return Ok(()) };
    let old = execution.translate(plan::schema(&execution.state, &planned).await)?;
    let refused = |message: String| Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
    if names.len() < planned.names.len() {
        return refused("cannot drop columns from view".to_owned());
    }
    for (place, (was, is)) in planned.names.iter().zip(names).enumerate() {
        if was != is {
            return refused(format!("cannot change name of view column \"{was}\" to \"{is}\""));
        }
        let (before, after) = (old.field(place), new.field(place));
        if !before.data_type().equals_datatype(after.data_type()) {
            let (before, after) = (display_name(before), display_name(after));
            return refused(format!(
                "cannot change data type of view column \"{was}\" from {before} to {after}"
            ));
        }
    }
    Ok(())
}

pub(super) async fn view(execution: &mut Execution<'_>, create: &CreateView) -> Result<Outcome> {
    if create.materialized {
        return Err(Error::unsupported("CREATE MATERIALIZED VIEW"));
    }
    let query = qualified(&execution.names.catalog(), &create.query).to_string();
    let columns: Vec<String> = create.columns.iter().map(|column| folded(&column.name)).collect();
    // An invalid view is refused now, not when it is used.
    let planned =
        execution.translate(plan::query(&execution.state, create.query.as_ref().clone()).await)?;
    if columns.len() > planned.names.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    let given = columns.len();
    let names: Vec<String> =
        columns.into_iter().chain(planned.names.iter().skip(given).cloned()).collect();
    for (place, name) in names.iter().enumerate() {
        if names[..place].contains(name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    let mut binding = binding(execution, create, &query).await?;
    let becomes_temporary = !create.temporary && binding.is_temporary();
    let is_temporary = create.temporary || becomes_temporary;
    let name = QualifiedName::to_create(execution, &create.name, is_temporary)?;
    let catalog = execution.names.catalog();
    let existing = catalog.object(&name.namespace, &name.name);
    if existing.is_some() && create.if_not_exists {
        let notice = format!("relation \"{}\" already exists, skipping", name.name);
        return Ok(Outcome::command("CREATE VIEW").with_notice(notice));
    }
    match existing {
        Some(Object::View(view)) if create.or_replace => {
            let new = execution.translate(plan::schema(&execution.state, &planned).await)?;
            keeps_columns(execution, &name, &names, &new).await?;
            binding.number = view.binding.as_ref().map_or(binding.number, |view| view.number);
            // Views over this one keep the columns that it has had.
            bind_views(execution).await?;
        }
        Some(_) if create.or_replace => {
            let message = format!("\"{}\" is not a view", name.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Some(_) | None => {}
    }
    let outcome = Outcome::command("CREATE VIEW");
    let outcome = match becomes_temporary {
        true => outcome.with_notice(format!("view \"{}\" will be a temporary view", name.name)),
        false => outcome,
    };
    let change = CatalogChange::Define {
        namespace: name.namespace,
        name: name.name,
        object: Object::View(View { query, columns: names, binding: Some(Arc::new(binding)) }),
        replace: create.or_replace,
    };
    privileges::create(execution.names, change)?;
    Ok(outcome)
}

/// The meaning of the names in a new view's query.
async fn binding(
    execution: &Execution<'_>,
    create: &CreateView,
    query: &str,
) -> Result<ViewBinding> {
    let name = QualifiedName::of(&create.name)?.name;
    let owner = execution.names.identity().current;
    let number = execution.names.catalog().next_view_number();
    let bound = Box::pin(bind(&execution.state, &name, query, owner, number)).await;
    Ok(execution.translate(bound)?.binding)
}

/// A view's query, with the namespaces that its unqualified names find now. On the initial path
/// only names of temporary objects change, because views are read with that path.
fn qualified(catalog: &Catalog, query: &Query) -> Query {
    let mut query = query.clone();
    let path = SearchPath::current();
    let is_initial = path.is_initial();
    if is_initial && catalog.temporary().is_none() {
        return query;
    }
    let mut ctes = CteNames::default();
    let _ = walk::visit(&query, &mut ctes);
    let _ = walk::visit_relations_mut(&mut query, |name| {
        if let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident().map(folded)
            && !ctes.0.contains(&ident)
            && let Some(namespace) = path.holder(catalog, &ident)
            && (!is_initial || is_temporary_namespace(namespace))
        {
            let namespace = Ident::with_quote('"', shown_namespace(namespace));
            name.0.insert(0, ObjectNamePart::Identifier(namespace));
        }
        ControlFlow::<()>::Continue(())
    });
    query
}

/// The names of the `WITH` queries anywhere in a query.
#[derive(Default)]
struct CteNames(HashSet<String>);

impl Visitor for CteNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(ctes.map(|cte| folded(&cte.alias.name)));
        ControlFlow::Continue(())
    }
}

pub(super) fn namespace(
    execution: &mut Execution<'_>,
    name: &SchemaName,
    if_not_exists: bool,
) -> Result<Outcome> {
    let SchemaName::Simple(name) = name else {
        return Err(Error::unsupported("CREATE SCHEMA ... AUTHORIZATION"));
    };
    let name = QualifiedName::of(name)?.name;
    if name.starts_with(RESERVED_PREFIX) {
        let message = format!("unacceptable schema name \"{name}\"");
        let detail = "The prefix \"pg_\" is reserved for system schemas.";
        return Err(Error::new(SqlState::RESERVED_NAME, message).with_detail(detail));
    }
    if if_not_exists && execution.names.catalog().has_namespace(&name) {
        let notice = format!("schema \"{name}\" already exists, skipping");
        return Ok(Outcome::command("CREATE SCHEMA").with_notice(notice));
    }
    privileges::create(execution.names, CatalogChange::CreateNamespace { name })?;
    Ok(Outcome::command("CREATE SCHEMA"))
}

pub(super) async fn external_table(
    execution: &mut Execution<'_>,
    create: &CreateExternalTable,
) -> Result<Outcome> {
    let name = QualifiedName::to_create(execution, &create.name, false)?;
    let exists = execution.names.catalog().object(&name.namespace, &name.name).is_some();
    if exists && create.if_not_exists {
        let notice = format!("relation \"{}\" already exists, skipping", name.name);
        return Ok(Outcome::command("CREATE EXTERNAL TABLE").with_notice(notice));
    }
    let mut options: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in &create.options {
        options.insert(key.clone(), option_text(value));
    }
    let columns = create
        .columns
        .iter()
        .map(|column| (folded(&column.name), column.data_type.to_string()))
        .collect();
    let [location] = create.locations.as_slice() else {
        return Err(Error::unsupported("an external table with several locations"));
    };
    let object = Object::External(ExternalTable {
        location: location.clone(),
        format: create.file_type.clone(),
        options,
        columns,
    });
    let change = CatalogChange::Define {
        namespace: name.namespace.clone(),
        name: name.name.clone(),
        object,
        replace: create.or_replace,
    };
    execution.names.rights().read_server_files("read a file")?;
    privileges::create(execution.names, change)?;
    // Unreadable files are refused now, not when the table is used.
    let look = format!("SELECT * FROM \"{}\".\"{}\" LIMIT 0", name.namespace, name.name);
    execution.translate(plan::query_text(&execution.state, &look).await)?;
    Ok(Outcome::command("CREATE EXTERNAL TABLE"))
}

fn option_text(value: &Value) -> String {
    match value {
        Value::SingleQuotedString(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Refuses a table whose definition is contradictory, or has too many columns.
pub(super) fn check_names(schema: &TableSchema) -> Result<()> {
    if schema.columns.len() > COLUMNS_MAX {
        let message = format!("tables can have at most {COLUMNS_MAX} columns");
        return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    for (place, column) in schema.columns.iter().enumerate() {
        if !schema.id.is_temporary() && column.default.as_deref().is_some_and(names_temporary) {
            let message = "a default of a permanent table cannot use a temporary sequence";
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        if schema.columns[..place].iter().any(|other| other.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}
