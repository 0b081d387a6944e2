//! PostgreSQL's language on DataFusion: the syntax of statements ([`parse`]), the meaning of names
//! and clauses ([`rewrite`]), and corrections of plans ([`passes`]). The types, casts and errors of
//! values are in `thalweg-values`, and functions are in `thalweg-functions`.
//!
//! [`configure`] prepares a session for all of it. [`parse`](parse::parse) reads statements for
//! such a session, and [`from_datafusion`](thalweg_values::errors::from_datafusion) translates its
//! errors.

mod analyze;
mod clock_literal;
pub mod complete_types;
pub mod guards;
mod optimize;
mod overrides;
pub mod parse;
pub mod passes;
pub mod rewrite;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod walk;

pub use analyze::{in_session_zone, with_operand_types};
pub use clock_literal::depends_on_clock;

use crate::overrides::replace;

use std::sync::Arc;

use datafusion::config::Dialect;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::prelude::SessionConfig;
use thalweg_values::{arithmetic, types};

/// Adds DataFusion's default features and PostgreSQL's behaviour to the state of a session, except
/// for the [`passes`] over plans.
///
/// Settings that the builder already holds are kept, except those that the behaviour consists of.
/// Must be called once, before further functions are added.
#[must_use]
pub fn configure(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = builder.with_default_features();
    let config = builder.config().take().unwrap_or_default();
    let scalar = builder.scalar_functions().get_or_insert_default();
    replace(scalar, arithmetic::functions());
    replace(scalar, thalweg_functions::scalar());
    // The first planner that knows an operator decides.
    let planners = builder.expr_planners().get_or_insert_default();
    let first: [Arc<dyn ExprPlanner>; 2] =
        [Arc::new(rewrite::IntegerLiterals), Arc::new(rewrite::CaseResults)];
    planners.splice(0..0, first.into_iter().chain(thalweg_functions::expr_planners()));
    replace(builder.aggregate_functions().get_or_insert_default(), thalweg_functions::aggregate());
    builder
        .with_config(postgres_config(config))
        .with_type_planner(Arc::new(types::PostgresTypePlanner))
}

fn postgres_config(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    options.sql_parser.enable_ident_normalization = true;
    // `0.06 + 0.01` is `0.07` and not a binary fraction near it, and compares to `numeric` columns
    // without turning them into floating point numbers.
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.collect_spans = true;
    // The rows of a sorted subquery keep its order, which `array_agg` relies on.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.sql_parser.default_null_ordering = "nulls_max".to_string();
    options.sql_parser.support_varchar_with_length = true;
    options.execution.time_zone = Some("UTC".into());
    // Logical and physical expressions may differ in whether they can be NULL: the check would
    // refuse `SELECT DISTINCT CASE WHEN a BETWEEN b AND c THEN … END`. No upstream issue found.
    options.execution.skip_physical_aggregate_schema_check = true;
    config
}
