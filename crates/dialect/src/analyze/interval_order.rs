//! The order of intervals: a month is 30 days and a day 24 hours, whatever they are written as.
//!
//! Arrow orders intervals field by field. Comparisons and sorts go by the length in microseconds.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType as ArrowType, IntervalMonthDayNanoType};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, ScalarUDF, Sort};
use thalweg_types::{DataType, Result};

use crate::calendar::MICROS_PER_DAY;
use crate::functions::Function;
use crate::types::arrow_type;

const LENGTH: ArrowType = ArrowType::Decimal128(30, 0);

static LENGTH_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let interval = arrow_type(&DataType::Interval);
    Function::new("interval_length", &[&[interval]], LENGTH, length).into_udf()
});

fn length(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let intervals = columns[0].as_primitive::<IntervalMonthDayNanoType>();
    let lengths = intervals.iter().map(|interval| {
        let interval = interval?;
        let days = i128::from(interval.months) * 30 + i128::from(interval.days);
        Some(days * i128::from(MICROS_PER_DAY) + i128::from(interval.nanoseconds / 1_000))
    });
    Ok(Arc::new(lengths.collect::<Decimal128Array>().with_data_type(LENGTH)))
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| matches!(given, ArrowType::Interval(_)))
}

fn length_of(expr: &Expr) -> Expr {
    LENGTH_OF.call(vec![expr.clone()])
}

/// The comparison of lengths, if `expr` compares intervals.
pub(super) fn compared(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    Some(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op.supports_propagation()
                && is_interval(left, schema)
                && is_interval(right, schema) =>
        {
            let (left, right) = (Box::new(length_of(left)), Box::new(length_of(right)));
            Expr::BinaryExpr(BinaryExpr::new(left, *op, right))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_interval(expr, schema) => {
            let [expr, low, high] = [expr, low, high].map(|expr| Box::new(length_of(expr)));
            Expr::Between(Between::new(expr, *negated, low, high))
        }
        Expr::InList(InList { expr, list, negated }) if is_interval(expr, schema) => {
            let list = list.iter().map(length_of).collect();
            Expr::InList(InList::new(Box::new(length_of(expr)), list, *negated))
        }
        _ => return None,
    })
}

/// A sort by intervals as a sort by their lengths.
pub(super) fn sorted(plan: LogicalPlan, schema: &DFSchema) -> PlanResult<LogicalPlan> {
    let LogicalPlan::Sort(Sort { mut expr, input, fetch }) = plan else { return Ok(plan) };
    for order in &mut expr {
        if is_interval(&order.expr, schema) {
            order.expr = length_of(&order.expr);
        }
    }
    Ok(LogicalPlan::Sort(Sort { expr, input, fetch }))
}
