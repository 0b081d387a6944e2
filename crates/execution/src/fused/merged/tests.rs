use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringViewArray,
};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use thalweg_env::RealThreads;
use thalweg_scan::LocalScheduler;

use super::super::scheduler::LocalQueryScheduler;
use super::*;
use crate::testing::with_passes_of_dialect;

const PARTS: usize = 3;

/// Rows of one part of a table, with NULLs in every column and keys that other parts have as well.
fn rows(part: usize, count: usize, groups: usize) -> RecordBatch {
    let numbers = (0..count).map(|row| row * PARTS + part);
    let some = |every: usize| move |n: usize| (!n.is_multiple_of(every)).then_some(n);
    let texts = numbers
        .clone()
        .map(some(11))
        .map(|n| n.map(|n| format!("a key that is not short at all: {}", n * 7 % groups)));
    let small = numbers.clone().map(some(13)).map(|n| n.map(|n| n as i32 % 5 - 2));
    let large = numbers.clone().map(some(7)).map(|n| n.map(|n| n as i64 * 1_000_003));
    let floats = numbers.clone().map(some(5)).map(|n| n.map(|n| n as f64 / 8.0));
    let days = numbers.clone().map(some(3)).map(|n| n.map(|n| 19_000 + n as i32 % 400));
    let prices = numbers.map(some(17)).map(|n| n.map(|n| n as i128 * 5));
    let prices = Decimal128Array::from_iter(prices).with_precision_and_scale(12, 2).unwrap();
    let columns: [(&str, ArrayRef); 6] = [
        ("name", Arc::new(StringViewArray::from_iter(texts))),
        ("small", Arc::new(Int32Array::from_iter(small))),
        ("large", Arc::new(Int64Array::from_iter(large))),
        ("rate", Arc::new(Float64Array::from_iter(floats))),
        ("day", Arc::new(Date32Array::from_iter(days))),
        ("price", Arc::new(prices)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// A session with a table of several parts, and what memory its plans may take.
fn session(count: usize, groups: usize, memory: usize) -> SessionContext {
    let threads = LocalScheduler::start(2, &RealThreads).unwrap();
    let scheduler: Arc<dyn QueryScheduler> = Arc::new(LocalQueryScheduler::new(threads, 0));
    let config = SessionConfig::new()
        .with_target_partitions(2)
        .with_extension(Arc::new(Scheduling(scheduler)));
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0).build_arc().unwrap();
    let builder = SessionStateBuilder::new().with_config(config).with_runtime_env(runtime);
    let builder = with_passes_of_dialect(thalweg_dialect::configure(builder));
    let context = SessionContext::new_with_state(builder.build());
    let parts: Vec<_> = (0..PARTS).map(|part| vec![rows(part, count, groups)]).collect();
    let table = MemTable::try_new(parts[0][0].schema(), parts).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

async fn planned(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// The plan with its groups merged, and how many of its aggregates that concerned.
fn merged(plan: Arc<dyn ExecutionPlan>) -> (Arc<dyn ExecutionPlan>, usize) {
    let mut count = 0;
    let merged = plan.transform_up(|plan| {
        let aggregate = plan.downcast_ref::<AggregateExec>();
        let groups = aggregate.map(MergedGroups::in_place_of).transpose()?.flatten();
        Ok(match groups {
            Some(groups) => {
                count += 1;
                Transformed::yes(Arc::new(groups) as _)
            }
            None => Transformed::no(plan),
        })
    });
    (merged.data().unwrap(), count)
}

async fn told(context: &SessionContext, plan: Arc<dyn ExecutionPlan>) -> Vec<String> {
    let batches = collect(plan, context.task_ctx()).await.unwrap();
    let mut lines: Vec<String> =
        pretty_format_batches(&batches).unwrap().to_string().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

const ROOMY: usize = 1 << 30;

const AGGREGATES: [&str; 15] = [
    "count(*)",
    "count(rate)",
    "count(*) FILTER (WHERE small > 0)",
    "sum(large)",
    "sum(rate)",
    "sum(price)",
    "avg(large)",
    "avg(rate)",
    "avg(price)",
    "avg(price) FILTER (WHERE small > 0)",
    "min(name)",
    "max(day)",
    "min(small)",
    "max(price)",
    "min(rate)",
];

#[tokio::test(flavor = "multi_thread")]
async fn merged_groups_are_those_of_datafusion() {
    for (count, groups) in [(0, 1), (1, 1), (200, 7), (30_000, 90_001)] {
        let context = session(count, groups, ROOMY);
        for keys in ["name", "small", "day, small", "rate", "price, name"] {
            let all = AGGREGATES.join(", ");
            // Each by itself where groups are few. Without any, they are what is distinct.
            let single = if groups < 1_000 { &AGGREGATES[..] } else { &[] };
            for aggregates in single.iter().copied().chain([all.as_str(), "1"]) {
                let sql = format!("SELECT {keys}, {aggregates} FROM t GROUP BY {keys}");
                let plan = planned(&context, &sql).await;
                let (merged, places) = merged(Arc::clone(&plan));
                assert_eq!(places, 1, "{sql}");
                assert_eq!(told(&context, merged).await, told(&context, plan).await, "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn what_has_other_states_is_left_as_it_is() {
    let context = session(100, 7, ROOMY);
    for aggregates in [
        "count(DISTINCT small)",
        "array_agg(small)",
        "stddev(rate)",
        "bool_and(small > 0)",
        "first_value(small ORDER BY large)",
    ] {
        let sql = format!("SELECT name, count(*), {aggregates} FROM t GROUP BY name");
        let (_, places) = merged(planned(&context, &sql).await);
        assert_eq!(places, 0, "{sql}");
    }
    for unit in ["Timestamp(Second, None)", "Timestamp(Millisecond, None)", "Time64(Nanosecond)"] {
        let time = format!("arrow_cast(large, '{unit}')");
        for sql in [
            format!("SELECT {time}, count(*) FROM t GROUP BY 1"),
            format!("SELECT name, max({time}) FROM t GROUP BY name"),
        ] {
            assert_eq!(merged(planned(&context, &sql).await).1, 0, "{sql}");
        }
    }
    // Without keys there is nothing to look for.
    assert_eq!(merged(planned(&context, "SELECT count(*), sum(large) FROM t").await).1, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_find_no_memory_are_merged_from_disk() {
    let sql = "SELECT name, large, count(*), avg(price) FROM t GROUP BY name, large";
    let roomy = session(100_000, 400_009, ROOMY);
    let wanted = told(&roomy, planned(&roomy, sql).await).await;
    let narrow = session(100_000, 400_009, 24 << 20);
    let (plan, places) = merged(planned(&narrow, sql).await);
    assert_eq!(places, 1);
    assert_eq!(told(&narrow, Arc::clone(&plan)).await, wanted);
    let mut spilled = 0;
    plan.apply(|plan| {
        let metrics = plan.metrics().filter(|_| plan.is::<MergedGroups>());
        let bytes = metrics.and_then(|metrics| metrics.sum_by_name("spilled_bytes"));
        spilled += bytes.map_or(0, |bytes| bytes.as_usize());
        Ok(TreeNodeRecursion::Continue)
    })
    .unwrap();
    assert!(spilled > 0);
}
