//! Comparisons of days with moments, as comparisons of days with days.
//!
//! `day <= date '1998-12-01' - interval '90 days'` compares with a timestamp, so each day is cast
//! to one. With a day on the right nothing is cast, and minima and maxima of chunks show which of
//! them can hold such a day.

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use thalweg_values::cast_function::CastFunction;
use thalweg_values::zone;

use crate::analyze::{rewrite_expressions, visible_columns};

const SECONDS_PER_DAY: i64 = 86_400;

#[derive(Debug)]
pub(crate) struct CompareDays;

impl OptimizerRule for CompareDays {
    fn name(&self) -> &str {
        "compare_days"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> PlanResult<Transformed<LogicalPlan>> {
        if !compares_a_moment(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let schema = visible_columns(&plan)?;
        rewrite_expressions(plan, |expr| {
            Ok(match of_days(&expr, &schema) {
                Some(days) => Transformed::yes(days),
                None => Transformed::no(expr),
            })
        })
    }
}

/// Most plans have no such comparison, and are left without looking at their columns.
fn compares_a_moment(plan: &LogicalPlan) -> PlanResult<bool> {
    let mut compares = false;
    plan.apply_expressions(|expr| {
        compares = compares || expr.exists(|expr| Ok(parts(expr).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(compares)
}

/// The value that is cast to a moment, the comparison, and the moment it is compared with.
fn parts(expr: &Expr) -> Option<(&Expr, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(binary) = expr else { return None };
    let (value, op, moment) = match (&*binary.left, &*binary.right) {
        (value, Expr::Literal(moment, _)) => (value, binary.op, moment),
        (Expr::Literal(moment, _), value) => (value, binary.op.swap()?, moment),
        _ => return None,
    };
    Some((cast_to_moment(value)?, op, moment))
}

fn of_days(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let (day, op, moment) = parts(expr)?;
    let (before, is_midnight) = day_of(moment)?;
    if day.get_type(schema).ok()? != ArrowType::Date32 {
        return None;
    }
    let other = match op {
        Operator::LtEq | Operator::Gt => before,
        Operator::Lt | Operator::GtEq => before + i64::from(!is_midnight),
        Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
            if is_midnight =>
        {
            before
        }
        _ => return None,
    };
    let other = ScalarValue::Date32(Some(i32::try_from(other).ok()?));
    let other = Box::new(Expr::Literal(other, None));
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(day.clone()), op, other)))
}

/// The value under a cast to a timestamp. A timestamp with time zone is in UTC, so it counts only
/// in sessions in UTC.
fn cast_to_moment(value: &Expr) -> Option<&Expr> {
    let (target, cast) = match value {
        Expr::Cast(cast) => (cast.field.data_type(), &*cast.expr),
        Expr::ScalarFunction(call) => {
            (call.func.inner().downcast_ref::<CastFunction>()?.target(), call.args.first()?)
        }
        _ => return None,
    };
    match target {
        ArrowType::Timestamp(_, None) => Some(cast),
        ArrowType::Timestamp(_, Some(zone)) if is_utc(zone) && zone::is_utc() => Some(cast),
        _ => None,
    }
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "+00:00" | "+00")
}

/// The day of a moment, and true if the moment is the first one of that day.
fn day_of(moment: &ScalarValue) -> Option<(i64, bool)> {
    let (moment, in_a_second) = match moment {
        ScalarValue::TimestampSecond(Some(moment), _) => (*moment, 1),
        ScalarValue::TimestampMillisecond(Some(moment), _) => (*moment, 1_000),
        ScalarValue::TimestampMicrosecond(Some(moment), _) => (*moment, 1_000_000),
        ScalarValue::TimestampNanosecond(Some(moment), _) => (*moment, 1_000_000_000),
        _ => return None,
    };
    let in_a_day = SECONDS_PER_DAY * in_a_second;
    Some((moment.div_euclid(in_a_day), moment.rem_euclid(in_a_day) == 0))
}

#[cfg(test)]
mod tests {
    use crate::testing;

    const DAYS: &str = "(VALUES (date '1969-12-30'), (date '1969-12-31'), (date '1970-01-01'), \
         (date '1970-01-02'), (NULL)) AS days(day)";
    const MOMENTS: [&str; 6] = [
        "1969-12-30 23:59:59.999999",
        "1969-12-31",
        "1969-12-31 00:00:00.000001",
        "1970-01-01",
        "1970-01-01 12:00",
        "1970-01-02",
    ];
    const OPERATORS: [&str; 8] =
        ["<", "<=", "=", "<>", ">=", ">", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"];

    /// A comparison with a constant, which the pass rewrites, gives the same answer as one with a
    /// moment that no pass knows.
    #[test]
    fn days_and_moments_compare_as_before() {
        for moment in MOMENTS {
            for op in OPERATORS {
                let moments = format!("(VALUES (timestamp '{moment}')) AS moments(moment)");
                let known = [
                    format!("day::timestamp {op} timestamp '{moment}'"),
                    format!("day {op} timestamp '{moment}' - interval '0 days'"),
                ];
                let turned = format!("moment {op} day");
                let expected = answer(&format!("day {op} moment"), &moments);
                for condition in known {
                    assert_eq!(answer(&condition, &moments), expected, "{condition}");
                }
                let condition = format!("timestamp '{moment}' {op} day");
                assert_eq!(answer(&condition, &moments), answer(&turned, &moments), "{condition}");
            }
        }
    }

    fn answer(condition: &str, moments: &str) -> Vec<String> {
        let sql = format!("SELECT day FROM {DAYS}, {moments} WHERE {condition} ORDER BY day");
        testing::rows(&sql).expect(&sql)
    }

    #[test]
    fn nothing_is_cast() {
        let conditions = [
            "day <= date '1998-12-01' - interval '90 days'",
            "day BETWEEN date '1994-01-01' AND date '1994-01-01' + interval '1 year'",
            "timestamp '1994-01-01 12:00' > day",
        ];
        for condition in conditions {
            let plan = testing::rows(&format!("EXPLAIN SELECT day FROM {DAYS} WHERE {condition}"));
            let plan = plan.expect(condition).join("\n");
            assert!(plan.contains("Filter") && !plan.contains("Timestamp"), "{condition}: {plan}");
        }
    }

    #[test]
    fn days_beyond_the_range_of_nanoseconds_compare() {
        let sql = "SELECT count(*) FROM (VALUES (date '3000-01-01')) AS days(day) \
             WHERE day > date '1998-12-01' - interval '90 days'";
        testing::expect_values(&[(sql, "1")]);
    }
}
