//! Builds the plan of a fragment on a worker, step by step.

use std::sync::Arc;

use arrow::compute::SortOptions;
use datafusion::common::{Result, plan_err};
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use thalweg_execution::semi_join_filters::KeyMembership;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::step::Kind;
use thalweg_query::{ShardRows, Shards};
use thalweg_types::{ColumnId, TableId};
use thalweg_values::errors::external;

use crate::codec::Reader;
use crate::fused;
use crate::hidden_rows;
use crate::rows;

type Plan = Arc<dyn ExecutionPlan>;

/// The plan of a fragment over the current rows of this worker. It has one output partition.
///
/// # Errors
/// If the fragment is malformed or its table does not exist.
pub(crate) fn of_fragment(
    fragment: &wire::Fragment,
    place_base: u64,
    reader: &Reader,
    shards: &Shards,
) -> Result<Plan> {
    let columns = fragment.columns.iter().map(|column| column.checked_sub(1).map(ColumnId));
    let mut wanted = ShardRows {
        table: TableId(fragment.table),
        columns: columns.collect(),
        table_columns: fragment.table_columns.iter().copied().map(ColumnId).collect(),
        place_base,
        filter: None,
        limit: fragment.limit.and_then(|limit| usize::try_from(limit).ok()),
        hidden: hidden_rows::rows(&fragment.hidden).map_err(external)?,
        is_cached: fragment.number > 0,
    };
    if fragment.filter.is_some() {
        let schema = shards.schema(wanted.table).map_err(external)?;
        wanted.filter = Some(reader.expression(fragment.filter.as_ref(), &schema)?);
    }
    let mut scan = shards.scan(&wanted)?;
    if let Some(limit) = fragment.limit {
        scan = at_most(scan, limit);
    }
    plan(scan, &fragment.steps, reader, shards)
}

/// Applies the steps to a scan. The result has one output partition.
///
/// # Errors
/// If a step is malformed.
fn plan(scan: Plan, steps: &[wire::Step], reader: &Reader, shards: &Shards) -> Result<Plan> {
    let mut plan = scan;
    for step in steps {
        plan = match &step.kind {
            Some(Kind::Filter(filter)) => filtered(plan, filter, reader)?,
            Some(Kind::Project(project)) => projected(plan, project, reader)?,
            Some(Kind::Aggregate(aggregate)) => aggregated(plan, aggregate, reader, shards)?,
            Some(Kind::Sort(sort)) => sorted(plan, sort, reader)?,
            Some(Kind::Limit(limit)) => limited(plan, limit),
            Some(Kind::Among(among)) => among_values(plan, among)?,
            None => return plan_err!("a step of a fragment is missing"),
        };
    }
    Ok(in_one(plan))
}

fn in_one(plan: Plan) -> Plan {
    match plan.properties().partitioning.partition_count() {
        1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    }
}

fn number(wide: u64) -> usize {
    usize::try_from(wide).unwrap_or(usize::MAX)
}

fn filtered(input: Plan, filter: &wire::Filter, reader: &Reader) -> Result<Plan> {
    let predicate = reader.expression(filter.predicate.as_ref(), &input.schema())?;
    let columns = filter.columns.iter().map(|column| *column as usize).collect();
    let filtered = FilterExecBuilder::new(predicate, input)
        .apply_projection(filter.projects.then_some(columns))?
        .with_fetch(filter.fetch.map(number))
        .build()?;
    // Each partition of a filter applies the limit for itself.
    match filter.fetch {
        Some(fetch) if filtered.properties().partitioning.partition_count() > 1 => {
            Ok(at_most(Arc::new(filtered), fetch))
        }
        _ => Ok(Arc::new(filtered)),
    }
}

