//! `pg_rewrite` and `pg_depend`: views and the objects that they depend on.

use thalweg_txn::{BoundRelation, BoundSource};

use super::rows::Rows;
use crate::catalog::objects::{Objects, Relation, Source, attribute_number};

/// The numbers of `pg_class` and `pg_rewrite` among PostgreSQL's own relations.
const PG_CLASS: i64 = 1_259;
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

/// As in PostgreSQL, the rule of a view depends on the columns that its query uses, on relations
/// without such columns, and on the view.
pub(super) fn dependencies(objects: &Objects, rows: &mut Rows) {
    for relation in &objects.relations {
        let Source::View(view) = &relation.source else { continue };
        let rule = RULES + relation.oid;
        for kind in ["i", "n"] {
            dependency(rows, rule, (relation.oid, 0), kind);
        }
        for read in view.binding.iter().flat_map(|binding| &binding.relations) {
            let Some(other) = source_of(objects, read) else { continue };
            let columns = columns_of(read);
            for column in if columns.is_empty() { vec![0] } else { columns } {
                dependency(rows, rule, (other.oid, column), "n");
            }
        }
    }
}

fn dependency(rows: &mut Rows, rule: i64, (relation, column): (i64, i64), kind: &'static str) {
    rows.push([
        ("classid", PG_REWRITE.into()),
        ("objid", rule.into()),
        ("objsubid", 0_i64.into()),
        ("refclassid", PG_CLASS.into()),
        ("refobjid", relation.into()),
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
