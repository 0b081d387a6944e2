//! Subqueries that refer to outer rows, turned into joins.
//!
//! DataFusion decorrelates the common shapes of subqueries, and refuses the others or answers
//! them wrongly. [`UnnestSubqueries`] handles those. The method is that of Neumann and Kemper,
//! "Unnesting Arbitrary Queries" (BTW 2015). The distinct bindings of a subquery's outer references
//! are a relation, the *domain*. Pushed down through the subquery's plan, it makes the subquery
//! answer for all bindings at once; the answers are joined back to the outer rows.
//!
//! ```text
//! SELECT a, (SELECT count(*) FROM u WHERE u.x < t.b) FROM t
//!
//! Projection: a, n                          Projection: a, CASE WHEN absent THEN 0 ELSE n
//!   Subquery: count(*) where x < outer b      LeftJoin: t.b = domain.b (NULL equals NULL)
//!   t                                           t
//!                                               Aggregate: count(*) for each domain.b
//!                                                 Filter: x < domain.b
//!                                                   CrossJoin
//!                                                     Distinct: b of t   (the domain)
//!                                                     u
//! ```
//!
//! - `native`: the subqueries that are left to DataFusion, whose plans stay as they are.
//! - `domain`: the domain, and the join of keys under which NULL equals NULL.
//! - `dependent`, `ranked`: the domain's way down, operator by operator.
//! - `flattened`: LATERAL queries that need no domain.
//! - `replace`: the replacement of each kind of subquery: EXISTS, IN, ANY, ALL, scalar.
//! - `binding`: stops the optimizer from using the domain's uniqueness beyond the domain.
//! - `guarded`: subqueries that are evaluated for some rows only.
//! - `single_row`: the error of a scalar subquery with several rows.
//!
//! The rule works from the inside out: when a subquery is unnested, those inside it are gone
//! already, and their remaining references to outer queries are pushed down like the rest.

mod binding;
mod dependent;
mod domain;
mod flattened;
mod guarded;
mod native;
mod ranked;
mod replace;
mod single_row;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Distinct, DistinctOn, EmptyRelation, Expr, Filter, Join, JoinType, LogicalPlan, Projection,
    Sort, Subquery, Union, Values,
};
use datafusion::optimizer::AnalyzerRule;

use dependent::{Dependent, Push};
use domain::{Domain, Names, columns_of, join, null_safe_equalities, outer_references, project};
use flattened::flattened;
use guarded::Guarded;
use native::{Place, is_native};
use replace::Replace;

/// The rule. It belongs behind DataFusion's own analyzer rules, whose coercions it relies on.
#[derive(Debug, Default)]
pub struct UnnestSubqueries {}

