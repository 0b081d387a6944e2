//! The views of `pg_catalog` that list tables, views and indexes in plain words.

use super::Inputs;
use super::rows::Rows;
use crate::catalog::objects::{Objects, Source};
use crate::catalog::{definitions, view_definition};

pub(super) fn tables(inputs: &Inputs<'_>, rows: &mut Rows) {
    for relation in inputs.lookup.objects.relations.iter().filter(|relation| relation.kind() == "r")
    {
        let table = relation.table();
        rows.push([
            ("schemaname", (&relation.namespace).into()),
            ("tablename", (&relation.name).into()),
            ("tableowner", inputs.lookup.role_name(relation.access.owner).into()),
            ("hasindexes", table.is_some_and(|table| table.index_names().next().is_some()).into()),
            ("hasrules", false.into()),
            ("hastriggers", false.into()),
            ("rowsecurity", false.into()),
        ]);
    }
}

pub(super) fn views(inputs: &Inputs<'_>, rows: &mut Rows) {
    for relation in inputs.lookup.objects.relations.iter().filter(|relation| relation.kind() == "v")
    {
        let definition = match &relation.source {
            Source::View(view) => Some(view_definition::definition(view, &inputs.lookup.catalog)),
            _ => None,
        };
        rows.push([
            ("schemaname", (&relation.namespace).into()),
            ("viewname", (&relation.name).into()),
            ("viewowner", inputs.lookup.role_name(relation.access.owner).into()),
            ("definition", definition.into()),
        ]);
    }
}

pub(super) fn indexes(objects: &Objects, rows: &mut Rows) {
    for relation in &objects.relations {
        let Source::Index { table, index, .. } = &relation.source else { continue };
        rows.push([
            ("schemaname", (&relation.namespace).into()),
            ("tablename", (&table.name).into()),
            ("indexname", (&relation.name).into()),
            ("indexdef", definitions::index(table, index, true).into()),
        ]);
    }
}

/// Number of rows of each table. Reads and writes are not counted.
pub(super) fn usage(inputs: &Inputs<'_>, rows: &mut Rows) {
    for relation in &inputs.lookup.objects.relations {
        let Some(table) = relation.table() else { continue };
        rows.push([
            ("relid", relation.oid.into()),
            ("schemaname", (&relation.namespace).into()),
            ("relname", (&relation.name).into()),
            ("n_live_tup", inputs.lookup.rows_of(table.id).unwrap_or(0).into()),
        ]);
    }
}
