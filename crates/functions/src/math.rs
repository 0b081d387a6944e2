//! Functions of numbers.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int32Array, Int64Array,
    StringViewArray,
};
use arrow::compute::cast;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Field, Float64Type, Int32Type, Int64Type,
};
use datafusion::common::{DFSchema, Result as PlanResult, exec_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType as SqlType, ExactNumberInfo};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::arithmetic::numeric::decimal_of;
use thalweg_values::bounded_output::allow_reading;
use thalweg_values::cast::{Manner, convert};
use thalweg_values::date_pattern::PATTERN_BYTES;
use thalweg_values::errors::external;
use thalweg_values::number_pattern;
use thalweg_values::scalar_function::Function;
use thalweg_values::types::{arrow_field, arrow_type, column_type, from_arrow};

const PRECISION_MAX: u8 = 38;

/// Maximum number of digits that `to_number` reads behind the point.
const READ_SCALE: i8 = 15;

/// As many bits as the type has: those of negative numbers are ones at the front.
fn to_hex(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let column = &columns[0];
    let texts: StringViewArray = match column.as_primitive_opt::<Int32Type>() {
        Some(numbers) => numbers.iter().map(|number| Some(format!("{:x}", number?))).collect(),
        None => {
            let numbers = column.as_primitive::<Int64Type>().iter();
            numbers.map(|number| Some(format!("{:x}", number?))).collect()
        }
    };
    Ok(Arc::new(texts))
}

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let (float, int) = (ArrowType::Float64, ArrowType::Int32);
    vec![
        Function::signed("mod", TypeSignature::Numeric(2), ArrowType::Int64, modulo)
            .returning_argument(0)
            .into_udf(),
        Function::signed("div", TypeSignature::Any(2), ArrowType::Null, quotient)
            .returning(whole_quotient)
            .into_udf(),
        float_function("ln", |columns| logarithm(columns, f64::ln)),
        float_function("log10", |columns| logarithm(columns, f64::log10)),
        Function::new(
            "log",
            &[std::slice::from_ref(&float), &[float.clone(), float.clone()]],
            float.clone(),
            log,
        )
        .into_udf(),
        float_function("sqrt", square_root),
        POWER.clone(),
        Function::new(
            "to_hex",
            &[std::slice::from_ref(&int), &[ArrowType::Int64]],
            ArrowType::Utf8View,
            to_hex,
        )
        .into_udf(),
        Function::signed("bitwise_not", TypeSignature::Any(1), ArrowType::Int64, complement)
            .returning_argument(0)
            .into_udf(),
        Function::signed("numeric", TypeSignature::Any(1), ArrowType::Null, numeric_of)
            .returning(numeric_type)
            .into_udf(),
        Function::signed("numeric_array", TypeSignature::Any(1), ArrowType::Null, numerics_of)
            .returning(numeric_array_type)
            .into_udf(),
        Function::new(
            "to_number",
            &[&[ArrowType::Utf8View, ArrowType::Utf8View]],
            ArrowType::Decimal128(PRECISION_MAX, READ_SCALE),
            to_number,
        )
        .into_udf(),
        Function::signed("scale", TypeSignature::Any(1), ArrowType::Int32, scale).into_udf(),
        Function::signed("min_scale", TypeSignature::Any(1), ArrowType::Int32, min_scale)
            .into_udf(),
        Function::signed("num_nulls", TypeSignature::VariadicAny, ArrowType::Int32, |columns| {
            count_nulls(columns, true)
        })
        .into_udf(),
        Function::signed("num_nonnulls", TypeSignature::VariadicAny, ArrowType::Int32, |columns| {
            count_nulls(columns, false)
        })
        .into_udf(),
        Function::new(
            "width_bucket",
            &[&[float.clone(), float.clone(), float.clone(), float]],
            int,
            width_bucket,
        )
        .into_udf(),
        Function::signed("sign", TypeSignature::Any(1), ArrowType::Float64, sign)
            .returning(sign_type)
            .into_udf(),
    ]
}