impl AnalyzerRule for UnnestSubqueries {
    fn name(&self) -> &str {
        "unnest_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut concerned = false;
        plan.apply(|node| {
            concerned |= matches!(node, LogicalPlan::Subquery(_)) || has_subquery(node)?;
            Ok(if concerned { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !concerned {
            return Ok(plan);
        }
        Unnester { names: Names::default() }.query(plan)
    }
}

struct Unnester {
    names: Names,
}

impl Unnester {
    /// Unnests all subqueries in `plan`, from the leaves up.
    fn query(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.transform_down(filtered_early).data()?;
        plan.transform_up(|node| self.node(node).map(Transformed::yes)).data()
    }

    fn node(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let node = match node {
            // DataFusion marks LATERAL by a node around the right side, but not when the only
            // references to the left are in subqueries of it. The references tell for sure.
            LogicalPlan::Join(join) => {
                let domain = Domain::new(&join.left, &join.right)?;
                if domain.is_empty() {
                    LogicalPlan::Join(join)
                } else {
                    self.lateral(join, &domain)?
                }
            }
            other => other,
        };
        if !has_subquery(&node)? {
            return Ok(node);
        }
        let schema = Arc::clone(node.schema());
        let node = node.map_subqueries(|subquery| self.inner(subquery)).data()?;
        let node = match node {
            LogicalPlan::Filter(filter) => self.filter(filter)?,
            LogicalPlan::Join(join) => self.join(join)?,
            LogicalPlan::Sort(sort) => self.sort(sort)?,
            LogicalPlan::Values(values) => self.values(&values)?,
            LogicalPlan::Distinct(Distinct::On(first)) => self.first_of_each(first)?,
            other => self.expressions(other)?,
        };
        if node.schema().columns() == schema.columns() {
            return Ok(node);
        }
        project(columns_of(&schema), node)
    }

    /// Unnests the subqueries inside a subquery, so that only its own outer references are left.
    fn inner(&mut self, subquery: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Subquery(subquery) = subquery else {
            return Ok(Transformed::no(subquery));
        };
        let plan = self.query(Arc::unwrap_or_clone(subquery.subquery))?;
        let outer_ref_columns = free_references(&plan)?;
        Ok(Transformed::yes(LogicalPlan::Subquery(Subquery {
            subquery: Arc::new(plan),
            outer_ref_columns,
            spans: subquery.spans,
        })))
    }

    /// Replaces subqueries in `expressions` that stand over `input`.
    fn replace(
        &mut self,
        expressions: Vec<Expr>,
        place: Place,
        input: Arc<LogicalPlan>,
    ) -> Result<(Vec<Expr>, Arc<LogicalPlan>)> {
        let mut replace = Replace { plan: input, names: &mut self.names, guard: None };
        let replaced = expressions
            .into_iter()
            .map(|expression| Guarded::new(&mut replace, place).replaced(expression))
            .collect::<Result<Vec<Expr>>>()?;
        Ok((replaced, replace.plan))
    }

    fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        let mut input = filter.input;
        let mut predicates = vec![];
        let conjuncts = split_conjunction_owned(filter.predicate).into_iter();
        let mut conjuncts: Vec<Expr> = conjuncts.map(negation_inside).collect();
        if has_foreign(&conjuncts, &input)? {
            // A subquery must not be computed, and fail, for rows that other predicates remove.
            let is_early = |conjunct: &Expr| {
                !(contains_subquery(conjunct)
                    || conjunct.is_volatile()
                    || conjunct.contains_outer())
            };
            let (early, late): (Vec<Expr>, Vec<Expr>) = conjuncts.into_iter().partition(is_early);
            conjuncts = late;
            if let Some(early) = conjunction(early) {
                input = Arc::new(LogicalPlan::Filter(Filter::try_new(early, input)?));
            }
        }
        for predicate in conjuncts {
            let place = place_of(&predicate);
            let (mut replaced, extended) = self.replace(vec![predicate], place, input)?;
            predicates.append(&mut replaced);
            input = extended;
        }
        let predicate = conjunction(predicates).expect("a filter has a predicate");
        Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?))
    }

    /// Any operator with one input, through its expressions.
    fn expressions(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let inputs = node.inputs();
        let [input] = inputs.as_slice() else {
            return Err(DataFusionError::NotImplemented(format!(
                "a subquery within {} is not supported",
                node.display()
            )));
        };
        let input = Arc::new((*input).clone());
        let place = match node {
            LogicalPlan::Projection(_) => Place::Projection,
            _ => Place::Elsewhere,
        };
        let expressions = node.expressions();
        let (replaced, input) = self.replace(expressions.clone(), place, input)?;
        let named = replaced
            .into_iter()
            .zip(expressions)
            .map(|(new, old)| if new == old { Ok(new) } else { keep_name(new, &old, &node) })
            .collect::<Result<Vec<Expr>>>()?;
        node.with_new_exprs(named, vec![Arc::unwrap_or_clone(input)])
    }

    /// A sort may order by outer references to columns that the projection below leaves out.
    fn sort(&mut self, sort: Sort) -> Result<LogicalPlan> {
        let LogicalPlan::Projection(projection) = sort.input.as_ref() else {
            return self.expressions(LogicalPlan::Sort(sort));
        };
        let mut expressions = projection.expr.clone();
        for by in &sort.expr {
            by.expr.apply(|expression| {
                let Some(subquery) = subquery_of(expression) else {
                    return Ok(TreeNodeRecursion::Continue);
                };
                for reference in outer_references(&subquery.subquery)? {
                    let column = Expr::Column(reference.clone());
                    if projection.schema.index_of_column(&reference).is_err()
                        && projection.input.schema().index_of_column(&reference).is_ok()
                        && !expressions.contains(&column)
                    {
                        expressions.push(column);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        let projection = Projection::try_new(expressions, Arc::clone(&projection.input))?;
        let input = Arc::new(LogicalPlan::Projection(projection));
        self.expressions(LogicalPlan::Sort(Sort { input, ..sort }))
    }

    /// `DISTINCT ON`: subqueries in its SELECT list become columns of its input.
    fn first_of_each(&mut self, first: DistinctOn) -> Result<LogicalPlan> {
        let DistinctOn { on_expr, select_expr, sort_expr, input, .. } = first;
        let mut columns: Vec<Expr> = columns_of(input.schema()).collect();
        let selected = select_expr.into_iter().map(|expression| {
            if !contains_subquery(&expression) {
                return expression;
            }
            let (qualifier, name) = expression.qualified_name();
            let own = self.names.fresh("selected");
            columns.push(expression.unalias().alias(&own));
            Expr::Column(Column::new_unqualified(own)).alias_qualified(qualifier, name)
        });
        let selected: Vec<Expr> = selected.collect();
        let input = self.expressions(project(columns, Arc::unwrap_or_clone(input))?)?;
        let first = DistinctOn::try_new(on_expr, selected, sort_expr, Arc::new(input))?;
        Ok(LogicalPlan::Distinct(Distinct::On(first)))
    }

    /// Rows of expressions with subqueries: each row becomes a projection.
    fn values(&mut self, values: &Values) -> Result<LogicalPlan> {
        let mut rows = vec![];
        for row in &values.values {
            let empty = EmptyRelation {
                produce_one_row: true,
                schema: Arc::new(datafusion::common::DFSchema::empty()),
            };
            let named = row.iter().cloned().zip(values.schema.iter());
            let named = named.map(|(value, (qualifier, field))| {
                value.alias_qualified(qualifier.cloned(), field.name())
            });
            let row = project(named, LogicalPlan::EmptyRelation(empty))?;
            rows.push(Arc::new(self.expressions(row)?));
        }
        match <[_; 1]>::try_from(rows) {
            Ok([row]) => Ok(Arc::unwrap_or_clone(row)),
            Err(rows) => Ok(LogicalPlan::Union(Union::try_new_with_loose_types(rows)?)),
        }
    }

    /// Subqueries in the condition of a join.
    fn join(&mut self, original: Join) -> Result<LogicalPlan> {
        if original.join_type == JoinType::Inner {
            // The condition of an inner join may as well be a filter above it.
            let predicates = split_conjunction_owned(
                original.filter.expect("the subquery is in the join's condition"),
            );
            let (with, without): (Vec<Expr>, Vec<Expr>) =
                predicates.into_iter().partition(contains_subquery);
            let joined = Join { filter: conjunction(without), ..original };
            let Some(predicate) = conjunction(with) else {
                return Err(DataFusionError::NotImplemented(
                    "a subquery within a join's key is not supported".to_owned(),
                ));
            };
            let filter = Filter::try_new(predicate, Arc::new(LogicalPlan::Join(joined)))?;
            return self.filter(filter);
        }
        self.outer_join(original)
    }

    /// Replaces the subqueries of an outer join's condition on the side that they refer to.
    fn outer_join(&mut self, original: Join) -> Result<LogicalPlan> {
        let Join { left, right, on, filter, .. } = &original;
        let filter = filter.clone().expect("the subquery is in the join's condition");
        let mut references: Vec<Column> = vec![];
        filter.apply(|expression| {
            if let Some(subquery) = subquery_of(expression) {
                references.extend(outer_references(&subquery.subquery)?);
                references.extend(expression.column_refs().into_iter().cloned());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let all_in = |side: &LogicalPlan| {
            references.iter().all(|reference| side.schema().index_of_column(reference).is_ok())
        };
        let (left, right, filter) = if all_in(right) {
            let (filter, right) = self.replace(vec![filter], Place::Elsewhere, right.clone())?;
            (left.clone(), right, filter)
        } else if all_in(left) {
            let (filter, left) = self.replace(vec![filter], Place::Elsewhere, left.clone())?;
            (left, right.clone(), filter)
        } else {
            return Err(DataFusionError::NotImplemented(
                "a subquery over both sides of an outer join is not supported".to_owned(),
            ));
        };
        Ok(LogicalPlan::Join(Join::try_new(
            left,
            right,
            on.clone(),
            conjunction(filter),
            original.join_type,
            original.join_constraint,
            original.null_equality,
            original.null_aware,
        )?))
    }

    /// `left JOIN LATERAL right`: the bindings come from the left side.
    fn lateral(&mut self, original: Join, domain: &Domain) -> Result<LogicalPlan> {
        if !matches!(original.join_type, JoinType::Inner | JoinType::Left) {
            return Err(DataFusionError::Plan(
                "the combining JOIN type must be INNER or LEFT for a LATERAL reference".to_owned(),
            ));
        }
        if let Some(flat) = flattened(&original, domain, &mut self.names)? {
            return project(columns_of(&original.schema), flat);
        }
        let Dependent { plan: right, keys } =
            Push { domain, names: &mut self.names }.push(&original.right)?;
        let pairs = domain.outer_columns().cloned().zip(keys);
        let mut conditions = null_safe_equalities(original.left.schema(), right.schema(), pairs)?;
        conditions.extend(original.on.into_iter().map(|(left, right)| left.eq(right)));
        conditions.extend(original.filter);
        let joined = join(original.left, Arc::new(right), original.join_type, conditions)?;
        project(columns_of(&original.schema), joined)
    }
}

/// Moves predicates about the left side of a lateral join to that side: its right side must not be
/// computed, and fail, for rows that the predicates remove.
fn filtered_early(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(Filter { predicate, input, .. }) = &node else {
        return Ok(Transformed::no(node));
    };
    let LogicalPlan::Join(join) = input.as_ref() else { return Ok(Transformed::no(node)) };
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left)
        || Domain::new(&join.left, &join.right)?.is_empty()
    {
        return Ok(Transformed::no(node));
    }
    let left = join.left.schema();
    let is_early = |predicate: &Expr| {
        !contains_subquery(predicate)
            && !predicate.is_volatile()
            && !predicate.contains_outer()
            && predicate.column_refs().iter().all(|column| left.index_of_column(column).is_ok())
    };
    let (early, late): (Vec<Expr>, Vec<Expr>) =
        split_conjunction_owned(predicate.clone()).into_iter().partition(is_early);
    let Some(early) = conjunction(early) else { return Ok(Transformed::no(node)) };
    let left = Filter::try_new(early, Arc::clone(&join.left))?;
    let left = Arc::new(LogicalPlan::Filter(left));
    let join = Arc::new(LogicalPlan::Join(Join { left, ..join.clone() }));
    Ok(Transformed::yes(match conjunction(late) {
        Some(late) => LogicalPlan::Filter(Filter::try_new(late, join)?),
        None => Arc::unwrap_or_clone(join),
    }))
}

/// True if a subquery among the predicates of a filter is not left to DataFusion.
fn has_foreign(conjuncts: &[Expr], input: &LogicalPlan) -> Result<bool> {
    for conjunct in conjuncts {
        let place = place_of(conjunct);
        let is_foreign =
            conjunct.exists(|part| Ok(is_subquery(part) && !is_native(part, place, input)?))?;
        if is_foreign {
            return Ok(true);
        }
    }
    Ok(false)
}

fn place_of(predicate: &Expr) -> Place {
    if is_subquery(predicate) { Place::Conjunct } else { Place::Filter }
}

fn is_subquery(expression: &Expr) -> bool {
    subquery_of(expression).is_some()
}

fn subquery_of(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(member) => Some(&member.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        _ => None,
    }
}

/// True if there is a subquery anywhere in `expression`.
fn contains_subquery(expression: &Expr) -> bool {
    expression.exists(|expression| Ok(is_subquery(expression))).expect("the test never fails")
}

fn has_subquery(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expression| {
        found |= contains_subquery(expression);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// `NOT EXISTS` and `NOT IN` as DataFusion's own negated forms.
fn negation_inside(predicate: Expr) -> Expr {
    let Expr::Not(inner) = predicate else { return predicate };
    match *inner {
        Expr::Exists(mut exists) => {
            exists.negated = !exists.negated;
            Expr::Exists(exists)
        }
        Expr::InSubquery(mut member) => {
            member.negated = !member.negated;
            Expr::InSubquery(member)
        }
        other => Expr::Not(Box::new(other)),
    }
}

/// The outer references in `plan` as expressions, each once.
fn free_references(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut references: Vec<Expr> = vec![];
    plan.apply(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                if matches!(expression, Expr::OuterReferenceColumn(..))
                    && !references.contains(expression)
                {
                    references.push(expression.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(references)
}

/// Gives `new` the name that `old` had in the output of `node`, if it has one there.
fn keep_name(new: Expr, old: &Expr, node: &LogicalPlan) -> Result<Expr> {
    match node {
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
            if !matches!(old, Expr::GroupingSet(_)) =>
        {
            let (qualifier, name) = old.qualified_name();
            Ok(new.unalias().alias_qualified(qualifier, name))
        }
        _ => Ok(new),
    }
}
