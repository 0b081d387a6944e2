//! `~`, `~*`, `!~` and `!~*`.

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use thalweg_values::cast::is_text;
use thalweg_values::errors::external;

use super::matcher::for_operator;
use super::{is_like_udf, literal};

/// A literal pattern becomes a pattern of the engine, which simplifies it and compiles it once.
/// Other patterns, and those that the engine has no syntax for, are arguments of a function.
#[derive(Debug)]
pub(crate) struct RegexOperators;

impl ExprPlanner for RegexOperators {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        let (ignore_case, negated) = match expr.op {
            BinaryOperator::PGRegexMatch => (false, false),
            BinaryOperator::PGRegexIMatch => (true, false),
            BinaryOperator::PGRegexNotMatch => (false, true),
            BinaryOperator::PGRegexNotIMatch => (true, true),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let is_texts = |expr: &Expr| {
            let given = expr.get_type(schema);
            given.is_ok_and(|given| is_text(&given) || given == ArrowType::Null)
        };
        if !is_texts(&expr.left) || !is_texts(&expr.right) {
            return Ok(PlannerResult::Original(expr));
        }
        if let Expr::Literal(pattern, metadata) = &expr.right {
            let Some(Some(text)) = pattern.try_as_str() else {
                return Ok(PlannerResult::Original(expr));
            };
            if let Some(text) = for_operator(text, ignore_case).map_err(external)? {
                let pattern = ScalarValue::Utf8(Some(text));
                expr.right = Expr::Literal(pattern, metadata.clone());
                expr.op = match negated {
                    true => BinaryOperator::PGRegexNotMatch,
                    false => BinaryOperator::PGRegexMatch,
                };
                return Ok(PlannerResult::Original(expr));
            }
        }
        let flags = literal(if ignore_case { "i" } else { "" });
        let matched = is_like_udf().call(vec![expr.left, expr.right, flags]);
        Ok(PlannerResult::Planned(match negated {
            true => Expr::Not(Box::new(matched)),
            false => matched,
        }))
    }
}
