//! `pg_rewrite` and `pg_depend`: views, sequences and defaults, and what they depend on.

use thalweg_txn::{BoundRelation, BoundSource, View};
use thalweg_types::TableSchema;

use super::attributes::default_oid;
use super::rows::Rows;
use crate::catalog::comments::PG_CLASS;
use crate::catalog::objects::{
    NumberSource, Objects, Relation, Source, attribute_number, table_oid,
};

/// The numbers of `pg_attrdef` and `pg_rewrite` among PostgreSQL's own relations.
const PG_ATTRDEF: i64 = 2_604;
const PG_REWRITE: i64 = 2_618;

/// The numbers of the rules that views stand for.
const RULES: i64 = 0x4000_0000;

pub(super) fn rules(objects: &Objects, rows: &mut Rows) {
    for relation in objects.relations.iter().filter(|relation| relation.kind() == "v") {
        let Source::View(_) = &relation.source else { continue };
        rows.push([
            ("oid", (RULES + relation.oid).into()),
            ("rulename", "_RETURN".into()),
            ("ev_class", relation.oid.into()),
            ("ev_type", "1".into()),
            ("ev_enabled", "O".into()),
            ("is_instead", true.into()),
        ]);
    }
}

/// The dependencies of views, of sequences on the columns that own them, and of defaults.
pub(super) fn dependencies(objects: &Objects, rows: &mut Rows) {
    for relation in &objects.relations {
        match &relation.source {
            Source::View(view) => of_view(objects, relation, view, rows),
            Source::Sequence(source) => of_sequence(relation, source, rows),
            Source::Table(table) => of_defaults(objects, table, rows),
            _ => {}
        }
    }
}

/// As in PostgreSQL, the rule of a view depends on the columns that its query uses, on relations
/// without such columns, and on the view.
fn of_view(objects: &Objects, relation: &Relation, view: &View, rows: &mut Rows) {
    let rule = (PG_REWRITE, RULES + relation.oid);
    for kind in ["i", "n"] {
        dependency(rows, rule, (PG_CLASS, relation.oid, 0), kind);
    }
    for read in view.binding.iter().flat_map(|binding| &binding.relations) {
        let Some(other) = source_of(objects, read) else { continue };
        let columns = columns_of(read);
        for column in if columns.is_empty() { vec![0] } else { columns } {
            dependency(rows, rule, (PG_CLASS, other.oid, column), "n");
        }
    }
}

/// A sequence goes away with the column that owns it: that of an identity column belongs to the
/// column.
fn of_sequence(relation: &Relation, source: &NumberSource, rows: &mut Rows) {
    let Some((table, column)) = &source.owner else { return };
    let kind = if source.is_of_identity() { "i" } else { "a" };
    let owner = (PG_CLASS, table_oid(table), attribute_number(column.id));
    dependency(rows, (PG_CLASS, relation.oid), owner, kind);
}

/// A default belongs to its column, and depends on the sequences that it takes numbers of.
fn of_defaults(objects: &Objects, table: &TableSchema, rows: &mut Rows) {
    for column in &table.columns {
        let Some(text) = column.declared_default() else { continue };
        let default = (PG_ATTRDEF, default_oid(table, column));
        let home = (PG_CLASS, table_oid(table), attribute_number(column.id));
        dependency(rows, default, home, "a");
        for sequence in numbers_of_calls(text) {
            let known = objects.relation(sequence).filter(|found| found.is_own_sequence());
            if let Some(sequence) = known {
                dependency(rows, default, (PG_CLASS, sequence.oid, 0), "n");
            }
        }
    }
}

/// The numbers of the sequences that a stored default names in calls of `nextval`, `currval` and
/// `setval`.
fn numbers_of_calls(default: &str) -> impl Iterator<Item = i64> {
    const CALL: &str = "val(";
    default.match_indices(CALL).filter_map(|(at, _)| {
        let rest = &default[at + CALL.len()..];
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    })
}

/// An object, by its class and number, depends on another, by its class, number and column.
fn dependency(
    rows: &mut Rows,
    (class, object): (i64, i64),
    (other_class, other, column): (i64, i64, i64),
    kind: &'static str,
) {
    rows.push([
        ("classid", class.into()),
        ("objid", object.into()),
        ("objsubid", 0_i64.into()),
        ("refclassid", other_class.into()),
        ("refobjid", other.into()),
        ("refobjsubid", column.into()),
        ("deptype", kind.into()),
    ]);
}

fn source_of<'a>(objects: &'a Objects, read: &BoundRelation) -> Option<&'a Relation> {
    match &read.source {
        BoundSource::Named { namespace, name } => objects.relation_named(namespace, name),
        BoundSource::Table(id) | BoundSource::Sequence(id) => objects.relation_of(*id),
    }
}

/// The numbers of the columns that a view uses.
fn columns_of(read: &BoundRelation) -> Vec<i64> {
    let used = read.columns.iter().enumerate().filter(|(_, column)| column.used);
    used.map(|(place, column)| column.id.map_or(place as i64 + 1, attribute_number)).collect()
}