/// A numeric for numerics, a floating point number for all others.
fn sign_type(arguments: &[ArrowType]) -> PlanResult<ArrowType> {
    Ok(match arguments {
        [decimal] if decimal.is_decimal() => ArrowType::Decimal128(1, 0),
        _ => ArrowType::Float64,
    })
}

fn sign(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let column = &columns[0];
    if let Some(decimals) = column.as_primitive_opt::<Decimal128Type>() {
        let signs: Decimal128Array = decimals.unary(i128::signum);
        return Ok(Arc::new(signs.with_data_type(ArrowType::Decimal128(1, 0))));
    }
    let field = Field::new("", column.data_type().clone(), true);
    let doubles =
        convert(column, &field, &DataType::Float8, Manner::Explicit)?.ok_or_else(|| {
            let name = thalweg_values::types::display_name(&field);
            Error::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function sign({name}) does not exist"),
            )
        })?;
    // Zero has no sign, though Rust's has one.
    let sign = |value: f64| if value == 0.0 { 0.0 } else { value.signum() };
    let signs: Float64Array = doubles.as_primitive::<Float64Type>().unary(sign);
    Ok(Arc::new(signs))
}

fn modulo(columns: &[ArrayRef]) -> Result<ArrayRef> {
    numeric::rem(&columns[0], &columns[1])
        .map_err(|error| thalweg_values::errors::from_arrow_error(&error))
}

/// `CAST(value AS numeric)` keeps the scale that the value has.
fn numeric_type(arguments: &[ArrowType]) -> PlanResult<ArrowType> {
    Ok(match arguments {
        [decimal] if decimal.is_decimal() => decimal.clone(),
        [integer] if integer.is_integer() => {
            let (precision, scale) = decimal_of(integer).unwrap_or((PRECISION_MAX, 0));
            ArrowType::Decimal128(precision, scale)
        }
        _ => arrow_type(&column_type(&SqlType::Numeric(ExactNumberInfo::None)).map_err(external)?),
    })
}

/// `CAST(value AS numeric[])` keeps the scale that the items have.
fn numeric_array_type(arguments: &[ArrowType]) -> PlanResult<ArrowType> {
    let item = match arguments {
        [list @ ArrowType::List(item)] => match item.data_type() {
            ArrowType::List(_) => numeric_array_type(std::slice::from_ref(item.data_type()))?,
            decimal if decimal.is_decimal() => return Ok(list.clone()),
            other => numeric_type(std::slice::from_ref(other))?,
        },
        _ => numeric_type(&[])?,
    };
    Ok(ArrowType::List(Arc::new(Field::new(Field::LIST_FIELD_DEFAULT_NAME, item, true))))
}

fn numeric_of(columns: &[ArrayRef]) -> Result<ArrayRef> {
    cast_to_numeric(columns, numeric_type)
}

fn numerics_of(columns: &[ArrayRef]) -> Result<ArrayRef> {
    cast_to_numeric(columns, numeric_array_type)
}

fn cast_to_numeric(
    columns: &[ArrayRef],
    type_of: fn(&[ArrowType]) -> PlanResult<ArrowType>,
) -> Result<ArrayRef> {
    let given = columns[0].data_type();
    let target =
        type_of(std::slice::from_ref(given)).map_err(|e| Error::internal(e.to_string()))?;
    if target == *given {
        return Ok(columns[0].clone());
    }
    let field = Field::new("", given.clone(), true);
    let target = from_arrow(&target)?;
    convert(&columns[0], &field, &target, Manner::Explicit)?.ok_or_else(|| {
        let name = thalweg_values::types::display_name(&field);
        let target = thalweg_values::types::display_name(&arrow_field("", &target, true));
        Error::new(SqlState::CANNOT_COERCE, format!("cannot cast type {name} to {target}"))
    })
}

/// Whole numbers give a whole number, anything else gives a numeric.
fn whole_quotient(arguments: &[ArrowType]) -> PlanResult<ArrowType> {
    match arguments {
        [left, right] if left.is_integer() && right.is_integer() => Ok(ArrowType::Int64),
        [left, right] if left.is_numeric() && right.is_numeric() => {
            Ok(ArrowType::Decimal128(PRECISION_MAX, 0))
        }
        _ => exec_err!("Function 'div' does not take such arguments"),
    }
}

