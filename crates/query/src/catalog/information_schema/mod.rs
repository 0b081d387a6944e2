//! `information_schema`: the catalog in the form that the SQL standard gives it, with
//! PostgreSQL's columns and words.
//!
//! Every view of PostgreSQL 15 exists except those about the standard itself. A view with rows has
//! a file here; the others are empty.

mod columns;
mod constraints;
mod listings;
mod role_visibility;
mod routines;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::error::Result;

use super::pg_catalog::Inputs;
use super::pg_catalog::relations::{self, Relation};
use super::pg_catalog::rows::{Rows, Value};
use role_visibility::RoleVisibility;

/// In the form of [`relations`].
const RELATIONS: &str = include_str!("relations.txt");

/// Every view of `information_schema` by name.
pub(super) static ALL: LazyLock<BTreeMap<&'static str, Relation>> =
    LazyLock::new(|| relations::parse(RELATIONS));

/// True if the view shows columns of views, which are known only after planning the views.
pub(super) fn needs_derived(name: &str) -> bool {
    matches!(name, "columns" | "element_types")
}

/// The view of this name.
pub(super) fn table(name: &str, inputs: &Inputs<'_>) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(relation) = ALL.get(name) else { return Ok(None) };
    let mut rows = Rows::new(&relation.schema);
    fill(name, inputs, &mut rows);
    let table = MemTable::try_new(Arc::clone(&relation.schema), vec![vec![rows.finish()?]])?;
    Ok(Some(Arc::new(table)))
}

fn fill(name: &str, inputs: &Inputs<'_>, rows: &mut Rows) {
    let Inputs { lookup, .. } = inputs;
    let objects = lookup.objects.as_ref();
    let visibility = &RoleVisibility::of(lookup);
    match name {
        "applicable_roles" => listings::applicable_roles(lookup, rows),
        "enabled_roles" => listings::enabled_roles(lookup, rows),
        "character_sets" => listings::character_sets(rows),
        "check_constraints" => constraints::checks(objects, visibility, rows),
        "collations" => listings::collations(rows),
        "columns" => columns::columns(inputs, visibility, rows),
        "constraint_column_usage" => constraints::columns(objects, visibility, rows),
        "constraint_table_usage" => constraints::tables(objects, visibility, rows),
        "element_types" => columns::element_types(inputs, visibility, rows),
        "information_schema_catalog_name" => listings::name(rows),
        "key_column_usage" => constraints::keys(objects, visibility, rows),
        "referential_constraints" => constraints::referential(objects, visibility, rows),
        "parameters" => routines::parameters(rows),
        "role_table_grants" => listings::privileges(lookup, visibility, rows, false),
        "table_privileges" => listings::privileges(lookup, visibility, rows, true),
        "routines" => routines::routines(rows),
        "schemata" => listings::schemata(lookup, visibility, rows),
        "sequences" => listings::sequences(objects, visibility, rows),
        "table_constraints" => constraints::constraints(objects, visibility, rows),
        "tables" => listings::tables(objects, visibility, rows),
        "views" => listings::views(objects, visibility, rows),
        _ => {}
    }
}

/// The standard's truth values.
fn yes_or_no(is: bool) -> Value {
    if is { "YES" } else { "NO" }.into()
}
