//! PostgreSQL's functions that DataFusion lacks, or that it defines differently.
//!
//! Each family has a file. Functions that are not here are DataFusion's own and behave alike.

mod alternatives;
mod array;
mod array_agg;
mod array_remove;
mod average;
mod bounded_output;
mod bytes;
mod cast_marker;
mod catalog;
mod concatenation;
mod date_pattern;
mod datetime;
mod define;
mod degrees;
mod escapes;
mod extract;
mod extreme;
pub(crate) mod float_frames;
mod group_values;
mod hashing;
mod identifiers;
mod interval_fields;
mod json;
mod limited;
mod make;
mod math;
mod normal_forms;
mod nullable_marker;
mod number_pattern;
mod ordered_set;
mod overlaps;
mod overrides;
mod padding;
mod percentile_cont;
mod regexp;
mod regression;
mod rounding;
mod series;
mod session;
mod size_checked;
mod split;
pub(crate) mod statement_time;
mod text;
mod timezone;
mod truncate;

use std::sync::Arc;

use datafusion::functions_aggregate::bool_and_or::bool_and_udaf;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use crate::arithmetic::TypedOperators;
use crate::arithmetic::sum::CheckedSum;
use crate::rewrite::{CaseResults, IntegerLiterals};

pub use average::exact_averages;
pub(crate) use concatenation::{concatenation, is_concatenation};
pub(crate) use define::{Compute, Function};
pub(crate) use interval_fields::part_name;
pub(crate) use json::jsonb_column;
pub(crate) use limited::{WITH_TIES, WITHIN_LIMIT};
pub(crate) use nullable_marker::MAY_BE_MISSING;
pub(crate) use overrides::replace;
pub use series::{Series, series_counts};
pub use truncate::even_unit;

/// All scalar functions. They replace DataFusion's functions of the same names.
pub(crate) fn scalar() -> Vec<Arc<ScalarUDF>> {
    [
        array::functions(),
        bytes::functions(),
        vec![cast_marker::function()],
        catalog::functions(),
        alternatives::functions(),
        session::functions(),
        math::functions(),
        text::functions(),
        datetime::functions(),
        degrees::functions(),
        escapes::functions(),
        extract::functions(),
        size_checked::functions(),
        hashing::functions(),
        identifiers::functions(),
        interval_fields::functions(),
        concatenation::functions(),
        json::functions(),
        limited::functions(),
        nullable_marker::functions(),
        make::functions(),
        normal_forms::functions(),
        overlaps::functions(),
        regexp::functions(),
        rounding::functions(),
        series::functions(),
        padding::functions(),
        split::functions(),
        timezone::functions(),
        truncate::functions(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// All aggregates, like [`scalar`] for scalar functions.
pub(crate) fn aggregate() -> Vec<Arc<AggregateUDF>> {
    let mut functions = ordered_set::functions();
    functions.push(Arc::new(bool_and_udaf().as_ref().clone().with_aliases(["every"])));
    functions.extend(float_frames::functions());
    functions.push(Arc::new(AggregateUDF::from(CheckedSum::default())));
    functions.push(average::function());
    functions.extend(extreme::functions());
    functions.push(array_agg::function());
    functions.push(percentile_cont::function());
    functions.extend(regression::functions());
    functions
}

/// Planners for operators that are functions. They come before DataFusion's own planners.
pub(crate) fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![
        Arc::new(IntegerLiterals),
        Arc::new(CaseResults),
        Arc::new(TypedOperators),
        Arc::new(extract::ExtractPlanner),
        Arc::new(array::Subscripts),
        Arc::new(json::JsonOperators),
        Arc::new(regexp::RegexOperators),
        Arc::new(math::Power),
        Arc::new(array::ArrayOperators),
        Arc::new(bytes::PlannerOfBoth),
        Arc::new(array::NumberItems),
        Arc::new(catalog::CatalogOperators),
    ]
}

#[cfg(test)]
mod tests;
