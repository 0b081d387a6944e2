//! `CASE` whose results are numbers or moments of several types, or literals in quotes beside
//! others.
//!
//! While it plans, DataFusion gives a `CASE` the type of its first result, and finds the common
//! type later: too late for the operators around it, which are chosen while planning. So a `CASE`
//! travels as `{case: CASE … END}`, as numbers do (see [`integers`](super::integers)), and
//! [`CaseResults`] casts its results before an operator is chosen for it.

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawDictionaryExpr};
use datafusion::logical_expr::{Expr as Planned, ExprSchemable};
use datafusion::sql::sqlparser::ast::{DictionaryField, Expr, Ident};
use thalweg_values::common_type::{self, type_beside};

use crate::analyze::typed;

/// The key that marks a `CASE` on its way to the planner.
const KEY: &str = "case";

/// Marks a `CASE`; to be called after everything inside `expr` was visited.
pub(super) fn mark(expr: &mut Expr) {
    if matches!(expr, Expr::Case { .. }) {
        let value = Box::new(expr.clone());
        *expr = Expr::Dictionary(vec![DictionaryField { key: Ident::new(KEY), value }]);
    }
}

/// Removes the marks again.
#[derive(Debug)]
pub(crate) struct CaseResults;

impl ExprPlanner for CaseResults {
    fn plan_dictionary_literal(
        &self,
        expr: RawDictionaryExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawDictionaryExpr>> {
        let is_case = matches!(expr.keys.as_slice(),
            [Planned::Literal(ScalarValue::Utf8(Some(key)), _)] if key == KEY);
        Ok(match expr.values.as_slice() {
            [Planned::Case(case)] if is_case => {
                PlannerResult::Planned(Planned::Case(with_common_type(case.clone(), schema)?))
            }
            _ => PlannerResult::Original(expr),
        })
    }
}

fn with_common_type(case: Case, schema: &DFSchema) -> PlanResult<Case> {
    let Some(types) = types_of_results(&case, schema) else { return Ok(case) };
    let takes_type = |target: &ArrowType| !target.is_decimal() || !has_number_without_digits(&case);
    let case = match type_beside(&types).filter(takes_type) {
        Some(target) => with_results(case, |result| match is_unknown(&result) {
            true => typed(result, &target),
            false => Ok(result),
        })?,
        None => case,
    };
    let Some(types) = types_of_results(&case, schema) else { return Ok(case) };
    let common = common_type::of_numbers(&types).or_else(|| common_type::of_moments(&types));
    match common {
        Some(target) => with_results(case, |result| match is_unknown(&result) {
            true => Ok(result),
            false => common_type::cast_to(result, &target, schema),
        }),
        None => Ok(case),
    }
}

/// True if a result is `'NaN'` or `'Infinity'`. Beside numerics, all literals stay texts then.
fn has_number_without_digits(case: &Case) -> bool {
    let mut results = case.when_then_expr.iter().map(|(_, result)| result).chain(&case.else_expr);
    results.any(|result| {
        matches!(result.as_ref(), Planned::Literal(ScalarValue::Utf8(Some(text)), None)
            if common_type::is_without_digits(text))
    })
}

/// The types of the results that have one; `None` if they cannot be found.
fn types_of_results(case: &Case, schema: &DFSchema) -> Option<Vec<ArrowType>> {
    let results = case.when_then_expr.iter().map(|(_, result)| result).chain(&case.else_expr);
    let known = results.filter(|result| !is_unknown(result));
    known.map(|result| result.get_type(schema).ok()).collect()
}

fn with_results(case: Case, settle: impl Fn(Planned) -> PlanResult<Planned>) -> PlanResult<Case> {
    let settle = |result: Box<Planned>| settle(*result).map(Box::new);
    let Case { expr, when_then_expr, else_expr } = case;
    let when_then_expr = when_then_expr
        .into_iter()
        .map(|(condition, result)| Ok((condition, settle(result)?)))
        .collect::<PlanResult<_>>()?;
    let else_expr = else_expr.map(settle).transpose()?;
    Ok(Case { expr, when_then_expr, else_expr })
}

/// True if a result is a literal in quotes, which has no type of its own.
fn is_unknown(result: &Planned) -> bool {
    matches!(result, Planned::Literal(ScalarValue::Utf8(Some(_)), None))
}
