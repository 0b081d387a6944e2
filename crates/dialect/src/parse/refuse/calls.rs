//! Clauses of aggregates and windows behind functions that are neither.

use std::collections::HashSet;
use std::sync::LazyLock;

use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::functions_window::all_default_window_functions;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Function, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
};
use thalweg_types::{Error, Result, SqlState};

/// Functions that PostgreSQL's grammar has words for, which no clause can follow.
const KEYWORDS: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// The names of functions that are neither aggregates nor window functions.
static PLAIN: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut names = HashSet::new();
    for function in
        datafusion::functions::all_default_functions().iter().chain(&thalweg_functions::scalar())
    {
        names.insert(function.name().to_owned());
        names.extend(function.aliases().iter().cloned());
    }
    names.extend(["generate_series", "unnest"].map(str::to_owned));
    let aggregates =
        all_default_aggregate_functions().into_iter().chain(thalweg_functions::aggregate());
    for function in aggregates {
        names.remove(function.name());
        for alias in function.aliases() {
            names.remove(alias);
        }
    }
    for function in all_default_window_functions() {
        names.remove(function.name());
    }
    names
});

/// Refuses `DISTINCT`, `ORDER BY`, `FILTER` and `OVER`, which the planner ignores behind a function
/// that is not an aggregate. No upstream issue found.
pub(super) fn check(function: &Function) -> Result<()> {
    let is_distinct = |list: &FunctionArgumentList| {
        list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
    };
    let is_order =
        |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
    let list = match &function.args {
        FunctionArguments::List(list) => Some(list),
        _ => None,
    };
    let clauses = [
        (list.is_some_and(is_distinct), "DISTINCT"),
        (list.is_some_and(|list| list.clauses.iter().any(is_order)), "ORDER BY"),
        (function.filter.is_some(), "FILTER"),
        (function.over.is_some(), "OVER"),
    ];
    let Some((_, clause)) = clauses.into_iter().find(|(is_there, _)| *is_there) else {
        return Ok(());
    };
    let Some(name) = function.name.0.last().and_then(|part| part.as_ident()) else {
        return Ok(());
    };
    let name = name.value.to_lowercase();
    if KEYWORDS.contains(&name.as_str()) {
        let message = format!("syntax error at or near \"{clause}\"");
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    if !PLAIN.contains(&name) {
        return Ok(());
    }
    let kind = match clause {
        "OVER" => "a window function nor an aggregate function",
        _ => "an aggregate function",
    };
    let message = format!("{clause} specified, but {name} is not {kind}");
    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
}

#[cfg(test)]
mod tests {
    use super::PLAIN;

    #[test]
    fn aggregates_and_window_functions_take_the_clauses() {
        let names = "array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop \
                     covar_samp cume_dist dense_rank every first_value json_agg json_object_agg \
                     jsonb_agg jsonb_object_agg lag last_value lead max min mode nth_value ntile \
                     percent_rank percentile_cont percentile_disc rank regr_avgx regr_avgy \
                     regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy \
                     row_number stddev stddev_pop stddev_samp string_agg sum var_pop var_samp \
                     variance any_value median approx_distinct grouping";
        let plain: Vec<&str> =
            names.split_whitespace().filter(|name| PLAIN.contains(*name)).collect();
        assert!(plain.is_empty(), "{plain:?}");
        assert!(["abs", "upper", "generate_series", "now"].iter().all(|it| PLAIN.contains(*it)));
    }
}
