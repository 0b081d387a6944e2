//! PostgreSQL's functions that DataFusion lacks, or that it defines differently.
//!
//! Each family has a file. Functions that are not here are DataFusion's own and behave like
//! PostgreSQL's. [`scalar`] and [`aggregate`] list all of them for a session, and
//! [`expr_planners`] the operators that are calls of functions.
//!
//! Absent on purpose: statements and tables. A function sees its arguments, and the cancellation
//! and memory of the statement around it
//! ([`statement_control`](thalweg_values::statement_control)). Functions that read the catalog or
//! the session are in `thalweg-query`.

mod alternatives;
mod array;
mod array_agg;
mod array_has;
mod array_remove;
mod average;
mod bytes;
mod cast_marker;
mod catalog;
mod concatenation;
mod datetime;
mod degrees;
mod escapes;
mod extract;
mod extreme;
mod group_values;
mod hashing;
mod identifiers;
mod interval_fields;
mod json;
mod limited;
mod listed;
mod make;
mod math;
mod normal_forms;
mod nullable_marker;
mod ordered_set;
mod overlaps;
mod padding;
mod percentile_cont;
mod regexp;
mod regression;
mod rounding;
mod series;
mod session;
mod size_checked;
mod split;
pub mod statement_time;
mod text;
mod timezone;
mod truncate;
#[cfg(test)]
mod unplanned_nulls;

use std::sync::Arc;

use datafusion::functions_aggregate::bool_and_or::bool_and_udaf;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use thalweg_values::arithmetic::TypedOperators;
use thalweg_values::arithmetic::sum::CheckedSum;
use thalweg_values::float_frames;

pub use array::{comparison, item_type};
pub use array_agg::WindowFrames;
pub use average::exact_averages;
pub use concatenation::{concatenation, is_concatenation};
pub use interval_fields::part_name;
pub use limited::{WITH_TIES, WITHIN_LIMIT};
pub use listed::LISTED;
pub use nullable_marker::MAY_BE_MISSING;
pub use series::{Series, series_counts};
pub use session::pg_typeof_known;
pub use truncate::even_unit;

/// All scalar functions. They replace DataFusion's functions of the same names.
pub fn scalar() -> Vec<Arc<ScalarUDF>> {
    [
        array::functions(),
        array_has::functions(),
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
        listed::functions(),
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
pub fn aggregate() -> Vec<Arc<AggregateUDF>> {
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
pub fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    vec![
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
