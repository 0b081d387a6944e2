//! `array_remove`: DataFusion's own `array_remove_all`, and a way to remove NULLs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::compute::take;
use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::{Result as PlanResult, exec_err};
use datafusion::functions_nested::remove::array_remove_all_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

pub(super) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(ArrayRemove { inner: array_remove_all_udf() }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayRemove {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for ArrayRemove {
    fn name(&self) -> &str {
        "array_remove"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let [lists, item] = args.args.as_slice() else {
            return exec_err!("array_remove takes two arguments");
        };
        let rows = args.number_rows;
        let nulls = match item {
            ColumnarValue::Scalar(item) if !item.is_null() => None,
            item => item.to_array(rows)?.logical_nulls().filter(|nulls| nulls.null_count() > 0),
        };
        let lists = lists.to_array(rows)?;
        let (Some(nulls), Some(lists)) = (nulls, lists.as_list_opt::<i32>()) else {
            return self.inner.invoke_with_args(args);
        };
        let without_nulls = without_nulls(lists)?;
        if nulls.null_count() == rows {
            return Ok(ColumnarValue::Array(without_nulls));
        }
        let others = self.inner.invoke_with_args(args)?.into_array(rows)?;
        let unknown = BooleanArray::new(!nulls.inner(), None);
        Ok(ColumnarValue::Array(zip(&unknown, &without_nulls, &others)?))
    }
}

fn without_nulls(lists: &ListArray) -> PlanResult<ArrayRef> {
    let (item, offsets, items, valid) = lists.clone().into_parts();
    let nulls = items.logical_nulls();
    let is_kept = |place: i32| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(place as usize));
    let mut kept: Vec<u32> = Vec::new();
    let mut lengths = Vec::with_capacity(lists.len());
    for (row, ends) in offsets.windows(2).enumerate() {
        let before = kept.len();
        if lists.is_valid(row) {
            let places = (ends[0]..ends[1]).filter(|place| is_kept(*place));
            kept.extend(places.map(|place| place as u32));
        }
        lengths.push(kept.len() - before);
    }
    let items = take(&items, &UInt32Array::from(kept), None)?;
    Ok(Arc::new(ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), items, valid)?))
}
