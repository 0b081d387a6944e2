//! Functions of arrays.

mod comparison;
mod dimensions;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, ListArray, StringViewArray,
    UInt32Array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType as ArrowType, Field, Int64Type};
use datafusion::common::utils::list_ndims;
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, ScalarUDF, TypeSignature};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::cast::is_text;
use thalweg_values::common_type;
use thalweg_values::errors::external;
use thalweg_values::scalar_function::{Compute, Function};

use super::catalog::typed_literal;
use super::{array_remove, size_checked};

pub use comparison::{comparison, item_type};
pub(super) use dimensions::Subscripts;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let int = || ArrowType::Int32;
    let of_any = |name, arguments, returns, compute: Compute| {
        Function::signed(name, TypeSignature::Any(arguments), returns, compute).into_udf()
    };
    let mut functions = vec![
        array_remove::function(),
        size_checked::array_replace(),
        of_any("array_length", 2, int(), |columns| along(columns, |length| length)),
        of_any("array_upper", 2, int(), |columns| along(columns, |length| length)),
        of_any("array_lower", 2, int(), |columns| along(columns, |_| 1)),
        of_any("array_ndims", 1, int(), |columns| {
            each(&columns[0], |lengths| (!lengths.is_empty()).then_some(lengths.len() as i32))
        }),
        of_any("cardinality", 1, int(), |columns| {
            each(&columns[0], |lengths| {
                Some(if lengths.is_empty() { 0 } else { lengths.iter().product() })
            })
        }),
        of_any("array_dims", 1, ArrowType::Utf8View, dimensions),
        of_any("array_has_items", 1, ArrowType::Boolean, has_items),
        of_any("array_has_unknown", 1, ArrowType::Boolean, has_unknown),
        Function::signed("array_part", TypeSignature::Any(3), ArrowType::Null, part)
            .returning(list_of)
            .into_udf(),
        Function::signed("trim_array", TypeSignature::Any(2), ArrowType::Null, trim)
            .returning(list_of)
            .into_udf(),
    ];
    functions.extend(comparison::functions());
    functions.extend(dimensions::functions());
    functions
}

/// The lengths of a list's dimensions; none if it is empty.
fn lengths_of(list: &ArrayRef) -> Vec<i32> {
    let mut lengths = Vec::new();
    let mut items = list.clone();
    loop {
        if items.is_empty() {
            return Vec::new();
        }
        lengths.push(items.len() as i32);
        let inner = items.as_list_opt::<i32>().filter(|lists| lists.is_valid(0));
        match inner.map(|lists| lists.value(0)) {
            Some(inner) => items = inner,
            None => return lengths,
        }
    }
}

/// The lengths of the list in each row, whatever the kind of list.
fn all_lengths(column: &ArrayRef) -> Result<Vec<Option<Vec<i32>>>> {
    let not_a_list = || {
        let error_text = "function does not exist for the given argument types";
        Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
    };
    let item = match column.data_type() {
        ArrowType::Null => return Ok(vec![None; column.len()]),
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            item.clone()
        }
        _ => return Err(not_a_list()),
    };
    let lists = cast(column, &ArrowType::List(item)).map_err(|_| not_a_list())?;
    let lists = lists.as_list::<i32>();
    let all =
        (0..lists.len()).map(|row| lists.is_valid(row).then(|| lengths_of(&lists.value(row))));
    Ok(all.collect())
}

fn each(column: &ArrayRef, measure: impl Fn(Vec<i32>) -> Option<i32>) -> Result<ArrayRef> {
    let lengths = all_lengths(column)?.into_iter();
    Ok(Arc::new(lengths.map(|lengths| measure(lengths?)).collect::<Int32Array>()))
}

