//! `pg_sequence` and `pg_sequences`: the counters of auto-numbered columns.

use thalweg_types::{Column, DataType};
use thalweg_values::system_types::column_type_oid;

use super::Inputs;
use super::rows::Rows;
use crate::catalog::objects::{Objects, Source};

/// The greatest number that the column can hold.
fn greatest(column: &Column) -> i64 {
    match column.data_type {
        DataType::Int2 => i64::from(i16::MAX),
        DataType::Int4 => i64::from(i32::MAX),
        _ => i64::MAX,
    }
}

pub(super) fn sequence(objects: &Objects, rows: &mut Rows) {
    for relation in &objects.relations {
        let Source::Sequence { column, .. } = &relation.source else { continue };
        rows.push([
            ("seqrelid", relation.oid.into()),
            ("seqtypid", column_type_oid(&column.data_type).into()),
            ("seqstart", 1.into()),
            ("seqincrement", 1.into()),
            ("seqmax", greatest(column).into()),
            ("seqmin", 1.into()),
            ("seqcache", 1.into()),
        ]);
    }
}

pub(super) fn sequences(inputs: &Inputs<'_>, rows: &mut Rows) {
    for relation in &inputs.lookup.objects.relations {
        let Source::Sequence { column, .. } = &relation.source else { continue };
        rows.push([
            ("schemaname", (&relation.namespace).into()),
            ("sequencename", (&relation.name).into()),
            ("sequenceowner", inputs.lookup.role_name(relation.access.owner).into()),
            ("data_type", i64::from(column_type_oid(&column.data_type)).into()),
            ("start_value", 1.into()),
            ("min_value", 1.into()),
            ("max_value", greatest(column).into()),
            ("increment_by", 1.into()),
            ("cycle", false.into()),
            ("cache_size", 1.into()),
        ]);
    }
}
