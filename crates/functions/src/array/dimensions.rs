//! Arrays of several dimensions, which are lists of lists: the list of all items, subscripts, and
//! arrays filled with one value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Int64Type};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, GetFieldAccess, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::cast::{Manner, convert, is_text};
use thalweg_values::errors::external;
use thalweg_values::scalar_function::{Compute, Function};
use thalweg_values::types::display_name;

use super::super::concatenation::items_of;
use super::super::series::ITEMS_MAX;
use thalweg_values::bounded_output::allow_together;

/// The function around the last subscript of an array, where the statement shows which one is the
/// last.
const LAST: &str = "subscript_last";

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(ScalarUDF::from(Items::default())),
        no_item(),
        Function::signed(LAST, TypeSignature::Any(1), ArrowType::Int64, |columns| {
            Ok(Arc::clone(&columns[0]))
        })
        .returning_argument(0)
        .into_udf(),
        filling::<1>("array_fill"),
        filling::<2>("array_fill_2"),
        filling::<3>("array_fill_3"),
        filling::<4>("array_fill_4"),
        filling::<5>("array_fill_5"),
        filling::<6>("array_fill_6"),
    ]
}

/// The innermost item field of lists of lists; `None` for lists of one dimension, and for other
/// types.
fn innermost(given: &ArrowType) -> Option<&FieldRef> {
    let ArrowType::List(item) = given else { return None };
    let ArrowType::List(inner) = item.data_type() else { return None };
    innermost(item.data_type()).or(Some(inner))
}

/// `array_items(array)`: an array of one dimension with all items, which `unnest` makes rows of.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Items {
    signature: Signature,
}

