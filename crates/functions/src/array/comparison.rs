//! Comparisons of arrays, and tests for common items, in PostgreSQL's manner.
//!
//! PostgreSQL compares the items of all dimensions one by one, with NULL after every value. Then
//! the number of items decides, and last the dimensions. Arrow sorts NULL before every value, and
//! compares the lists of an inner dimension as wholes. `@>`, `<@` and `&&` never find a NULL; those
//! of DataFusion do (no upstream issue found).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt64Array, make_comparator, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, cast, take};
use arrow::datatypes::{DataType as ArrowType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Operator, ScalarUDF, TypeSignature};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::errors::from_arrow_error;
use thalweg_values::interval_length::lengths;
use thalweg_values::scalar_function::{Compute, Function};

use super::all_lengths;

/// Above this number of comparisons, the items of the left array are hashed.
const COMPARISONS_MAX: usize = 256;

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 8]> = LazyLock::new(|| {
    let function = |name, compute: Compute| {
        Function::signed(name, TypeSignature::Any(2), ArrowType::Boolean, compute).into_udf()
    };
    [
        function("array_eq", |columns| ordered(columns, Ordering::is_eq)),
        function("array_ne", |columns| ordered(columns, Ordering::is_ne)),
        function("array_lt", |columns| ordered(columns, Ordering::is_lt)),
        function("array_le", |columns| ordered(columns, Ordering::is_le)),
        function("array_gt", |columns| ordered(columns, Ordering::is_gt)),
        function("array_ge", |columns| ordered(columns, Ordering::is_ge)),
        function("arraycontains", |columns| shared(columns, Shared::All)),
        function("arrayoverlap", |columns| shared(columns, Shared::Any)),
    ]
});

pub(super) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let sorted = Function::signed("array_sorted", TypeSignature::Any(3), ArrowType::Null, sorted);
    FUNCTIONS.iter().cloned().chain([sorted.returning_argument(0).into_udf()])
}

/// The comparison of two arrays; `None` for other operators.
pub fn comparison(operator: Operator) -> Option<Arc<ScalarUDF>> {
    let place = match operator {
        Operator::Eq => 0,
        Operator::NotEq => 1,
        Operator::Lt => 2,
        Operator::LtEq => 3,
        Operator::Gt => 4,
        Operator::GtEq => 5,
        _ => return None,
    };
    Some(Arc::clone(&FUNCTIONS[place]))
}

/// `left @> right`
pub(super) fn contains() -> Arc<ScalarUDF> {
    Arc::clone(&FUNCTIONS[6])
}

/// `left && right`
pub(super) fn overlap() -> Arc<ScalarUDF> {
    Arc::clone(&FUNCTIONS[7])
}

/// The type of the items of the innermost dimension.
pub fn item_type(mut array: &ArrowType) -> &ArrowType {
    while let ArrowType::List(item)
    | ArrowType::LargeList(item)
    | ArrowType::FixedSizeList(item, _) = array
    {
        array = item.data_type();
    }
    array
}

/// Compares the arrays of each row.
fn ordered(columns: &[ArrayRef], test: fn(Ordering) -> bool) -> Result<ArrayRef> {
    let Some((left, right)) = one_dimension(columns)? else { return Ok(unknown(columns)) };
    let options = SortOptions { descending: false, nulls_first: false };
    let compare = make_comparator(left.values(), right.values(), options)
        .map_err(|error| from_arrow_error(&error))?;
    let is_nested = columns.iter().any(|column| depth(column.data_type()) > 1);
    let dimensions = match is_nested {
        true => Some((all_lengths(&columns[0])?, all_lengths(&columns[1])?)),
        false => None,
    };
    let rows = (0..left.len()).map(|row| {
        if left.is_null(row) || right.is_null(row) {
            return None;
        }
        let (first, second) = (places(&left, row), places(&right, row));
        let lengths = first.len().cmp(&second.len());
        let items = first.zip(second).map(|(left, right)| compare(left, right));
        let order = items.into_iter().find(|order| order.is_ne()).unwrap_or(lengths);
        Some(test(order.then_with(|| match &dimensions {
            Some((left, right)) => {
                let count = |lengths: &Option<Vec<i32>>| lengths.as_ref().map(Vec::len);
                let counts = count(&left[row]).cmp(&count(&right[row]));
                counts.then_with(|| left[row].cmp(&right[row]))
            }
            None => Ordering::Equal,
        })))
    });
    Ok(Arc::new(rows.collect::<BooleanArray>()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shared {
    /// The left array has all items of the right one.
    All,
    /// The left array has an item of the right one.
    Any,
}

fn shared(columns: &[ArrayRef], wanted: Shared) -> Result<ArrayRef> {
    let Some((left, right)) = one_dimension(columns)? else { return Ok(unknown(columns)) };
    let error = |error| from_arrow_error(&error);
    let field = SortField::new(left.values().data_type().clone());
    let converter = RowConverter::new(vec![field]).map_err(error)?;
    let owned = converter.convert_columns(&[Arc::clone(left.values())]).map_err(error)?;
    let sought = converter.convert_columns(&[Arc::clone(right.values())]).map_err(error)?;
    let nulls = right.values().logical_nulls();
    let is_null = |place: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(place));
    let rows = (0..left.len()).map(|row| {
        if left.is_null(row) || right.is_null(row) {
            return None;
        }
        let (first, mut second) = (places(&left, row), places(&right, row));
        let hashed: Option<HashSet<&[u8]>> = (first.len() * second.len() > COMPARISONS_MAX)
            .then(|| first.clone().map(|place| owned.row(place).data()).collect());
        let is_found = |place: usize| {
            let item = sought.row(place).data();
            !is_null(place)
                && match &hashed {
                    Some(hashed) => hashed.contains(item),
                    None => first.clone().any(|own| owned.row(own).data() == item),
                }
        };
        Some(match wanted {
            Shared::All => second.all(is_found),
            Shared::Any => second.any(is_found),
        })
    });
    Ok(Arc::new(rows.collect::<BooleanArray>()))
}

/// `array_sorted(array, is_descending, are_nulls_first)`
fn sorted(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let Some(lists) = columns[0].as_list_opt::<i32>() else { return Ok(Arc::clone(&columns[0])) };
    let error = |error| from_arrow_error(&error);
    let items = comparable(lists.values());
    let options = SortOptions { descending: false, nulls_first: false };
    let compare = make_comparator(&items, &items, options).map_err(error)?;
    let nulls = items.logical_nulls();
    let is_null = |place: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(place));
    let (descending, nulls_first) = (columns[1].as_boolean(), columns[2].as_boolean());
    let mut order: Vec<u64> = Vec::with_capacity(items.len());
    let mut lengths = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let all = if lists.is_null(row) { 0..0 } else { places(lists, row) };
        lengths.push(all.len());
        let (absent, mut known): (Vec<usize>, Vec<usize>) = all.partition(|place| is_null(*place));
        known.sort_by(|one, other| {
            let order = compare(*one, *other);
            if descending.value(row) { order.reverse() } else { order }
        });
        let (first, last) = if nulls_first.value(row) { (absent, known) } else { (known, absent) };
        order.extend(first.into_iter().chain(last).map(|place| place as u64));
    }
    let sorted = take(lists.values(), &UInt64Array::from(order), None).map_err(error)?;
    let ArrowType::List(field) = lists.data_type() else {
        return Err(Error::internal("a list has items"));
    };
    let offsets = OffsetBuffer::from_lengths(lengths);
    let sorted = ListArray::try_new(Arc::clone(field), offsets, sorted, lists.nulls().cloned());
    Ok(Arc::new(sorted.map_err(error)?))
}

