//! Restores field metadata of expressions, which marks a text as `json` or a number as an `oid`.
//! DataFusion drops it for subqueries and `CASE`.

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

/// The plan with metadata restored for subqueries and `CASE` expressions.
pub(super) fn restore_field_metadata(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_forgetful = false;
    plan.apply_with_subqueries(|node| {
        is_forgetful |= drops_metadata(node);
        Ok(if is_forgetful { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_forgetful {
        return Ok(plan);
    }
    let remembered = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let node = node.map_expressions(|expr| match (dropped_metadata(&expr, &schema), expr) {
            (Some(metadata), Expr::Alias(alias)) => {
                Ok(Transformed::yes(Expr::Alias(alias.with_metadata(Some(metadata)))))
            }
            (_, expr) => Ok(Transformed::no(expr)),
        })?;
        node.map_data(LogicalPlan::recompute_schema)
    });
    remembered.map(|transformed| transformed.data)
}

fn drops_metadata(node: &LogicalPlan) -> bool {
    let LogicalPlan::Projection(projection) = node else { return false };
    let schema = projection.input.schema();
    projection.expr.iter().any(|expr| dropped_metadata(expr, schema).is_some())
}

/// Metadata to restore for a named expression that lost it.
fn dropped_metadata(expr: &Expr, schema: &DFSchema) -> Option<FieldMetadata> {
    let Expr::Alias(alias) = expr else { return None };
    let is_forgetful = matches!(*alias.expr, Expr::ScalarSubquery(_) | Expr::Case(_));
    let metadata = match is_forgetful && alias.metadata.is_none() {
        true => field_metadata(&alias.expr, schema)?,
        false => return None,
    };
    (!metadata.is_empty()).then_some(metadata)
}

/// Metadata of an expression; `None` if it is unknown.
fn field_metadata(expr: &Expr, schema: &DFSchema) -> Option<FieldMetadata> {
    match expr {
        Expr::ScalarSubquery(subquery) => {
            Some(FieldMetadata::from(subquery.subquery.schema().fields().first()?.as_ref()))
        }
        Expr::Case(case) => metadata_of_branches(case, schema),
        Expr::Cast(cast) => Some(FieldMetadata::from(cast.field.as_ref())),
        other => Some(FieldMetadata::from(other.to_field(schema).ok()?.1.as_ref())),
    }
}

/// Metadata that all branches of a `CASE` share. NULL branches are ignored.
fn metadata_of_branches(case: &Case, schema: &DFSchema) -> Option<FieldMetadata> {
    let then = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    let branches = then.chain(case.else_expr.as_deref()).filter(|branch| !is_null(branch));
    let mut field_metadata = branches.map(|branch| field_metadata(branch, schema));
    let first = field_metadata.next()??;
    field_metadata.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}
