//! The set of distinct outer bindings for which a subquery is evaluated.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, NullEquality, Result, ScalarValue};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Distinct, Expr, Join, JoinConstraint, JoinType, LogicalPlan, Operator, Projection, binary_expr,
    lit,
};

use super::binding::binding;

/// Makes names that no query uses.
#[derive(Default)]
pub(super) struct Names {
    next: usize,
}

impl Names {
    pub(super) fn fresh(&mut self, stem: &str) -> String {
        self.next += 1;
        format!("__{stem}_{}", self.next)
    }
}

/// The distinct values of some outer columns: every binding of a subquery's outer references.
pub(super) struct Domain {
    /// The outer plan that the bindings come from.
    outer: Arc<LogicalPlan>,
    /// The outer columns that are bound, one for each key.
    columns: Vec<Column>,
    /// The references of the subquery to the bindings, each with the position of its column.
    references: Vec<(Column, usize)>,
}

impl Domain {
    /// The bindings from `outer` that `subquery` refers to. References that `outer` doesn't know
    /// belong to queries further out and are no part of it.
    pub(super) fn new(outer: &Arc<LogicalPlan>, subquery: &LogicalPlan) -> Result<Domain> {
        let schema = outer.schema();
        let mut columns: Vec<Column> = vec![];
        let mut references = vec![];
        for reference in outer_references(subquery)? {
            let Ok(index) = schema.index_of_column(&reference) else { continue };
            let column = Column::from(schema.qualified_field(index));
            let known = columns.iter().position(|other| *other == column);
            let place = known.unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            });
            references.push((reference, place));
        }
        Ok(Domain { outer: Arc::clone(outer), columns, references })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The columns of the outer plan that are bound, in the order of the keys.
    pub(super) fn outer_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter()
    }

    /// True if `plan` refers to any of the bindings.
    pub(super) fn is_used_by(&self, plan: &LogicalPlan) -> Result<bool> {
        let references = outer_references(plan)?;
        Ok(self.references.iter().any(|(reference, _)| references.contains(reference)))
    }

    /// True if `expression` itself refers to any of the bindings.
    pub(super) fn is_used_in(&self, expression: &Expr) -> Result<bool> {
        expression.exists(|expression| {
            Ok(match expression {
                Expr::OuterReferenceColumn(_, column) => {
                    self.references.iter().any(|(reference, _)| reference == column)
                }
                _ => false,
            })
        })
    }

    /// The bindings as a plan of their own, with key columns that have fresh names.
    pub(super) fn plan(&self, names: &mut Names) -> Result<(LogicalPlan, Vec<Column>)> {
        assert!(!self.is_empty(), "a subquery without outer references needs no domain");
        let columns: Vec<Expr> = self.outer_columns().cloned().map(Expr::Column).collect();
        let bound = Projection::try_new(columns.clone(), Arc::clone(&self.outer))?;
        let distinct = Distinct::All(Arc::new(LogicalPlan::Projection(bound)));
        let keys: Vec<Column> =
            columns.iter().map(|_| Column::new_unqualified(names.fresh("outer"))).collect();
        let named =
            columns.into_iter().zip(&keys).map(|(column, key)| binding(column).alias(&key.name));
        Ok((project(named, LogicalPlan::Distinct(distinct))?, keys))
    }

    /// `expression` with the outer references replaced by the keys.
    pub(super) fn bind(&self, expression: Expr, keys: &[Column]) -> Result<Expr> {
        assert_eq!(self.columns.len(), keys.len(), "one key for each binding");
        expression
            .transform_up(|expression| {
                let Expr::OuterReferenceColumn(_, column) = &expression else {
                    return Ok(Transformed::no(expression));
                };
                let known = self.references.iter().find(|(reference, _)| reference == column);
                Ok(match known {
                    Some((_, place)) => Transformed::yes(Expr::Column(keys[*place].clone())),
                    None => Transformed::no(expression),
                })
            })
            .data()
    }
}

/// The outer references in `plan`, each once. Subqueries inside it that are left to DataFusion
/// refer only to the plan around them, so the search doesn't enter them.
pub(super) fn outer_references(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut references: Vec<Column> = vec![];
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                if let Expr::OuterReferenceColumn(_, column) = expression
                    && !references.contains(column)
                {
                    references.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(references)
}

/// Conditions that hold where the columns are equal or both NULL.
///
/// They are spelled as plain equalities of expressions that are never NULL. `IS NOT DISTINCT
/// FROM` would say the same, but DataFusion turns it into a join under which NULLs are equal, and
/// later adds other equalities to the keys of that join, for which NULLs must differ.
pub(super) fn null_safe_equalities(
    left: &DFSchema,
    right: &DFSchema,
    pairs: impl IntoIterator<Item = (Column, Column)>,
) -> Result<Vec<Expr>> {
    let mut conditions = vec![];
    for (left_column, right_column) in pairs {
        let left_field = left.field_from_column(&left_column)?;
        let right_field = right.field_from_column(&right_column)?;
        let (left, right) = (Expr::Column(left_column), Expr::Column(right_column));
        if !left_field.is_nullable() && !right_field.is_nullable() {
            conditions.push(left.eq(right));
            continue;
        }
        let Ok(substitute) = ScalarValue::new_default(left_field.data_type()) else {
            conditions.push(binary_expr(left, Operator::IsNotDistinctFrom, right));
            continue;
        };
        let known = |column: &Expr| coalesce(vec![column.clone(), lit(substitute.clone())]);
        // Only a column of type NULL has no other value.
        if !substitute.is_null() {
            conditions.push(known(&left).eq(known(&right)));
        }
        conditions.push(left.is_null().eq(right.is_null()));
    }
    Ok(conditions)
}

/// A join on `conditions` alone.
pub(super) fn join(
    left: Arc<LogicalPlan>,
    right: Arc<LogicalPlan>,
    join_type: JoinType,
    conditions: Vec<Expr>,
) -> Result<LogicalPlan> {
    // DataFusion requires a condition for every join but the cross join.
    let always = (join_type != JoinType::Inner).then(|| lit(true));
    let filter = conjunction(conditions).or(always);
    let join = Join::try_new(
        left,
        right,
        vec![],
        filter,
        join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?;
    Ok(LogicalPlan::Join(join))
}

/// The columns of a plan as expressions.
pub(super) fn columns_of(schema: &DFSchema) -> impl Iterator<Item = Expr> + use<> {
    schema.columns().into_iter().map(Expr::Column)
}

/// A projection of `expressions`.
pub(super) fn project(
    expressions: impl IntoIterator<Item = Expr>,
    input: LogicalPlan,
) -> Result<LogicalPlan> {
    let expressions = expressions.into_iter().collect();
    Ok(LogicalPlan::Projection(Projection::try_new(expressions, Arc::new(input))?))
}
