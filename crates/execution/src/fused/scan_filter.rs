//! Filters that a scan can apply before it reads the rest of the columns.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::collect_columns;
use thalweg_scan::{Predicate, RowFilter};

use super::expression::{Columns, Value};

/// Translates those conjuncts of a filter that can be translated; `None` if none can. Columns from
/// `table_columns` on do not belong to the table.
pub(crate) fn row_filter_of(
    filter: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    table_columns: usize,
) -> Option<RowFilter> {
    let mut places: Vec<usize> =
        collect_columns(filter).iter().map(|column| column.index()).collect();
    places.retain(|place| *place < table_columns);
    places.sort_unstable();
    let mut values = vec![None; schema.fields().len()];
    for (among, place) in places.iter().enumerate() {
        values[*place] = Some(Value::column(among, schema.field(*place).data_type().clone()));
    }
    let columns = Columns::of_table(values, Arc::clone(schema));
    let parts = split_conjunction(filter).into_iter();
    let known: Vec<Predicate> = parts.filter_map(|part| columns.predicate(part, true)).collect();
    (!known.is_empty()).then(|| RowFilter::new(places, Predicate::And(known)))
}
