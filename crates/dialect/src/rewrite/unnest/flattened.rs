//! LATERAL queries of filters and projections, as plain joins.
//!
//! Such a query needs no domain: it gives each row of its own plan to each outer row, and its
//! expressions can be computed above the join. So the new plan contains the outer plan once. A
//! domain needs a second copy: a chain of such queries would double with each link.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{EmptyRelation, Expr, Join, JoinType, LogicalPlan};

use super::contains_subquery;
use super::domain::{Domain, Names, columns_of, join, outer_references, project};

/// A query as a plan without outer references, and the expressions over its rows and outer ones.
struct Flat {
    plan: LogicalPlan,
    predicates: Vec<Expr>,
    /// The output columns of the query, and their values over `plan` and the outer plan.
    columns: Vec<(Column, Expr)>,
}

/// `left JOIN LATERAL right` without a domain; `None` if the right side is of another form.
pub(super) fn flattened(
    original: &Join,
    domain: &Domain,
    names: &mut Names,
) -> Result<Option<LogicalPlan>> {
    if original.join_type != JoinType::Inner {
        return Ok(None);
    }
    let Some(flat) = flat(&original.right, names)? else { return Ok(None) };
    let bound = domain.outer_columns().cloned().collect::<Vec<Column>>();
    let of_right = |expression: &Expr| {
        let expression = bind(expression.clone(), &flat.columns)?;
        domain.bind(expression, &bound)
    };
    let mut conditions = vec![];
    for predicate in &flat.predicates {
        conditions.push(domain.bind(predicate.clone(), &bound)?);
    }
    for (left, right) in &original.on {
        conditions.push(left.clone().eq(of_right(right)?));
    }
    if let Some(filter) = &original.filter {
        conditions.push(of_right(filter)?);
    }
    let left = Arc::clone(&original.left);
    let is_one_empty_row = matches!(
        &flat.plan,
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. })
    );
    let joined = match is_one_empty_row {
        true => match conjunction(conditions) {
            Some(condition) => {
                let filter = datafusion::logical_expr::Filter::try_new(condition, left)?;
                LogicalPlan::Filter(filter)
            }
            None => Arc::unwrap_or_clone(left),
        },
        false => join(left, Arc::new(flat.plan), JoinType::Inner, conditions)?,
    };
    let mut expressions: Vec<Expr> = columns_of(original.left.schema()).collect();
    for (column, value) in &flat.columns {
        let value = domain.bind(value.clone(), &bound)?;
        expressions.push(match &value {
            Expr::Column(same) if same == column => value,
            _ => value.unalias().alias_qualified(column.relation.clone(), &column.name),
        });
    }
    project(expressions, joined).map(Some)
}

fn flat(plan: &LogicalPlan, names: &mut Names) -> Result<Option<Flat>> {
    if outer_references(plan)?.is_empty() {
        return base(plan, names).map(Some);
    }
    match plan {
        LogicalPlan::Subquery(subquery) => flat(&subquery.subquery, names),
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(mut inner) = flat(&alias.input, names)? else { return Ok(None) };
            for ((column, _), own) in inner.columns.iter_mut().zip(alias.schema.columns()) {
                *column = own;
            }
            Ok(Some(inner))
        }
        LogicalPlan::Projection(projection) => {
            if !projection.expr.iter().all(may_move) {
                return Ok(None);
            }
            let Some(mut inner) = flat(&projection.input, names)? else { return Ok(None) };
            if repeats_a_computation(&projection.expr, &inner.columns) {
                return Ok(None);
            }
            let mut columns = vec![];
            for (expression, own) in projection.expr.iter().zip(projection.schema.columns()) {
                columns.push((own, bind(expression.clone(), &inner.columns)?.unalias()));
            }
            inner.columns = columns;
            Ok(Some(inner))
        }
        LogicalPlan::Filter(filter) => {
            if !may_move(&filter.predicate) {
                return Ok(None);
            }
            let Some(mut inner) = flat(&filter.input, names)? else { return Ok(None) };
            inner.predicates.push(bind(filter.predicate.clone(), &inner.columns)?);
            Ok(Some(inner))
        }
        _ => Ok(None),
    }
}

/// Functions that give another value each time, and subqueries, stay where they are.
fn may_move(expression: &Expr) -> bool {
    !contains_subquery(expression) && !expression.is_volatile()
}

/// True if an expensive value would be computed more than once.
fn repeats_a_computation(expressions: &[Expr], columns: &[(Column, Expr)]) -> bool {
    let is_plain = |value: &Expr| {
        matches!(value, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..))
    };
    columns.iter().filter(|(_, value)| !is_plain(value)).any(|(column, _)| {
        let references = expressions.iter().map(|expression| {
            let mut number = 0;
            let counted = expression.apply(|part| {
                number += usize::from(matches!(part, Expr::Column(same) if same == column));
                Ok(TreeNodeRecursion::Continue)
            });
            counted.map_or(2, |_| number)
        });
        references.sum::<usize>() > 1
    })
}

/// A plan without outer references, whose column names differ from those of the outer plan.
fn base(plan: &LogicalPlan, names: &mut Names) -> Result<Flat> {
    let mut columns = vec![];
    let mut renamed = vec![];
    for column in plan.schema().columns() {
        let name = names.fresh("inner");
        renamed.push(Expr::Column(column.clone()).alias(&name));
        columns.push((column, Expr::Column(Column::new_unqualified(name))));
    }
    let plan = match renamed.is_empty() {
        true => plan.clone(),
        false => project(renamed, plan.clone())?,
    };
    Ok(Flat { plan, predicates: vec![], columns })
}

/// `expression` with columns replaced by their values.
fn bind(expression: Expr, columns: &[(Column, Expr)]) -> Result<Expr> {
    expression
        .transform_up(|expression| {
            let Expr::Column(column) = &expression else { return Ok(Transformed::no(expression)) };
            Ok(match columns.iter().find(|(own, _)| own == column) {
                Some((_, value)) => Transformed::yes(value.clone()),
                None => Transformed::no(expression),
            })
        })
        .data()
}
