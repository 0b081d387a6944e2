//! Names of the aggregates that rewrites recognise in syntax trees.

use datafusion::sql::sqlparser::ast::Function;

use super::names::normalized;

const AGGREGATES: &[&str] = &[
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar",
    "covar_pop",
    "covar_samp",
    "every",
    "first_value",
    "grouping",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "last_value",
    "max",
    "mean",
    "median",
    "min",
    "mode",
    "nth_value",
    "percentile_cont",
    "percentile_disc",
    "quantile_cont",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var",
    "var_pop",
    "var_population",
    "var_samp",
    "var_sample",
    "variance",
];

/// True if an aggregate has this name, in lower case.
#[must_use]
pub fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name)
}

/// True if a call, with or without `OVER`, names an aggregate.
pub(super) fn names_aggregate(function: &Function) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(normalized);
    name.is_some_and(|name| is_aggregate(&name))
}