/// Rounds towards zero.
fn quotient(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let error_text = |error| thalweg_values::errors::from_arrow_error(&error);
    let to = |target: &ArrowType| -> Result<Vec<ArrayRef>> {
        columns.iter().map(|column| cast(column, target).map_err(error_text)).collect()
    };
    if columns.iter().all(|column| column.data_type().is_integer()) {
        let whole = to(&ArrowType::Int64)?;
        return numeric::div(
            &whole[0].as_primitive::<Int64Type>(),
            &whole[1].as_primitive::<Int64Type>(),
        )
        .map_err(error_text);
    }
    let scale = columns.iter().filter_map(|column| decimal_of(column.data_type()));
    let scale = scale.map(|(_, scale)| scale).max().unwrap_or(0);
    let values = to(&ArrowType::Decimal128(PRECISION_MAX, scale))?;
    let (left, right) =
        (values[0].as_primitive::<Decimal128Type>(), values[1].as_primitive::<Decimal128Type>());
    let quotients = left.iter().zip(right).map(|pair| match pair {
        (Some(_), Some(0)) => Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")),
        (Some(left), Some(right)) => Ok(Some(left / right)),
        _ => Ok(None),
    });
    let quotients = quotients.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(quotients.with_data_type(ArrowType::Decimal128(PRECISION_MAX, 0))))
}

fn float_function(
    name: &'static str,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> Arc<ScalarUDF> {
    Function::new(name, &[&[ArrowType::Float64]], ArrowType::Float64, compute).into_udf()
}

fn logarithm(columns: &[ArrayRef], logarithm: fn(f64) -> f64) -> Result<ArrayRef> {
    let values = columns[0].as_primitive::<Float64Type>();
    let logarithms: Float64Array =
        values.try_unary(|value| logarithm_argument(value).map(logarithm))?;
    Ok(Arc::new(logarithms))
}

fn logarithm_argument(value: f64) -> Result<f64> {
    let error_text = match value {
        0.0 => "cannot take logarithm of zero",
        value if value < 0.0 => "cannot take logarithm of a negative number",
        value => return Ok(value),
    };
    Err(Error::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, error_text))
}

/// To the base 10, or to the base that comes first.
fn log(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let [bases, values] = columns else { return logarithm(columns, f64::log10) };
    each_pair(bases, values, |base, value| {
        let (base, value) = (logarithm_argument(base)?, logarithm_argument(value)?);
        if base == 1.0 {
            return Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        // Exact results for powers of these bases.
        Ok(match base {
            2.0 => value.log2(),
            10.0 => value.log10(),
            base => value.ln() / base.ln(),
        })
    })
}

fn each_pair(
    left: &ArrayRef,
    right: &ArrayRef,
    compute: impl Fn(f64, f64) -> Result<f64>,
) -> Result<ArrayRef> {
    let pairs = left.as_primitive::<Float64Type>().iter().zip(right.as_primitive::<Float64Type>());
    let computed = pairs.map(|pair| match pair {
        (Some(left), Some(right)) => compute(left, right).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(computed.collect::<Result<Float64Array>>()?))
}

fn square_root(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let roots: Float64Array =
        columns[0].as_primitive::<Float64Type>().try_unary(|value| match value {
            value if value < 0.0 => {
                let error_text = "cannot take square root of a negative number";
                Err(Error::new(SqlState::INVALID_ARGUMENT_FOR_POWER, error_text))
            }
            value => Ok(value.sqrt()),
        })?;
    Ok(Arc::new(roots))
}

fn powers(columns: &[ArrayRef]) -> Result<ArrayRef> {
    each_pair(&columns[0], &columns[1], |base, exponent| {
        let refused =
            |error_text: &str| Err(Error::new(SqlState::INVALID_ARGUMENT_FOR_POWER, error_text));
        if base == 0.0 && exponent < 0.0 {
            return refused("zero raised to a negative power is undefined");
        }
        if base < 0.0 && exponent.fract() != 0.0 {
            return refused(
                "a negative number raised to a non-integer power yields a complex result",
            );
        }
        let power = base.powf(exponent);
        if power.is_infinite() && base.is_finite() && exponent.is_finite() {
            let error_text = "value out of range: overflow";
            return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, error_text));
        }
        Ok(power)
    })
}