fn among_values(input: Plan, among: &wire::Among) -> Result<Plan> {
    let schema = input.schema();
    let place = among.column as usize;
    let (_, batches) = rows::decode(&among.values).map_err(external)?;
    let Some(field) = schema.fields().get(place) else {
        return plan_err!("a fragment has no column {place}");
    };
    let [values] = batches.as_slice() else { return plan_err!("values are one batch") };
    let Some(values) = values.columns().first() else { return plan_err!("values are a column") };
    let column = Arc::new(Column::new(field.name(), place));
    let is_among = KeyMembership::new(column, values)?;
    Ok(Arc::new(FilterExecBuilder::new(Arc::new(is_among), input).build()?))
}

fn projected(input: Plan, project: &wire::Project, reader: &Reader) -> Result<Plan> {
    let schema = input.schema();
    let columns = project.columns.iter().map(|column| {
        Ok((reader.expression(column.expression.as_ref(), &schema)?, column.name.clone()))
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Result<Vec<_>>>()?, input)?))
}

fn aggregated(
    input: Plan,
    aggregate: &wire::Aggregate,
    reader: &Reader,
    shards: &Shards,
) -> Result<Plan> {
    let schema = input.schema();
    let keys = aggregate
        .keys
        .iter()
        .map(|key| Ok((reader.expression(key.expression.as_ref(), &schema)?, key.name.clone())));
    let keys = PhysicalGroupBy::new_single(keys.collect::<Result<Vec<_>>>()?);
    let (mut calls, mut filters) = (Vec::new(), Vec::new());
    for call in &aggregate.calls {
        let arguments = reader.expressions(&call.arguments, &schema)?;
        let built = AggregateExprBuilder::new(Reader::aggregate(&call.function)?, arguments)
            .schema(Arc::clone(&schema))
            .alias(&call.name)
            .with_distinct(call.distinct)
            .with_ignore_nulls(call.ignore_nulls)
            .build()?;
        calls.push(Arc::new(built));
        filters.push(match &call.filter {
            Some(filter) => Some(reader.expression(Some(filter), &schema)?),
            None => None,
        });
    }
    let mode = match aggregate.partial {
        true => AggregateMode::Partial,
        false => AggregateMode::Single,
    };
    let made = |input| {
        let (keys, calls, filters) = (keys.clone(), calls.clone(), filters.clone());
        AggregateExec::try_new(mode, keys, calls, filters, input, Arc::clone(&schema))
    };
    let plain = made(Arc::clone(&input))?;
    if let Some(fused) = fused::fused(&plain, shards)? {
        return Ok(fused);
    }
    match aggregate.partial {
        true => Ok(Arc::new(plain)),
        false => Ok(Arc::new(made(in_one(input))?)),
    }
}

fn sorted(input: Plan, sort: &wire::Sort, reader: &Reader) -> Result<Plan> {
    let schema = input.schema();
    let keys = sort.keys.iter().map(|key| {
        let expression = reader.expression(key.expression.as_ref(), &schema)?;
        let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        Ok(PhysicalSortExpr::new(expression, options))
    });
    let Some(ordering) = LexOrdering::new(keys.collect::<Result<Vec<_>>>()?) else {
        return plan_err!("a fragment is sorted by nothing");
    };
    let fetch = sort.fetch.map(number);
    let sort = SortExec::new(ordering.clone(), input).with_preserve_partitioning(true);
    let sort: Plan = Arc::new(sort.with_fetch(fetch));
    if sort.properties().partitioning.partition_count() == 1 {
        return Ok(sort);
    }
    Ok(Arc::new(SortPreservingMergeExec::new(ordering, sort).with_fetch(fetch)))
}

/// Limits the rows of all partitions together.
fn at_most(scan: Plan, rows: u64) -> Plan {
    limited(scan, &wire::Limit { skip: 0, fetch: Some(rows) })
}

fn limited(input: Plan, limit: &wire::Limit) -> Plan {
    let (skip, fetch) = (number(limit.skip), limit.fetch.map(number));
    let input = match fetch {
        Some(fetch) if input.properties().partitioning.partition_count() > 1 => {
            Arc::new(LocalLimitExec::new(input, skip.saturating_add(fetch)))
        }
        _ => input,
    };
    Arc::new(GlobalLimitExec::new(in_one(input), skip, fetch))
}
