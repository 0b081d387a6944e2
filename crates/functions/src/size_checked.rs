//! DataFusion's functions of texts and arrays, with a check of the size of their results.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, FieldRef, Int64Type};
use datafusion::common::Result as PlanResult;
use datafusion::functions_nested as nested;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use thalweg_values::errors::external;

use thalweg_values::bounded_output::{allow_all, allow_together, own_bytes};

/// Size of an item while an array is made: its place, and a view or a number.
const ITEM_BYTES: usize = 24;

/// Size of an item in the hash table of a function of sets, and as a row for it.
const SET_ITEM_BYTES: usize = 88;

/// Shorter columns are not examined.
const LONG_BYTES: usize = 64 << 10;

/// A text is written once and copied to the result.
const TEXT_COPIES: usize = 2;

/// The functions, each with the maximum growth of its result over its arguments.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use datafusion::functions::{string, unicode};
    [
        (string::upper(), 3),
        (string::lower(), 3),
        (unicode::initcap(), 3),
        (unicode::reverse(), 1),
        (unicode::translate(), 4),
    ]
    .into_iter()
    .map(|(inner, times)| guarded(inner, times))
    .chain(arrays())
    .collect()
}

/// Functions of arrays, whose results have as many items as their arguments together, or as many
/// as a number says.
fn arrays() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let of_arguments = [
        nested::array_compact::array_compact_udf(),
        nested::extract::array_slice_udf(),
        nested::flatten::flatten_udf(),
        nested::sort::array_sort_udf(),
        nested::reverse::array_reverse_udf(),
        nested::arrays_zip::arrays_zip_udf(),
        nested::position::array_positions_udf(),
        nested::replace::array_replace_n_udf(),
    ];
    let of_sets = [
        nested::except::array_except_udf(),
        nested::set_ops::array_distinct_udf(),
        nested::set_ops::array_intersect_udf(),
        nested::set_ops::array_union_udf(),
    ];
    let of_numbers = [nested::repeat::array_repeat_udf(), nested::resize::array_resize_udf()];
    let shared = [&APPEND, &PREPEND, &CONCAT].map(|shared| LazyLock::force(shared).clone());
    let of_arguments = of_arguments.into_iter().map(|inner| guarded(inner, 1));
    let of_numbers = of_numbers.into_iter().map(|inner| {
        Arc::new(ScalarUDF::from(SizeChecked { inner, times: 1, kind: Kind::Repeating }))
    });
    let of_sets = of_sets.into_iter().map(|inner| {
        Arc::new(ScalarUDF::from(SizeChecked { inner, times: 1, kind: Kind::OfSets }))
    });
    of_arguments.chain(of_sets).chain(of_numbers).chain(shared)
}

/// `array_replace` under PostgreSQL's name: DataFusion's own function of this name stops at the
/// first item.
pub(super) fn array_replace() -> Arc<ScalarUDF> {
    let all = nested::replace::array_replace_all_udf().as_ref().clone();
    guarded(Arc::new(all.with_aliases(["array_replace"])), 1)
}

static APPEND: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| guarded(nested::concat::array_append_udf(), 1));
static PREPEND: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| guarded(nested::concat::array_prepend_udf(), 1));
static CONCAT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| guarded(nested::concat::array_concat_udf(), 1));

/// `left || right` of arrays, or of an array and an item, by the numbers of their dimensions.
/// DataFusion's planner decides in the same way, for functions without a check of memory.
pub(super) fn array_concatenation(
    (left, left_dimensions): (Expr, u64),
    (right, right_dimensions): (Expr, u64),
) -> Expr {
    let function = match left_dimensions.cmp(&right_dimensions) {
        std::cmp::Ordering::Equal => &CONCAT,
        std::cmp::Ordering::Greater => &APPEND,
        std::cmp::Ordering::Less => &PREPEND,
    };
    function.call(vec![left, right])
}

/// `overlay` of text.
pub(super) fn overlay() -> Arc<ScalarUDF> {
    guarded(datafusion::functions::core::overlay(), 2)
}

