//! Estimates of a remote scan: its rows, and the distinct values of its columns, after each step
//! that is folded into it. They decide about joins, exchanges and stages at the gateway.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use thalweg_execution::semi_join_filters::ASSUMED_SELECTIVITY_DIVISOR;
use thalweg_protocol::cluster as wire;

/// Estimates of the rows that a scan's workers read and send.
#[derive(Clone)]
pub(super) struct Estimates {
    /// Number of rows of the table; `None` if it is unknown or there are steps.
    pub(super) rows: Option<usize>,
    /// Number of rows that the workers send.
    pub(super) sent: Option<usize>,
    /// Number of distinct values of each column on a worker, if known.
    values: Vec<Option<usize>>,
}

impl Estimates {
    /// Estimates without any steps, if workers with this `share` of the table's rows are asked.
    pub(super) fn of_table(
        rows: Option<usize>,
        limit: Option<usize>,
        share: f64,
        values: Vec<Option<usize>>,
    ) -> Estimates {
        let sent = rows.map(|rows| (rows as f64 * share) as usize);
        let sent = sent.map(|rows| limit.map_or(rows, |limit| rows.min(limit)));
        Estimates { rows, sent, values }
    }

    /// Estimates after a step, which does the work of the operator `replaced` on each stream.
    pub(super) fn after(
        &self,
        step: &wire::step::Kind,
        replaced: &Arc<dyn ExecutionPlan>,
        streams: usize,
    ) -> Estimates {
        let groups = group_count(replaced, &self.values);
        let sent = self.sent.map(|rows| match groups {
            Some(groups) => rows.min(groups.saturating_mul(streams)),
            None => rows_after(step, rows, streams),
        });
        Estimates { rows: None, sent, values: values_after(replaced, &self.values) }
    }
}

/// Index of a column after a step, if the step keeps it.
pub(super) fn key_after(step: &wire::step::Kind, key: usize) -> Option<usize> {
    use wire::expression::Kind::Column;
    use wire::step::Kind;
    let is_key = |named: &wire::Named| {
        let expression = named.expression.as_ref().and_then(|named| named.kind.as_ref());
        matches!(expression, Some(Column(place)) if *place as usize == key)
    };
    match step {
        Kind::Filter(filter) if filter.projects => {
            filter.columns.iter().position(|place| *place as usize == key)
        }
        Kind::Project(project) => project.columns.iter().position(is_key),
        Kind::Aggregate(aggregate) => aggregate.keys.iter().position(is_key),
        Kind::Filter(_) | Kind::Sort(_) | Kind::Limit(_) | Kind::Among(_) => Some(key),
    }
}

/// Assumed number of rows per group, if the number of groups is unknown.
const ROWS_OF_GROUP: usize = 4;

/// Estimated number of rows after a step, for all workers together.
fn rows_after(step: &wire::step::Kind, rows: usize, workers: usize) -> usize {
    use wire::step::Kind;
    let at_most = |rows: usize, fetch: Option<u64>| {
        let fetch = fetch.and_then(|fetch| usize::try_from(fetch).ok());
        fetch.map_or(rows, |fetch| rows.min(fetch.saturating_mul(workers)))
    };
    match step {
        Kind::Filter(filter) => at_most(rows / ASSUMED_SELECTIVITY_DIVISOR, filter.fetch),
        Kind::Project(_) | Kind::Among(_) => rows,
        Kind::Aggregate(aggregate) if aggregate.keys.is_empty() => workers,
        Kind::Aggregate(_) => rows / ROWS_OF_GROUP,
        Kind::Sort(sort) => at_most(rows, sort.fetch),
        Kind::Limit(limit) => at_most(rows, limit.fetch),
    }
}

/// Estimated number of groups of an aggregate, over columns with so many distinct values. Returns
/// `None` if that is unknown, or the plan is no aggregate.
fn group_count(plan: &Arc<dyn ExecutionPlan>, values: &[Option<usize>]) -> Option<usize> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    combinations(aggregate.group_expr().expr().iter().map(|(key, _)| key), values)
}