/// Applies `measure` to the length of the dimension that the second argument names.
pub(super) fn along(columns: &[ArrayRef], measure: impl Fn(i32) -> i32) -> Result<ArrayRef> {
    let places = cast(&columns[1], &ArrowType::Int64)
        .map_err(|error| thalweg_values::errors::from_arrow_error(&error))?;
    let places = places.as_primitive::<Int64Type>();
    let measured = all_lengths(&columns[0])?.into_iter().zip(places).map(|(lengths, place)| {
        let place = usize::try_from(place?).ok()?.checked_sub(1)?;
        lengths?.get(place).map(|length| measure(*length))
    });
    Ok(Arc::new(measured.collect::<Int32Array>()))
}

/// `[1:2][1:3]`
fn dimensions(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let written = all_lengths(&columns[0])?.into_iter().map(|lengths| {
        let lengths = lengths.filter(|lengths| !lengths.is_empty())?;
        Some(lengths.iter().map(|length| format!("[1:{length}]")).collect::<String>())
    });
    Ok(Arc::new(written.collect::<StringViewArray>()))
}

/// False for lists without items, NULL for NULL, and true for all others.
fn has_items(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let column = &columns[0];
    let item = match column.data_type() {
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            item.clone()
        }
        // A literal gets the type of a list only beside a tested value.
        _ => return Ok(Arc::new(BooleanArray::from(vec![true; column.len()]))),
    };
    let lists = cast(column, &ArrowType::List(item))
        .map_err(|error| thalweg_values::errors::from_arrow_error(&error))?;
    let lists = lists.as_list::<i32>();
    let found = lists.offsets().lengths().map(|length| length > 0).collect::<BooleanBuffer>();
    Ok(Arc::new(BooleanArray::new(found, lists.nulls().cloned())))
}

/// NULL for lists that have a NULL among their items, and false for all others.
fn has_unknown(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let column = &columns[0];
    let item = match column.data_type() {
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            item.clone()
        }
        _ => return Ok(new_null_array(&ArrowType::Boolean, column.len())),
    };
    let lists = cast(column, &ArrowType::List(item))
        .map_err(|error| thalweg_values::errors::from_arrow_error(&error))?;
    let lists = lists.as_list::<i32>();
    let known = |row: usize| lists.is_valid(row) && lists.value(row).null_count() == 0;
    let found = (0..lists.len()).map(|row| known(row).then_some(false));
    Ok(Arc::new(found.collect::<BooleanArray>()))
}

fn list_of(types: &[ArrowType]) -> PlanResult<ArrowType> {
    match &types[0] {
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            Ok(ArrowType::List(Arc::clone(item)))
        }
        other => {
            let other = thalweg_values::types::display_name(&Field::new("", other.clone(), true));
            let error_text =
                format!("cannot subscript type {other} because it does not support subscripting");
            Err(external(Error::new(SqlState::DATATYPE_MISMATCH, error_text)))
        }
    }
}

/// `array[from:to]`: the items between two places, both of them included.
fn part(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let error_text = |error| thalweg_values::errors::from_arrow_error(&error);
    let lists = list_of(&[columns[0].data_type().clone()])
        .map_err(|error| thalweg_values::errors::from_datafusion(error, ""))?;
    let ArrowType::List(item) = &lists else { return Ok(Arc::clone(&columns[0])) };
    let lists = cast(&columns[0], &lists).map_err(error_text)?;
    let lists = lists.as_list::<i32>();
    let [lower, upper] = [1, 2].map(|place: usize| cast(&columns[place], &ArrowType::Int64));
    let (lower, upper) = (lower.map_err(error_text)?, upper.map_err(error_text)?);
    let ends = lower.as_primitive::<Int64Type>().iter().zip(upper.as_primitive::<Int64Type>());
    let mut taken: Vec<u32> = Vec::new();
    let (mut lengths, mut known) = (Vec::new(), Vec::new());
    for (row, ends) in ends.enumerate() {
        let before = taken.len();
        known.push(lists.is_valid(row));
        match ends {
            (Some(lower), Some(upper)) if lists.is_valid(row) => {
                let first = i64::from(lists.value_offsets()[row]);
                let length = i64::from(lists.value_length(row));
                let places = lower.max(1)..=upper.min(length);
                taken.extend(places.map(|place| (first + place - 1) as u32));
            }
            (Some(_), Some(_)) => {}
            _ => known[row] = false,
        }
        lengths.push(taken.len() - before);
    }
    let items = take(lists.values(), &UInt32Array::from(taken), None).map_err(error_text)?;
    let nulls = NullBuffer::from(known);
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::new(Arc::clone(item), offsets, items, Some(nulls))))
}

