//! Each pass, by the plan of a statement without and with it. The plans are files in `snapshots`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use arrow::array::{Array as _, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use futures::TryStreamExt as _;

use super::*;
use crate::Database;
use crate::planner::Planner;

const TABLES: [&str; 16] = [
    "CREATE TABLE t (a integer PRIMARY KEY, b integer, c text, d date, n numeric(10, 2), \
     i interval)",
    "CREATE TABLE u (a integer PRIMARY KEY, b integer, c text)",
    "CREATE TABLE v (a integer PRIMARY KEY, b integer)",
    "CREATE INDEX ON t (b)",
    "INSERT INTO t SELECT g, g % 7, 'c' || g, date '1998-01-01' + g, g, interval '1 day' * g \
     FROM generate_series(1, 1000) s(g)",
    "INSERT INTO u SELECT g, g % 5, 'c' || g FROM generate_series(1, 500) s(g)",
    "INSERT INTO v SELECT g, g % 3 FROM generate_series(1, 100) s(g)",
    // Two full chunks.
    "CREATE TABLE w (a integer)",
    "INSERT INTO w SELECT g FROM generate_series(1, 131072) s(g)",
    "CREATE TABLE bids (k integer, x integer)",
    "CREATE TABLE asks (a integer, k integer, c integer)",
    "INSERT INTO bids VALUES (1, 10), (5, 50), (NULL, 7)",
    "INSERT INTO asks VALUES (100, 1, 1000), (2, 5, 2000), (0, 7, 1)",
    "CREATE TABLE x (a integer, b integer)",
    "CREATE INDEX ON x (b)",
    "INSERT INTO x SELECT g, g % 1000 FROM generate_series(1, 131072) s(g)",
];

/// Longer plans are cut in the snapshots.
const LINES_MAX: usize = 24;

/// A statement for each pass, whose plan differs without the pass.
const STATEMENTS: [(&str, &str); 25] = [
    ("computed_limits", "SELECT a FROM t ORDER BY a LIMIT (SELECT min(a) FROM u)"),
    ("union_types", "SELECT a FROM t UNION ALL SELECT '1'"),
    ("unknown_literals", "SELECT b FROM t WHERE b = 'x'"),
    ("interval_windows", "SELECT rank() OVER (ORDER BY i) FROM t"),
    ("postgres_operators", "SELECT a / b FROM t"),
    ("types_of_arguments", "SELECT pg_typeof(ARRAY[c::json]) FROM t"),
    ("count_set_operations", "SELECT b FROM t EXCEPT ALL SELECT b FROM u"),
    ("unnest_subqueries", "SELECT a, (SELECT b FROM u WHERE u.a = t.b) FROM t"),
    ("compare_days", "SELECT a FROM t WHERE d <= date '1998-12-01' - interval '90 days'"),
    ("many_joins", "SELECT 1 FROM v v0, …, v v102 WHERE v0.a = v102.a"),
    ("constant_having", "SELECT count(*) FROM t HAVING (SELECT max(a) > 3 FROM u)"),
    ("column_equalities", "SELECT a FROM t WHERE c = 'c3' AND 'c3' = c"),
    ("sums_of_sums", "SELECT b FROM t GROUP BY b HAVING count(DISTINCT a) > 1 AND sum(n) > 3"),
    ("registered_names", "SELECT a::regclass::text FROM t"),
    (
        "push_down_semi_joins",
        "SELECT t.c FROM t JOIN u ON t.b = u.a WHERE t.a IN (SELECT a FROM v WHERE b = 1)",
    ),
    (
        "top_n_per_group",
        "SELECT a FROM (SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM t) s \
         WHERE n <= 2",
    ),
    ("find_first_rows", "SELECT a FROM x ORDER BY b LIMIT 3"),
    ("fuse_aggregates", "SELECT b, sum(a) FROM t GROUP BY b"),
    (
        "filter_pushdown",
        "SELECT asks.c, asks.a, bids.x FROM bids RIGHT JOIN asks ON bids.k = asks.k \
         AND asks.k <= 4 WHERE (6 >= bids.k) IS TRUE",
    ),
    ("equivalence_barriers", "SELECT a FROM (SELECT a FROM t ORDER BY b OFFSET 5) s ORDER BY a"),
    ("sorted_unions", "(SELECT b AS x, b AS y FROM t) UNION ALL (SELECT b, b FROM u) ORDER BY y"),
    ("sorted_groups", "SELECT DISTINCT b, count(*) OVER (PARTITION BY b) FROM t LIMIT 30"),
    ("yielding_operators", "SELECT t.a FROM t JOIN u ON t.a < u.a"),
    ("push_down_thresholds", "ANALYZE SELECT a FROM w ORDER BY a DESC LIMIT 3"),
    ("semi_join_filters", "SELECT t.c FROM t JOIN u ON t.a = u.a WHERE u.b = 1 AND u.c > 'c3'"),
];

