//! The passes of this crate.

use std::sync::Arc;

use super::{Kind, Nodes, Pass, Position, Rule, Upstream};
use crate::rewrite::{CountSetOperations, UnnestSubqueries};
use crate::{analyze, complete_types, optimize};

/// The passes that give plans PostgreSQL's meaning, in the order in which they run.
pub static PASSES: [Pass; 13] = [
    Pass {
        name: "computed_limits",
        kind: Kind::Analyzer,
        position: Position::First,
        nodes: Nodes::All,
        reason: "DataFusion accepts only constant whole numbers in LIMIT and OFFSET, and no WITH \
                 TIES.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/9506"]),
        rule: |()| Some(Rule::Analyzer(Arc::new(analyze::ComputedLimits))),
    },
    Pass {
        name: "union_types",
        kind: Kind::Analyzer,
        position: Position::First,
        nodes: Nodes::All,
        reason: "Columns of set operations get PostgreSQL's common types before DataFusion's \
                 coercion gives them others.",
        upstream: Upstream::NoneFound,
        rule: |()| Some(Rule::Analyzer(Arc::new(analyze::UnionTypes))),
    },
    Pass {
        name: "unknown_literals",
        kind: Kind::Analyzer,
        position: Position::First,
        nodes: Nodes::All,
        reason: "A literal in quotes gets the type of its context before DataFusion's coercion \
                 compares numbers as text.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/15161"]),
        rule: |()| Some(Rule::Analyzer(Arc::new(analyze::UnknownLiterals))),
    },
    Pass {
        name: "interval_windows",
        kind: Kind::Analyzer,
        position: Position::First,
        nodes: Nodes::All,
        reason: "Windows in the order of intervals are ordered by the intervals' lengths, which \
                 DataFusion does not compare.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/8468"]),
        rule: |()| Some(Rule::Analyzer(Arc::new(analyze::IntervalWindows))),
    },
    Pass {
        name: "postgres_operators",
        kind: Kind::Analyzer,
        position: Position::Last,
        nodes: Nodes::All,
        reason: "Operators and casts get PostgreSQL's meaning once their types are known, and \
                 before constants are folded.",
        upstream: Upstream::NoneFound,
        rule: |()| Some(Rule::Analyzer(Arc::new(analyze::PostgresOperators))),
    },
    Pass {
        name: "types_of_arguments",
        kind: Kind::Analyzer,
        position: Position::Last,
        nodes: Nodes::All,
        reason: "pg_typeof gets the name of its argument's type, of which SQL knows more than \
                 Arrow in arrays.",
        upstream: Upstream::NoneFound,
        rule: |()| Some(Rule::Analyzer(Arc::new(complete_types::TypesOfArguments))),
    },
    Pass {
        name: "count_set_operations",
        kind: Kind::Analyzer,
        position: Position::Last,
        nodes: Nodes::All,
        reason: "INTERSECT ALL and EXCEPT ALL count the copies of each row, which DataFusion \
                 keeps or drops together.",
        upstream: Upstream::Links(&[
            "https://github.com/apache/datafusion/issues/12955",
            "https://github.com/apache/datafusion/issues/12956",
        ]),
        rule: |()| Some(Rule::Analyzer(Arc::new(CountSetOperations::default()))),
    },
    Pass {
        name: "unnest_subqueries",
        kind: Kind::Analyzer,
        position: Position::Last,
        nodes: Nodes::All,
        reason: "Correlated subqueries that DataFusion refuses or answers wrongly become joins.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/5492"]),
        rule: |()| Some(Rule::Analyzer(Arc::new(UnnestSubqueries::default()))),
    },
    Pass {
        name: "compare_days",
        kind: Kind::Logical,
        position: Position::After("simplify_expressions"),
        nodes: Nodes::All,
        reason: "A day that is compared with a constant moment is compared with a day, so that \
                 the zones of chunks exclude rows; constants are folded by then.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/pull/21665"]),
        rule: |()| Some(Rule::Logical(Arc::new(optimize::CompareDays))),
    },
    Pass {
        name: "many_joins",
        kind: Kind::Logical,
        position: Position::Around("eliminate_cross_join"),
        nodes: Nodes::All,
        reason: "The work of the guarded pass is the cube of the number of joins, so plans with \
                 many joins keep their order.",
        upstream: Upstream::NoneFound,
        rule: |()| Some(Rule::LogicalGuard(optimize::many_joins)),
    },
    Pass {
        name: "constant_having",
        kind: Kind::Logical,
        position: Position::Around("push_down_filter"),
        nodes: Nodes::All,
        reason: "The guarded pass moves conditions without columns below aggregates that return a \
                 row for no rows.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/11748"]),
        rule: |()| Some(Rule::LogicalGuard(optimize::constant_having)),
    },
    Pass {
        name: "column_equalities",
        kind: Kind::Logical,
        position: Position::Around("push_down_filter"),
        nodes: Nodes::All,
        reason: "The guarded pass takes an equality that is written in both directions, or with \
                 both zeros, for a contradiction.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/pull/24763"]),
        rule: |()| Some(Rule::LogicalGuard(optimize::column_equalities)),
    },
    Pass {
        name: "sums_of_sums",
        kind: Kind::Logical,
        position: Position::Around("single_distinct_aggregation_to_group_by"),
        nodes: Nodes::All,
        reason: "The guarded pass gives sums beside distinct aggregates another numeric type than \
                 the expressions above expect.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/pull/17815"]),
        rule: |()| Some(Rule::LogicalGuard(optimize::sums_of_sums)),
    },
];