/// `trim_array(array, n)`: without the last `n` items.
fn trim(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let counts = cast(&columns[1], &ArrowType::Int64)
        .map_err(|error| thalweg_values::errors::from_arrow_error(&error))?;
    let counts = counts.as_primitive::<Int64Type>();
    let ends = all_lengths(&columns[0])?.into_iter().zip(counts).map(|(lengths, count)| {
        let (Some(lengths), Some(count)) = (lengths, count) else { return Ok(None) };
        let length = lengths.first().map_or(0, |length| i64::from(*length));
        if (0..=length).contains(&count) {
            return Ok(Some(length - count));
        }
        let error_text = format!("number of elements to trim must be between 0 and {length}");
        Err(Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, error_text))
    });
    let ends: ArrayRef = Arc::new(ends.collect::<Result<Int64Array>>()?);
    let starts: ArrayRef = Arc::new(Int64Array::from(vec![1; ends.len()]));
    part(&[Arc::clone(&columns[0]), starts, ends])
}

/// `ARRAY[…]` of numbers of several types.
#[derive(Debug)]
pub(crate) struct NumberItems;

impl ExprPlanner for NumberItems {
    fn plan_array_literal(
        &self,
        exprs: Vec<Expr>,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<Vec<Expr>>> {
        let exprs = with_moments(with_own_digits(exprs, schema)?, schema)?;
        let types = exprs.iter().map(|item| item.get_type(schema)).collect::<PlanResult<Vec<_>>>();
        let Some(target) = types.ok().and_then(|types| common_type::chosen(&types)) else {
            return Ok(PlannerResult::Original(exprs));
        };
        let items = exprs.into_iter().map(|item| common_type::cast_to(item, &target, schema));
        Ok(PlannerResult::Original(items.collect::<PlanResult<_>>()?))
    }
}

/// The items with numbers in place of literals in quotes, if the other items are numerics: Arrow
/// would round them to the scale of the others.
fn with_own_digits(items: Vec<Expr>, schema: &DFSchema) -> PlanResult<Vec<Expr>> {
    let is_unknown = |item: &&Expr| matches!(item, Expr::Literal(ScalarValue::Utf8(Some(_)), None));
    let known = items.iter().filter(|item| !is_unknown(item)).map(|item| item.get_type(schema));
    let known = known.collect::<PlanResult<Vec<_>>>();
    let Some(beside @ ArrowType::Decimal128(..)) = known.ok().and_then(|t| common_type::of_all(&t))
    else {
        return Ok(items);
    };
    let numbers = items.into_iter().map(|item| match &item {
        Expr::Literal(ScalarValue::Utf8(Some(text)), None) => {
            let own = common_type::of_literal(text, &beside);
            datafusion::logical_expr::cast(item, own)
        }
        _ => item,
    });
    Ok(numbers.collect())
}

/// The items with moments in place of literals in quotes, if the other items are days or moments.
fn with_moments(items: Vec<Expr>, schema: &DFSchema) -> PlanResult<Vec<Expr>> {
    let is_unknown = |item: &Expr| matches!(item, Expr::Literal(ScalarValue::Utf8(Some(_)), None));
    let known = items.iter().filter(|item| !is_unknown(item)).map(|item| item.get_type(schema));
    let known = known.collect::<PlanResult<Vec<_>>>();
    let target = known.ok().and_then(|types| common_type::of_all(&types));
    let Some(target @ (ArrowType::Date32 | ArrowType::Timestamp(..))) = target else {
        return Ok(items);
    };
    let moments = items.into_iter().map(|item| match is_unknown(&item) {
        true => datafusion::logical_expr::cast(item, target.clone()),
        false => item,
    });
    Ok(moments.collect())
}

/// `@>`, `<@`, `&&` and `||` of arrays. A literal beside an array is an array, too.
#[derive(Debug)]
pub(super) struct ArrayOperators;

impl ExprPlanner for ArrayOperators {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{ArrowAt, AtArrow, PGOverlap, StringConcat};
        // A value of a text type beside `||` is one more item.
        let is_unknown = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Utf8(_), _));
        let takes_arrays = match expr.op {
            ArrowAt | AtArrow | PGOverlap => true,
            StringConcat => is_unknown(&expr.left) || is_unknown(&expr.right),
            _ => false,
        };
        if takes_arrays {
            let is_array = |expr: &Expr| {
                expr.get_type(schema).is_ok_and(|given| matches!(given, ArrowType::List(_)))
            };
            if is_array(&expr.left) {
                expr.right = typed_literal(&expr.right, &expr.left, schema).unwrap_or(expr.right);
            } else if is_array(&expr.right) {
                expr.left = typed_literal(&expr.left, &expr.right, schema).unwrap_or(expr.left);
            }
        }
        // NULL beside an array is not an item, but an array without items.
        if let StringConcat = expr.op {
            let is_null = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Null, _));
            if is_null(&expr.right) && is_list(&expr.left, schema) {
                return Ok(PlannerResult::Planned(expr.left));
            }
            if is_null(&expr.left) && is_list(&expr.right, schema) {
                return Ok(PlannerResult::Planned(expr.right));
            }
        }
        if let Some(compared) = compared(&expr, schema) {
            return Ok(PlannerResult::Planned(compared));
        }
        match expr.op {
            StringConcat if is_list(&expr.left, schema) || is_list(&expr.right, schema) => {
                let dimensions =
                    |expr: &Expr| expr.get_type(schema).map(|given| list_ndims(&given));
                let (left, right) = (dimensions(&expr.left)?, dimensions(&expr.right)?);
                let both =
                    size_checked::array_concatenation((expr.left, left), (expr.right, right));
                Ok(PlannerResult::Planned(both))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// A test for common items, or a comparison of arrays of different numbers of dimensions.
fn compared(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let (left, right) = (expr.left.get_type(schema).ok()?, expr.right.get_type(schema).ok()?);
    let is_list = |given: &ArrowType| matches!(given, ArrowType::List(_));
    let is_array = |given: &ArrowType| is_list(given) || given.is_null();
    let (first, second) = (item_type(&left), item_type(&right));
    let is_alike = first.is_null()
        || second.is_null()
        || first == second
        || (is_text(first) && is_text(second))
        || (first.is_numeric() && second.is_numeric());
    if !is_alike || !is_array(&left) || !is_array(&right) || !(is_list(&left) || is_list(&right)) {
        return None;
    }
    let differ = is_list(&left) && is_list(&right) && list_ndims(&left) != list_ndims(&right);
    let function = match expr.op {
        BinaryOperator::AtArrow | BinaryOperator::ArrowAt => comparison::contains(),
        BinaryOperator::PGOverlap => comparison::overlap(),
        BinaryOperator::Eq if differ => comparison(Operator::Eq)?,
        BinaryOperator::NotEq if differ => comparison(Operator::NotEq)?,
        BinaryOperator::Lt if differ => comparison(Operator::Lt)?,
        BinaryOperator::LtEq if differ => comparison(Operator::LtEq)?,
        BinaryOperator::Gt if differ => comparison(Operator::Gt)?,
        BinaryOperator::GtEq if differ => comparison(Operator::GtEq)?,
        _ => return None,
    };
    let operands = match expr.op {
        BinaryOperator::ArrowAt => vec![expr.right.clone(), expr.left.clone()],
        _ => vec![expr.left.clone(), expr.right.clone()],
    };
    Some(function.call(operands))
}

fn is_list(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|given| matches!(given, ArrowType::List(_)))
}
