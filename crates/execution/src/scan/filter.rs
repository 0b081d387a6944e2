//! Combines the filters that DataFusion hands to a table into one for scans.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::PhysicalExpr;

/// The conjunction of the filters, over the columns of `schema`; `None` if there are no filters.
///
/// # Errors
/// If a filter names a column that is not in the schema.
pub fn executable(
    filters: &[Expr],
    schema: &SchemaRef,
    session: &dyn Session,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let Some(filter) = conjunction(filters.iter().cloned()) else { return Ok(None) };
    let schema = DFSchema::try_from(Arc::clone(schema))?;
    session.create_physical_expr(filter, &schema).map(Some)
}