impl Default for Items {
    fn default() -> Items {
        Items { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Items {
    fn name(&self) -> &str {
        "array_items"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(match innermost(&arg_types[0]) {
            Some(item) => ArrowType::List(Arc::clone(item)),
            None => arg_types[0].clone(),
        })
    }

    /// An array of one dimension passes the metadata of its field to the result.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let given = &args.arg_fields[0];
        Ok(match innermost(given.data_type()) {
            Some(item) => {
                let items = ArrowType::List(Arc::clone(item));
                Arc::new(Field::new(self.name(), items, true))
            }
            None => Arc::clone(given),
        })
    }

    fn simplify(
        &self,
        mut args: Vec<Expr>,
        info: &SimplifyContext,
    ) -> PlanResult<ExprSimplifyResult> {
        let given = info.get_data_type(&args[0])?;
        Ok(match innermost(&given) {
            Some(_) => ExprSimplifyResult::Original(args),
            None => ExprSimplifyResult::Simplified(args.swap_remove(0)),
        })
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let given = args.args.swap_remove(0);
        let Some(item) = innermost(&given.data_type()).map(Arc::clone) else { return Ok(given) };
        let lists = given.into_array(args.number_rows)?;
        let (items, bounds) = items_of(&lists);
        let bounds = bounds.into_iter().map(|bound| bound as i32).collect::<Vec<_>>();
        let offsets = OffsetBuffer::new(bounds.into());
        let flat = ListArray::try_new(item, offsets, items, lists.nulls().cloned())?;
        Ok(ColumnarValue::Array(Arc::new(flat)))
    }
}

/// NULL, of the type of an item.
fn no_item() -> Arc<ScalarUDF> {
    Function::signed("array_no_item", TypeSignature::Any(1), ArrowType::Null, |columns| {
        Ok(new_null_array(&type_of_items(columns[0].data_type()), columns[0].len()))
    })
    .returning(|given| Ok(type_of_items(&given[0])))
    .into_udf()
}

fn type_of_items(lists: &ArrowType) -> ArrowType {
    innermost(lists).map_or(ArrowType::Null, |item| item.data_type().clone())
}

/// Fewer subscripts than an array has dimensions give NULL.
#[derive(Debug)]
pub(crate) struct Subscripts;

impl ExprPlanner for Subscripts {
    fn plan_field_access(
        &self,
        mut access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawFieldAccessExpr>> {
        let GetFieldAccess::ListIndex { key } = &mut access.field_access else {
            return Ok(PlannerResult::Original(access));
        };
        let Expr::ScalarFunction(call) = key.as_mut() else {
            return Ok(PlannerResult::Original(access));
        };
        if call.func.name() != LAST {
            return Ok(PlannerResult::Original(access));
        }
        let subscript = call.args.swap_remove(0);
        **key = subscript;
        let given = access.expr.get_type(schema);
        if given.is_ok_and(|given| innermost(&given).is_some()) {
            return Ok(PlannerResult::Planned(no_item().call(vec![access.expr])));
        }
        Ok(PlannerResult::Original(access))
    }
}

/// `array_fill(value, dimensions)` for a known number of dimensions.
fn filling<const DIMENSIONS: usize>(name: &'static str) -> Arc<ScalarUDF> {
    let compute: Compute = filled::<DIMENSIONS>;
    Function::signed(name, TypeSignature::Any(2), ArrowType::Null, compute)
        .returning(|given| match &given[0] {
            ArrowType::List(_) => {
                let value = display_name(&Field::new("", given[0].clone(), true));
                let error_text = format!("could not find array type for data type {value}");
                Err(external(Error::new(SqlState::UNDEFINED_OBJECT, error_text)))
            }
            value => Ok(filled_type::<DIMENSIONS>(value)),
        })
        .into_udf()
}

/// The type of an array with so many dimensions of a value.
fn filled_type<const DIMENSIONS: usize>(value: &ArrowType) -> ArrowType {
    let item = if is_text(value) { ArrowType::Utf8View } else { value.clone() };
    (0..DIMENSIONS).fold(item, |item, _| ArrowType::List(Arc::new(Field::new("item", item, true))))
}

/// Size of an item of `array_fill` and of the place that it is taken from, in bytes.
const FILLED_ITEM_BYTES: usize = 16 + size_of::<u32>();

fn filled<const DIMENSIONS: usize>(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let error_text = |error| thalweg_values::errors::from_arrow_error(&error);
    let values =
        cast(&columns[0], &filled_type::<0>(columns[0].data_type())).map_err(error_text)?;
    let given = Field::new("", columns[1].data_type().clone(), true);
    let numbers = DataType::Array(Box::new(DataType::Int8));
    let dimensions = convert(&columns[1], &given, &numbers, Manner::Explicit)?
        .ok_or_else(|| Error::new(SqlState::UNDEFINED_FUNCTION, "dimensions are an array"))?;
    let dimensions = dimensions.as_list::<i32>();
    let mut items: usize = 0;
    let mut lists: usize = 0;
    let mut all: Vec<([usize; DIMENSIONS], usize)> = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        let lengths = lengths_in::<DIMENSIONS>(dimensions, row)?;
        let count = lengths.iter().fold(1, |count: usize, length| count.saturating_mul(*length));
        // Each dimension but the first has so many lists, and a number for each of them.
        let mut inner: usize = 1;
        for length in &lengths[..DIMENSIONS - 1] {
            inner = inner.saturating_mul(*length);
            lists = lists.saturating_add(inner);
        }
        items = items.saturating_add(count);
        if items.saturating_add(lists) > ITEMS_MAX {
            let error_text = "array_fill makes arrays that are too long";
            return Err(Error::new(SqlState::OUT_OF_MEMORY, error_text));
        }
        all.push((lengths, count));
    }
    allow_together(items * FILLED_ITEM_BYTES + lists * size_of::<i32>())?;
    let mut taken: Vec<u32> = Vec::with_capacity(items);
    for (row, (_, count)) in all.iter().enumerate() {
        taken.extend(std::iter::repeat_n(row as u32, *count));
    }
    let mut items = take(&values, &UInt32Array::from(taken), None).map_err(error_text)?;
    for dimension in (0..DIMENSIONS).rev() {
        let lengths = all.iter().flat_map(|(lengths, _)| {
            let lists: usize = lengths[..dimension].iter().product();
            std::iter::repeat_n(lengths[dimension], lists)
        });
        let item = Arc::new(Field::new("item", items.data_type().clone(), true));
        items = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), items, None));
    }
    Ok(items)
}

/// The lengths that the array of a row has in each dimension; all are zero if one is.
fn lengths_in<const DIMENSIONS: usize>(
    dimensions: &ListArray,
    row: usize,
) -> Result<[usize; DIMENSIONS]> {
    let unknown = |error_text: &str| Err(Error::new(SqlState::NULL_VALUE_NOT_ALLOWED, error_text));
    if dimensions.is_null(row) {
        return unknown("dimension array or low bound array cannot be null");
    }
    let given = dimensions.value(row);
    let given = given.as_primitive::<Int64Type>();
    if given.null_count() > 0 {
        return unknown("dimension values cannot be null");
    }
    let mut lengths = [0; DIMENSIONS];
    if given.is_empty() {
        return Ok(lengths);
    }
    if given.len() != DIMENSIONS {
        // The type of the result has a fixed number of dimensions.
        return Err(Error::unsupported("array_fill of dimensions that are not written out"));
    }
    for (length, given) in lengths.iter_mut().zip(given.values()) {
        *length = usize::try_from(*given).map_err(|_| {
            Error::new(SqlState::LIMIT_EXCEEDED, "array size exceeds the maximum allowed")
        })?;
    }
    Ok(if lengths.contains(&0) { [0; DIMENSIONS] } else { lengths })
}