/// The passes of gateways, and the tests that show their plans.
const OF_GATEWAYS: [(&str, &str); 1] =
    [("fold_into_remote_scans", include_str!("../../../program/tests/cluster/passes.rs"))];

/// A row of the table of passes, for readers.
struct Row {
    name: &'static str,
    kind: Kind,
    /// Position, nodes, reason and upstream issues.
    columns: [String; 4],
}

fn row<C: ?Sized>(pass: &Pass<C>) -> Row {
    let upstream = match pass.upstream {
        Upstream::NoneFound => "no upstream issue found".to_owned(),
        Upstream::Links(links) => {
            let links = links.iter().map(|link| {
                let number = link.rsplit('/').next().unwrap();
                format!("[{number}]({link})")
            });
            links.collect::<Vec<_>>().join(", ")
        }
    };
    let columns =
        [pass.position.to_string(), pass.nodes.to_string(), pass.reason.to_owned(), upstream];
    Row { name: pass.name, kind: pass.kind, columns }
}

fn rows() -> Vec<Row> {
    passes::PASSES.iter().map(row).chain(PASSES.iter().map(row)).collect()
}

async fn database() -> Database {
    let database = Database::builder().threads(1).open().unwrap();
    let mut session = database.session();
    for sql in TABLES {
        session.execute(sql).await.unwrap();
    }
    database
}

/// The statement as it is run. One is too long to be written out.
fn statement(pass: &str, sql: &str) -> String {
    if pass != "many_joins" {
        return sql.to_owned();
    }
    let tables: Vec<String> = (0..103).map(|number| format!("v v{number}")).collect();
    format!("SELECT 1 FROM {} WHERE v0.a = v102.a", tables.join(", "))
}

/// The kinds and the texts of the plans in the result of an `EXPLAIN`.
fn plans(batch: &RecordBatch) -> Vec<(String, String)> {
    let columns = batch.columns().iter().map(|column| cast(column, &DataType::Utf8).unwrap());
    let columns: Vec<_> = columns.collect();
    let (kinds, plans) = (columns[0].as_string::<i32>(), columns[1].as_string::<i32>());
    let rows = (0..kinds.len()).map(|row| (kinds.value(row), plans.value(row)));
    rows.map(|(kind, plan)| (kind.to_owned(), plan.to_owned())).collect()
}

/// The plan of a statement, or the error of planning it.
async fn plan(database: &Database, kind: Kind, sql: &str) -> String {
    let mut session = database.session();
    let wanted = match kind {
        Kind::Analyzer | Kind::Logical => "logical_plan",
        Kind::Physical => "physical_plan",
    };
    let explained = session.execute(&format!("EXPLAIN {sql}")).await;
    let batches: Result<Vec<RecordBatch>, _> = match explained {
        Ok(outcome) => outcome.rows.unwrap().try_collect().await,
        Err(error) => Err(error),
    };
    match batches {
        Ok(batches) => {
            let is_analyzed = |kind: &str| kind == "Plan with Metrics";
            let plans: Vec<_> = batches.iter().flat_map(plans).collect();
            let found = plans.iter().find(|(kind, _)| kind == wanted || is_analyzed(kind));
            // Where planning failed, the last row is the error.
            match found.or(plans.last()).unwrap() {
                (kind, plan) if is_analyzed(kind) => with_pruned(plan),
                (_, plan) => plan.trim_end().to_owned(),
            }
        }
        Err(error) => {
            let detail = error.detail().map_or_else(String::new, |detail| format!(": {detail}"));
            format!("error: {}{detail}", error.message())
        }
    }
}