fn guarded(inner: Arc<ScalarUDF>, times: usize) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(SizeChecked { inner, times, kind: Kind::OfArguments }))
}

/// The arguments on which the size of a result and of the work on it depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    OfArguments,
    /// The second argument is the number of items of the result.
    Repeating,
    /// Items are looked up in a hash table.
    OfSets,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SizeChecked {
    inner: Arc<ScalarUDF>,
    times: usize,
    kind: Kind,
}

impl SizeChecked {
    /// Checks that the statement has memory for the work on a column, beside its values.
    fn check_work(&self, column: &ArrayRef, args: &ScalarFunctionArgs) -> PlanResult<()> {
        let bytes = match column.data_type() {
            ArrowType::Utf8View => {
                let bytes = own_bytes(column);
                let grows = bytes >= LONG_BYTES && self.times > 1 && may_grow(args);
                bytes.saturating_mul(TEXT_COPIES * if grows { self.times } else { 1 })
            }
            ArrowType::List(_) if self.kind == Kind::OfSets => {
                let lists = column.as_list::<i32>();
                let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
                ((last - first) as usize).saturating_mul(SET_ITEM_BYTES)
            }
            _ => return Ok(()),
        };
        allow_together(bytes).map_err(external)
    }

    /// Checks that the statement has memory for the result.
    fn check(&self, args: &ScalarFunctionArgs) -> PlanResult<()> {
        let mut row_bytes = 0_usize;
        for argument in &args.args {
            match argument {
                ColumnarValue::Array(column) => {
                    allow_all(column, self.times).map_err(external)?;
                    self.check_work(column, args)?;
                    row_bytes = row_bytes.max(own_bytes(column) / column.len().max(1));
                }
                // Beside a column, a value becomes one.
                ColumnarValue::Scalar(value) if value.data_type().is_nested() => {
                    let value = value.to_array()?;
                    self.check_work(&value, args)?;
                    let own = own_bytes(&value);
                    let rows = if is_constant(args) { 1 } else { args.number_rows };
                    allow_together(own.saturating_mul(rows)).map_err(external)?;
                    row_bytes = row_bytes.max(own);
                }
                ColumnarValue::Scalar(_) => {}
            }
        }
        match args.args.get(1) {
            Some(counts) if self.kind == Kind::Repeating => {
                let items = items(counts, args.number_rows)?;
                let is_list = args.args[0].data_type().is_nested();
                // Items that are texts share the memory of the one that is repeated.
                let each = ITEM_BYTES.saturating_add(if is_list { row_bytes } else { 0 });
                allow_together(items.saturating_mul(each)).map_err(external)
            }
            _ => Ok(()),
        }
    }
}

/// True if a text has characters beyond ASCII: only these are replaced by longer ones.
fn may_grow(args: &ScalarFunctionArgs) -> bool {
    args.args.iter().any(|argument| match argument {
        ColumnarValue::Array(column) => {
            let texts = column.as_string_view_opt();
            texts.is_some_and(|texts| !texts.is_ascii())
        }
        ColumnarValue::Scalar(value) => {
            value.try_as_str().flatten().is_some_and(|text| !text.is_ascii())
        }
    })
}

fn is_constant(args: &ScalarFunctionArgs) -> bool {
    args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)))
}

/// The sum of the numbers in an argument.
fn items(counts: &ColumnarValue, rows: usize) -> PlanResult<usize> {
    let (counts, times) = match counts {
        ColumnarValue::Array(counts) => (Arc::clone(counts), 1),
        ColumnarValue::Scalar(count) => (count.to_array()?, rows),
    };
    let counts = cast(&counts, &ArrowType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>().iter().flatten();
    let counts = counts.map(|count| usize::try_from(count).unwrap_or(0));
    Ok(counts.fold(0, usize::saturating_add).saturating_mul(times))
}

impl ScalarUDFImpl for SizeChecked {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
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

    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        self.inner.coerce_types(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        self.check(&args)?;
        self.inner.invoke_with_args(args)
    }
}