/// Estimated number of distinct values of an operator's columns, over columns with so many.
fn values_after(plan: &Arc<dyn ExecutionPlan>, values: &[Option<usize>]) -> Vec<Option<usize>> {
    let value_count = |place: &usize| values.get(*place).copied().flatten();
    if let Some(project) = plan.downcast_ref::<ProjectionExec>() {
        return project.expr().iter().map(|item| combinations([&item.expr], values)).collect();
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        // Values of the aggregates, which follow the keys, are unknown.
        let keys = aggregate.group_expr().expr().iter();
        return keys.map(|(key, _)| combinations([key], values)).collect();
    }
    let projection =
        plan.downcast_ref::<FilterExec>().and_then(|filter| filter.projection().as_ref());
    match projection {
        Some(places) => places.iter().map(value_count).collect(),
        None => values.to_vec(),
    }
}

/// Upper bound of the distinct combinations of some expressions: the product of the distinct values
/// of all columns in them.
fn combinations<'a>(
    expressions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>,
    values: &[Option<usize>],
) -> Option<usize> {
    let columns: HashSet<usize> =
        expressions.into_iter().flat_map(collect_columns).map(|column| column.index()).collect();
    columns.into_iter().try_fold(1_usize, |all, column| {
        Some(all.saturating_mul(values.get(column).copied().flatten()?))
    })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::physical_expr::expressions::{Column, binary, lit};
    use datafusion::physical_plan::aggregates::{AggregateMode, PhysicalGroupBy};
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    type Expression = Arc<dyn PhysicalExpr>;

    fn schema() -> Arc<Schema> {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        Arc::new(Schema::new(["a", "b", "c"].map(field).to_vec()))
    }

    fn column(place: usize) -> Expression {
        Arc::new(Column::new(schema().field(place).name(), place))
    }

    fn grouped(keys: &[Expression]) -> Arc<dyn ExecutionPlan> {
        let keys = keys.iter().enumerate().map(|(at, key)| (Arc::clone(key), format!("k{at}")));
        let aggregate = AggregateExec::try_new(
            AggregateMode::Partial,
            PhysicalGroupBy::new_single(keys.collect()),
            Vec::new(),
            Vec::new(),
            Arc::new(EmptyExec::new(schema())),
            schema(),
        );
        Arc::new(aggregate.unwrap())
    }

    #[test]
    fn groups_are_combinations_of_what_columns_have() {
        use datafusion::logical_expr::Operator::Plus;
        let values = [Some(100), Some(7), None];
        let next = binary(column(0), Plus, lit(1_i64), &schema()).unwrap();
        let sum = binary(column(0), Plus, column(1), &schema()).unwrap();
        let groups = |keys: &[Expression]| group_count(&grouped(keys), &values);
        assert_eq!(groups(&[]), Some(1));
        assert_eq!(groups(&[column(0)]), Some(100));
        assert_eq!(groups(&[column(0), column(1)]), Some(700));
        assert_eq!(groups(&[column(0), next, sum]), Some(700), "of each column once");
        assert_eq!(groups(&[column(0), column(2)]), None);
        assert_eq!(groups(&[lit(1_i64)]), Some(1));
        assert_eq!(group_count(&grouped(&[column(2)]), &[]), None);
    }

    #[test]
    fn columns_keep_their_values_behind_other_operators() {
        let values = [Some(100), Some(7), None];
        let input = || Arc::new(EmptyExec::new(schema())) as Arc<dyn ExecutionPlan>;
        let shown = [1, 0, 2].map(|place| (column(place), format!("p{place}"))).to_vec();
        let project = Arc::new(ProjectionExec::try_new(shown, input()).unwrap()) as _;
        assert_eq!(values_after(&project, &values), [Some(7), Some(100), None]);
        assert_eq!(values_after(&grouped(&[column(1)]), &values), [Some(7)]);
        assert_eq!(values_after(&input(), &values), values);
    }
}