/// The operators of a plan that was run, with the numbers of chunks that were skipped.
fn with_pruned(plan: &str) -> String {
    let lines = plan.lines().map(|line| {
        let (operator, metrics) = line.split_once(", metrics=[").unwrap_or((line, ""));
        let pruned = metrics.split(", ").find(|metric| metric.starts_with("chunks_pruned"));
        format!("{operator} {}", pruned.unwrap_or_default().trim_end_matches(']'))
            .trim_end()
            .to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn cut(plan: &str) -> String {
    let lines: Vec<&str> = plan.lines().collect();
    let shown = lines.iter().take(LINES_MAX).map(|line| format!("  {line}"));
    let mut shown = shown.collect::<Vec<_>>().join("\n");
    if lines.len() > LINES_MAX {
        let _ = write!(shown, "\n  (and {} lines)", lines.len() - LINES_MAX);
    }
    shown
}

#[tokio::test]
async fn each_pass_has_a_plan_that_shows_it() {
    let database = database().await;
    let planners = &database.shared.planners;
    let mut alike = Vec::new();
    for row in rows().iter().filter(|row| OF_GATEWAYS.iter().all(|(name, _)| *name != row.name)) {
        let name = row.name;
        let found = STATEMENTS.iter().find(|(pass, _)| *pass == name);
        let (_, shown) = found.unwrap_or_else(|| panic!("pass {name} has no statement here"));
        let sql = statement(name, shown);
        let with = plan(&database, row.kind, &sql).await;
        // The planner that is given back last is taken first.
        planners.give_back(Planner::without_pass(planners, name).unwrap());
        let without = plan(&database, row.kind, &sql).await;
        drop(planners.take());
        if with == without {
            alike.push(format!("{name}:\n{with}"));
            continue;
        }
        let text = format!("{shown}\n\nwithout:\n{}\n\nwith:\n{}", cut(&without), cut(&with));
        insta::with_settings!({ prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(name, text);
        });
    }
    assert!(alike.is_empty(), "plans that do not show their passes:\n{}", alike.join("\n"));
}

#[test]
fn statements_and_names_are_those_of_the_table() {
    let names: BTreeSet<&str> = rows().iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows().len(), "each name is there once");
    let shown = STATEMENTS.iter().chain(&OF_GATEWAYS).map(|(name, _)| *name);
    assert_eq!(shown.collect::<BTreeSet<_>>(), names);
    for (name, test) in OF_GATEWAYS {
        assert!(test.contains(name), "the test does not show the pass {name}");
    }
}

#[tokio::test]
async fn rows_have_the_names_and_kinds_of_their_passes() {
    let database = Database::in_memory().unwrap();
    let context = PassContext {
        names: SessionCatalog::new(Arc::clone(Cluster::absent())),
        scheduler: Arc::clone(database.shared.planners.scheduler()),
        cluster: Arc::clone(Cluster::absent()),
    };
    for row in &PASSES {
        let Some(pass) = row.placed(&context, false) else {
            assert_eq!(row.nodes, Nodes::Gateway, "{}", row.name);
            continue;
        };
        let name = match &pass.rule {
            Rule::Analyzer(rule) => rule.name(),
            Rule::Logical(rule) => rule.name(),
            Rule::Physical(rule) => rule.name(),
            Rule::LogicalGuard(_) | Rule::PhysicalGuard(_) => row.name,
        };
        assert_eq!((row.name, row.kind), (name, pass.rule.kind()));
    }
    let passes = assembled(&context, |_| true).unwrap();
    let physical: Vec<&str> = passes.physical.iter().map(|pass| pass.name()).collect();
    insta::assert_snapshot!(physical.join("\n"), @r"
    OutputRequirements
    aggregate_statistics
    join_selection
    LimitedDistinctAggregation
    top_n_per_group
    find_first_rows
    fuse_aggregates
    FilterPushdown
    WindowTopN
    equivalence_barriers
    EnsureRequirements
    sorted_unions
    CombinePartialFinalAggregate
    OptimizeAggregateOrder
    ProjectionPushdown
    OutputRequirements
    LimitAggregation
    sorted_groups
    LimitPushPastWindows
    HashJoinBuffering
    LimitPushdown
    TopKRepartition
    ProjectionPushdown
    PushdownSort
    EnsureCooperative
    FilterPushdown(Post)
    SanityCheckPlan
    yielding_operators
    push_down_thresholds
    semi_join_filters
    ");
}

#[test]
fn the_document_shows_the_table() {
    let mut table = String::from("| pass | kind | position | nodes | reason | upstream |\n");
    table.push_str("| --- | --- | --- | --- | --- | --- |\n");
    for Row { name, kind, columns } in rows() {
        let _ = writeln!(table, "| `{name}` | {kind} | {} |", columns.join(" | "));
    }
    let document = include_str!("../../../../docs/internals/planning.md");
    assert!(document.contains(&table), "docs/internals/planning.md needs this table:\n{table}");
}