fn unknown(columns: &[ArrayRef]) -> ArrayRef {
    new_null_array(&ArrowType::Boolean, columns[0].len())
}

fn places(lists: &ListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = lists.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

fn depth(mut array: &ArrowType) -> usize {
    let mut depth = 0;
    while let ArrowType::List(item)
    | ArrowType::LargeList(item)
    | ArrowType::FixedSizeList(item, _) = array
    {
        (array, depth) = (item.data_type(), depth + 1);
    }
    depth
}

/// Both arrays with all items in one dimension, and items of one type; `None` if one of the columns
/// is NULL in all rows.
fn one_dimension(columns: &[ArrayRef]) -> Result<Option<(ListArray, ListArray)>> {
    let [left, right] = columns else { return Err(Error::internal("two arrays are compared")) };
    if left.data_type().is_null() || right.data_type().is_null() {
        return Ok(None);
    }
    let types = [item_type(left.data_type()).clone(), item_type(right.data_type()).clone()];
    let common = match type_union_resolution(&types) {
        Some(ArrowType::Null) => ArrowType::Int32,
        Some(common) => common,
        None => {
            let error_text = "operator does not exist for arrays of these types";
            return Err(Error::new(SqlState::UNDEFINED_FUNCTION, error_text));
        }
    };
    Ok(Some((flat(left, &common)?, flat(right, &common)?)))
}

fn flat(column: &ArrayRef, item: &ArrowType) -> Result<ListArray> {
    let error = |error| from_arrow_error(&error);
    let mut lists = as_list(column)?;
    while depth(&lists.value_type()) > 0 {
        let inner = as_list(lists.values())?;
        let ends = lists.value_offsets().iter().map(|end| inner.value_offsets()[*end as usize]);
        let offsets = OffsetBuffer::new(ends.collect());
        let ArrowType::List(field) = inner.data_type() else {
            return Err(Error::internal("a list has items"));
        };
        let nulls = lists.nulls().cloned();
        lists = ListArray::try_new(Arc::clone(field), offsets, Arc::clone(inner.values()), nulls)
            .map_err(error)?;
    }
    let items = comparable(&cast(lists.values(), item).map_err(error)?);
    let (field, offsets, _, nulls) = lists.into_parts();
    let field = field.as_ref().clone().with_data_type(items.data_type().clone());
    let field = Arc::new(field.with_nullable(true));
    ListArray::try_new(field, offsets, items, nulls).map_err(error)
}

fn as_list(column: &ArrayRef) -> Result<ListArray> {
    if let Some(lists) = column.as_list_opt::<i32>() {
        return Ok(lists.clone());
    }
    let lists = match column.data_type() {
        ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            cast(column, &ArrowType::List(Arc::clone(item)))
        }
        other => return Err(Error::internal(format!("{other} in place of an array"))),
    };
    Ok(lists.map_err(|error| from_arrow_error(&error))?.as_list::<i32>().clone())
}

/// Items that Arrow compares as SQL does: one zero, and intervals by their lengths.
fn comparable(items: &ArrayRef) -> ArrayRef {
    match items.data_type() {
        ArrowType::Float32 => {
            let one_zero = |number: f32| number + 0.0;
            Arc::new(items.as_primitive::<Float32Type>().unary::<_, Float32Type>(one_zero))
        }
        ArrowType::Float64 => {
            let one_zero = |number: f64| number + 0.0;
            Arc::new(items.as_primitive::<Float64Type>().unary::<_, Float64Type>(one_zero))
        }
        ArrowType::Interval(_) => lengths(items),
        _ => Arc::clone(items),
    }
}
