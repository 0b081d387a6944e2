//! Restores field metadata of expressions, which marks a text as `json` or a number as an `oid`.
//! DataFusion drops it for subqueries and `CASE`.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, Union};
use thalweg_values::system_types::SystemType;

/// The plan with metadata restored for subqueries and `CASE` expressions, and with one type for
/// each column of a union.
pub(super) fn restore_field_metadata(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = with_numbers_of_unions(plan)?;
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

/// A union of an `oid` and a `regclass` is an `oid`. DataFusion takes the metadata of the last
/// input that has some.
fn with_numbers_of_unions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut is_mixed = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Union(union) = node {
            is_mixed |= !mixed_columns(union).is_empty();
        }
        Ok(if is_mixed { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_mixed {
        return Ok(plan);
    }
    let changed = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::Union(union) => {
                let mixed = mixed_columns(&union);
                let inputs = union.inputs.iter().map(|input| as_numbers(input, &mixed));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                return Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(
                    inputs,
                )?)));
            }
            node => node,
        };
        Transformed::yes(node).map_data(LogicalPlan::recompute_schema)
    });
    changed.map(|transformed| transformed.data)
}

/// The columns of which some inputs show the names of objects, and others numbers.
fn mixed_columns(union: &Union) -> Vec<usize> {
    let is_mixed = |column: &usize| {
        let fields = union.inputs.iter().map(|input| input.schema().field(*column));
        let numbers = fields.filter(|field| field.data_type().is_integer());
        let types: Vec<Option<SystemType>> = numbers.map(|field| SystemType::of(field)).collect();
        let names = |kind: &Option<SystemType>| matches!(kind, Some(SystemType::Registered(_)));
        types.iter().any(names) && types.iter().any(|kind| *kind != types[0])
    };
    let width = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    (0..width).filter(is_mixed).collect()
}

/// An input of a union with numbers in place of the names of objects.
fn as_numbers(input: &Arc<LogicalPlan>, columns: &[usize]) -> Result<Arc<LogicalPlan>> {
    let names = |field: &Field| matches!(SystemType::of(field), Some(SystemType::Registered(_)));
    if !columns.iter().any(|column| names(input.schema().field(*column))) {
        return Ok(Arc::clone(input));
    }
    let shown = input.schema().iter().enumerate().map(|(place, (relation, field))| {
        let shown = Expr::Column(Column::from((relation, field)));
        if !columns.contains(&place) || !names(field) {
            return shown;
        }
        let oid = SystemType::Oid.field(field.name(), field.is_nullable());
        let metadata = FieldMetadata::from(&oid);
        shown.alias_qualified_with_metadata(relation.cloned(), field.name(), Some(metadata))
    });
    let projection = Projection::try_new(shown.collect(), Arc::clone(input))?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
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
