//! `pg_catalog`: the catalog in the form that PostgreSQL's clients query.
//!
//! Every table and view of PostgreSQL 15 exists with its columns ([`relations`]), and so do views
//! of this database's own store ([`storage`]). Tables with rows have a file here, one for each
//! family; the others are empty. A table is built when a statement names it, from the catalog that
//! the statement sees. Rows that never change are built once.

mod attributes;
mod classes;
mod descriptions;
mod fixed;
mod keys;
mod listings;
mod namespaces;
pub(super) mod procedures;
pub(super) mod relations;
pub(super) mod roles;
pub(super) mod rows;
mod rules;
mod sequences;
mod server;
mod storage;
pub(super) mod types;

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::sql::sqlparser::ast::ObjectName;

pub(super) use procedures::Procedures;
use rows::Rows;
pub(super) use sequences::{counter_table, table as sequence_table};

use super::CatalogLookup;
use super::derived::Derived;
use crate::statement::folded;

/// Inputs from which the tables are built.
pub(super) struct Inputs<'a> {
    pub(super) lookup: &'a CatalogLookup,
    /// The columns of views and external tables; empty for tables that do not need them.
    pub(super) derived: &'a [Derived],
}

pub(super) fn exists(name: &str) -> bool {
    relations::ALL.contains_key(name)
}

/// True if the name is that of a relation of `pg_catalog`, with or without its schema.
pub(crate) fn is_system_relation(name: &ObjectName) -> bool {
    let parts: Option<Vec<String>> =
        name.0.iter().map(|part| part.as_ident().map(folded)).collect();
    match parts.as_deref() {
        Some([name]) => exists(name),
        Some([namespace, name]) => namespace == super::objects::PG_CATALOG && exists(name),
        _ => false,
    }
}

pub(super) fn names() -> Vec<String> {
    relations::ALL.keys().map(|name| (*name).to_owned()).collect()
}

/// True if the table shows columns of views, which are known only after planning the views.
pub(super) fn needs_derived(name: &str) -> bool {
    matches!(name, "pg_attribute" | "pg_class")
}

/// The table of this name.
pub(super) fn table(name: &str, inputs: &Inputs<'_>) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(relation) = relations::ALL.get(name) else { return Ok(None) };
    let schema = &relation.schema;
    let mut batches: Vec<RecordBatch> = unchanging(name)?.into_iter().collect();
    let mut rows = Rows::new(schema);
    fill(name, inputs, &mut rows);
    batches.push(rows.finish()?);
    Ok(Some(Arc::new(MemTable::try_new(Arc::clone(schema), vec![batches])?)))
}

/// The rows that are the same in every database.
fn unchanging(name: &str) -> Result<Option<RecordBatch>, ArrowError> {
    Ok(match name {
        "pg_attribute" => Some(attributes::system()?),
        "pg_type" => Some(types::base()?),
        "pg_proc" => Some(procedures::all()?),
        _ => None,
    })
}

fn fill(name: &str, inputs: &Inputs<'_>, rows: &mut Rows) {
    let Inputs { lookup, .. } = inputs;
    let objects = lookup.objects.as_ref();
    match name {
        "pg_am" => fixed::access_methods(rows),
        "pg_attrdef" => attributes::defaults(lookup, rows),
        "pg_attribute" => attributes::own(inputs, rows),
        "pg_authid" | "pg_roles" => roles::roles(lookup, rows, name == "pg_roles"),
        "pg_class" => classes::classes(inputs, rows),
        "pg_collation" => fixed::collations(rows),
        "pg_constraint" => keys::constraints(objects, rows),
        "pg_database" => namespaces::databases(rows),
        "pg_db_role_setting" => roles::setting_defaults(lookup, rows),
        "pg_description" => descriptions::of_objects(objects, rows),
        "pg_shdescription" => descriptions::of_shared(objects, rows),
        "pg_depend" => rules::dependencies(objects, rows),
        "pg_index" => keys::indexes(objects, rows),
        "pg_indexes" => listings::indexes(objects, rows),
        "pg_language" => fixed::languages(rows),
        "pg_listening_channels" => server::listening_channels(lookup, rows),
        "pg_locks" => server::locks(lookup, rows),
        "pg_namespace" => namespaces::namespaces(objects, rows),
        "pg_rewrite" => rules::rules(objects, rows),
        "pg_opclass" => fixed::operator_classes(rows),
        "pg_sequence" => sequences::sequence(objects, rows),
        "pg_sequences" => sequences::sequences(inputs, rows),
        "pg_settings" => server::settings(lookup, rows),
        "pg_auth_members" => roles::members(lookup, rows),
        "pg_get_keywords" => fixed::keywords(rows),
        "pg_group" => roles::groups(lookup, rows),
        "pg_shadow" | "pg_user" => roles::users(lookup, rows),
        "pg_stat_activity" => server::activity(lookup, rows),
        "pg_stat_all_tables" | "pg_stat_user_tables" => listings::usage(inputs, rows),
        "pg_stat_database" => server::database_usage(rows),
        "pg_tables" => listings::tables(inputs, rows),
        "pg_tablespace" => namespaces::tablespaces(rows),
        "pg_timezone_names" => fixed::time_zones(lookup.now_micros(), rows),
        "pg_type" => types::of_rows(objects, rows),
        "pg_views" => listings::views(inputs, rows),
        "thalweg_checkpoints" => storage::checkpoints(lookup, rows),
        "thalweg_log" => storage::log(lookup, rows),
        "thalweg_tables" => storage::tables(lookup, rows),
        _ => {}
    }
}