/// `~value`
fn complement(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let error_text = |error| thalweg_values::errors::from_arrow_error(&error);
    let target = columns[0].data_type();
    if !target.is_integer() {
        let name = thalweg_values::types::display_name(&Field::new("", target.clone(), true));
        let error_text = format!("operator does not exist: ~ {name}");
        return Err(Error::new(SqlState::UNDEFINED_FUNCTION, error_text));
    }
    let values = cast(&columns[0], &ArrowType::Int64).map_err(error_text)?;
    let flipped: Int64Array = values.as_primitive::<Int64Type>().unary(|value| !value);
    cast(&flipped, target).map_err(error_text)
}

/// The number that a pattern finds in a text.
fn to_number(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = columns[0].as_string_view();
    let patterns = thalweg_values::cast::to_text(&columns[1])?;
    allow_reading(patterns.as_string_view(), PATTERN_BYTES)?;
    let digits = texts.iter().zip(patterns.as_string_view()).map(|(text, pattern)| {
        let (Some(text), Some(pattern)) = (text, pattern) else { return Ok(None) };
        number_pattern::read(text, pattern).map(Some)
    });
    let digits = digits.collect::<Result<arrow::array::StringViewArray>>()?;
    let digits: ArrayRef = Arc::new(digits);
    let field = Field::new("", ArrowType::Utf8View, true);
    let target = from_arrow(&ArrowType::Decimal128(PRECISION_MAX, READ_SCALE))?;
    convert(&digits, &field, &target, Manner::Explicit)?
        .ok_or_else(|| Error::internal("text is read as numeric"))
}

/// Number of digits that a numeric has behind the point.
fn scale(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let scale = decimal_of(columns[0].data_type()).map_or(0, |(_, scale)| i32::from(scale.max(0)));
    let column = &columns[0];
    let scales = (0..column.len()).map(|row| column.is_valid(row).then_some(scale));
    Ok(Arc::new(scales.collect::<Int32Array>()))
}

/// Number of digits behind the point without trailing zeros.
fn min_scale(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = thalweg_values::cast::to_text(&columns[0])?;
    let scales = texts.as_string_view().iter().map(|text| {
        let (_, fraction) = text?.split_once('.').unwrap_or_default();
        Some(fraction.trim_end_matches('0').len() as i32)
    });
    Ok(Arc::new(scales.collect::<Int32Array>()))
}

fn count_nulls(columns: &[ArrayRef], are_null: bool) -> Result<ArrayRef> {
    let rows = columns.first().map_or(0, |column| column.len());
    let counts = (0..rows).map(|row| {
        let is_null =
            |column: &&ArrayRef| column.data_type() == &ArrowType::Null || column.is_null(row);
        Some(columns.iter().filter(|column| is_null(column) == are_null).count() as i32)
    });
    Ok(Arc::new(counts.collect::<Int32Array>()))
}

/// The number of the bucket that a value lies in, out of equal parts of a range: 0 below the range,
/// one more than there are parts above it.
fn width_bucket(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let float = |place: usize| -> &Float64Array { columns[place].as_primitive::<Float64Type>() };
    let (values, lows, highs) = (float(0), float(1), float(2));
    let counts = float(3);
    let invalid = |message: &str| Error::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET, message);
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

static POWER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let float = ArrowType::Float64;
    Function::new("power", &[&[float.clone(), float.clone()]], float, powers)
        .alias("pow")
        .into_udf()
});

/// `a ^ b` is a power. DataFusion takes it for an exclusive or.
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
                Ok(PlannerResult::Planned(POWER.call(vec![expr.left, expr.right])))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}
