//! Functions of numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType as ArrowType, Float64Type, Int64Type};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::functions::math;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use thalweg_types::{Error, Result, SqlState};

use super::define::Function;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let (float, int) = (ArrowType::Float64, ArrowType::Int32);
    vec![
        Function::signed("mod", TypeSignature::Numeric(2), ArrowType::Int64, modulo)
            .returning_argument(0)
            .into_udf(),
        Function::new("div", &[&[ArrowType::Int64, ArrowType::Int64]], ArrowType::Int64, quotient)
            .into_udf(),
        Function::new(
            "width_bucket",
            &[&[float.clone(), float.clone(), float.clone(), float]],
            int,
            width_bucket,
        )
        .into_udf(),
        Arc::new(math::signum().as_ref().clone().with_aliases(["sign"])),
        Arc::new(math::ceil().as_ref().clone().with_aliases(["ceiling"])),
    ]
}

fn modulo(columns: &[ArrayRef]) -> Result<ArrayRef> {
    numeric::rem(&columns[0], &columns[1]).map_err(|error| crate::errors::from_arrow_error(&error))
}

/// Rounds towards zero.
fn quotient(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (left, right) =
        (columns[0].as_primitive::<Int64Type>(), columns[1].as_primitive::<Int64Type>());
    numeric::div(left, right).map_err(|error| crate::errors::from_arrow_error(&error))
}

/// In which of so many equal parts of a range a value lies: 0 below it, one more than there are
/// above it.
fn width_bucket(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let float = |place: usize| -> &Float64Array { columns[place].as_primitive::<Float64Type>() };
    let (values, lows, highs) = (float(0), float(1), float(2));
    let counts = float(3);
    let invalid = |message: &str| Error::new(SqlState("2201G"), message);
    let buckets = (0..values.len()).map(|row| {
        if columns.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        let (value, low, high, count) =
            (values.value(row), lows.value(row), highs.value(row), counts.value(row) as i32);
        if count <= 0 {
            return Err(invalid("count must be greater than zero"));
        }
        if low == high {
            return Err(invalid("lower bound cannot equal upper bound"));
        }
        let place = (value - low) / (high - low);
        Ok(Some(match place {
            place if place < 0.0 => 0,
            place if place >= 1.0 => count + 1,
            place => (place * f64::from(count)) as i32 + 1,
        }))
    });
    Ok(Arc::new(buckets.collect::<Result<Int32Array>>()?))
}

/// `a ^ b` is a power, and not DataFusion's exclusive or.
#[derive(Debug)]
pub(super) struct Power;

impl ExprPlanner for Power {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        match expr.op {
            BinaryOperator::PGExp => {
                Ok(PlannerResult::Planned(math::power().call(vec![expr.left, expr.right])))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}
