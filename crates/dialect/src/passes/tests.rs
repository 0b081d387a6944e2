use super::*;

fn placed() -> impl Iterator<Item = Placed> {
    PASSES.iter().filter_map(|pass| pass.placed(&(), false))
}

#[test]
fn all_passes_have_positions() {
    let passes = Passes::assemble(placed()).unwrap();
    let analyzer: Vec<&str> = passes.analyzer.iter().map(|pass| pass.name()).collect();
    insta::assert_snapshot!(analyzer.join("\n"), @r"
    computed_limits
    union_types
    unknown_literals
    interval_windows
    resolve_grouping_function
    type_coercion
    postgres_operators
    types_of_arguments
    count_set_operations
    unnest_subqueries
    ");
    let logical: Vec<&str> = passes.logical.iter().map(|pass| pass.name()).collect();
    insta::assert_snapshot!(logical.join("\n"), @r"
    rewrite_set_comparison
    optimize_unions
    unions_to_filter
    simplify_expressions
    compare_days
    replace_distinct_aggregate
    eliminate_join
    decorrelate_predicate_subquery
    scalar_subquery_to_join
    decorrelate_lateral_join
    extract_equijoin_predicate
    eliminate_duplicated_expr
    eliminate_filter
    eliminate_cross_join
    eliminate_limit
    propagate_empty_relation
    filter_null_join_keys
    eliminate_outer_join
    push_down_limit
    push_down_filter
    single_distinct_aggregation_to_group_by
    eliminate_group_by_constant
    common_sub_expression_eliminate
    extract_leaf_expressions
    push_down_leaf_projections
    optimize_projections
    ");
}

#[test]
fn rows_have_the_names_and_kinds_of_their_passes() {
    assert_eq!(placed().count(), PASSES.len());
    for (row, pass) in PASSES.iter().zip(placed()) {
        assert_eq!(row.kind, pass.rule.kind(), "{}", row.name);
        let name = match &pass.rule {
            Rule::Analyzer(rule) => rule.name(),
            Rule::Logical(rule) => rule.name(),
            Rule::Physical(rule) => rule.name(),
            Rule::LogicalGuard(_) | Rule::PhysicalGuard(_) => pass.name,
        };
        assert_eq!(pass.name, name);
    }
}

#[test]
fn all_missing_anchors_are_named() {
    let rows = placed().map(|pass| match pass.name {
        "compare_days" => Placed { position: Position::Before("fold_constants"), ..pass },
        "many_joins" => Placed { position: Position::Around("order_joins"), ..pass },
        "constant_having" => Placed { position: Position::Last, ..pass },
        "postgres_operators" => Placed { position: Position::Around("type_coercion"), ..pass },
        _ => pass,
    });
    let error = Passes::assemble(rows).unwrap_err();
    insta::assert_snapshot!(error.to_string().replace("; ", "\n"), @r"
    pass postgres_operators wants to stand around type_coercion, but is no guard
    pass compare_days wants to stand before fold_constants, which DataFusion 55.2.0 does not have
    pass many_joins wants to stand around order_joins, which DataFusion 55.2.0 does not have
    pass constant_having wants to stand last, but is a guard
    ");
    let error = Error::from(error);
    assert_eq!(error.state(), thalweg_types::SqlState::INTERNAL_ERROR);
}

#[test]
fn a_pass_with_two_anchors_is_named() {
    // DataFusion runs the pass twice.
    let position = Position::After("ProjectionPushdown");
    let rule = PhysicalOptimizer::new().rules.remove(0);
    let rows = [Placed { name: "twice", position, rule: Rule::Physical(rule) }];
    let error = Passes::assemble(rows).unwrap_err();
    let wanted = "pass twice wants to stand after ProjectionPushdown, \
                  which DataFusion 55.2.0 has several times";
    assert_eq!(error.to_string(), wanted);
}

#[test]
fn rows_of_one_position_run_in_the_order_of_the_table() {
    let rule = |name| {
        let rules = PhysicalOptimizer::new().rules;
        let found = rules.into_iter().find(|rule: &PhysicalPass| rule.name() == name);
        Rule::Physical(found.unwrap())
    };
    let names = ["join_selection", "WindowTopN", "SanityCheckPlan"];
    for position in [
        Position::First,
        Position::Last,
        Position::Before("EnsureCooperative"),
        Position::After("EnsureCooperative"),
    ] {
        let rows = names.map(|name| Placed { name, position, rule: rule(name) });
        let passes = Passes::assemble(rows).unwrap();
        let all: Vec<&str> = passes.physical.iter().map(|pass| pass.name()).collect();
        assert!(all.windows(names.len()).any(|some| some == names), "{position}: {all:?}");
    }
}
