//! `CASE` whose results are numbers or moments of several types, or literals in quotes beside
//! others.
//!
//! While it plans, DataFusion gives a `CASE` the type of its first result, and finds the common
//! type later: too late for the operators around it, which are chosen while planning. So a `CASE`
//! travels as `{case: CASE … END}`, as numbers do (see [`integers`](super::integers)), and
//! [`CaseResults`] casts its results before an operator is chosen for it.

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
    let results = || {
        let results = case.when_then_expr.iter().map(|(_, result)| result);
        results.chain(&case.else_expr).filter(|result| !is_unknown(result))
    };
    let types = results().map(|result| result.get_type(schema));
    let Ok(types) = types.collect::<PlanResult<Vec<_>>>() else { return Ok(case) };
    let common = common_type::of_numbers(&types).or_else(|| common_type::of_moments(&types));
    let literals = type_beside(&types);
    let settle = |result: Box<Planned>| -> PlanResult<Box<Planned>> {
        match (is_unknown(&result), &common, &literals) {
            (true, _, Some(target)) => typed(*result, target).map(Box::new),
            (false, Some(target), _) => common_type::cast_to(*result, target, schema).map(Box::new),
            _ => Ok(result),
        }
    };
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
