//! Texts put together from others: `||`, `concat`, `replace`, `array_to_string`.

mod string_agg;

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::{Expr, ScalarUDF, TypeSignature};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::cast::to_text;
use thalweg_values::scalar_function::Function;
use thalweg_values::statement_control::check_cancelled;

pub(super) use string_agg::check_pairs;

use super::text::shown;
use thalweg_values::bounded_output::BoundedTexts;

const TEXT: ArrowType = ArrowType::Utf8View;

/// Number of texts after which a function that joins them checks for cancellation.
const LOOKED_AT: usize = 64 << 10;

/// Longer texts are not copied once they are joined.
const LONG_TEXT_BYTES: usize = 64 << 10;

static CONCATENATION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Function::signed("text_concatenation", TypeSignature::VariadicAny, TEXT, concatenate).into_udf()
});

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let lists = TypeSignature::OneOf(vec![TypeSignature::Any(2), TypeSignature::Any(3)]);
    let mut functions = vec![
        Function::signed("concat", TypeSignature::VariadicAny, TEXT, concat).into_udf(),
        Function::signed("concat_ws", TypeSignature::VariadicAny, TEXT, concat_with).into_udf(),
        Function::new("replace", &[&[TEXT, TEXT, TEXT]], TEXT, replace).into_udf(),
        Function::signed("array_to_string", lists, TEXT, array_to_string).into_udf(),
        Arc::clone(&CONCATENATION),
    ];
    functions.extend(string_agg::functions());
    functions
}

/// `left || right`; a chain becomes one call, however long it is.
pub fn concatenation(left: Expr, right: Expr) -> Expr {
    let mut texts = match left {
        Expr::ScalarFunction(call) if is_concatenation(&call.func) => call.args,
        other => vec![other],
    };
    texts.push(right);
    CONCATENATION.call(texts)
}

/// True for the function that [`concatenation`] calls.
pub fn is_concatenation(function: &Arc<ScalarUDF>) -> bool {
    function.name() == CONCATENATION.name()
}

fn concatenate(columns: &[ArrayRef]) -> Result<ArrayRef> {
    // The planner evaluates conditions with columns of NULLs that have no type.
    if let Some(nulls) = columns.iter().find(|column| *column.data_type() == ArrowType::Null) {
        return Ok(new_null_array(&TEXT, nulls.len()));
    }
    let texts: Vec<&StringViewArray> = columns.iter().map(|text| text.as_string_view()).collect();
    let rows = texts.first().map_or(0, |text| text.len());
    let mut made = BoundedTexts::default();
    let mut all = String::new();
    for row in 0..rows {
        if texts.iter().any(|text| text.is_null(row)) {
            made.null();
            continue;
        }
        let length: usize = texts.iter().map(|text| text.value(row).len()).sum();
        made.allow(length)?;
        all.clear();
        all.reserve_exact(length);
        texts.iter().for_each(|text| all.push_str(text.value(row)));
        match length < LONG_TEXT_BYTES {
            true => made.value(&all),
            false => made.owned(std::mem::take(&mut all)),
        }
    }
    Ok(made.finish())
}

/// NULLs are left out.
fn concat(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = columns.iter().map(shown).collect::<Result<Vec<_>>>()?;
    let rows = columns.first().map_or(0, |column| column.len());
    let mut made = BoundedTexts::default();
    for row in 0..rows {
        let texts = texts.iter().map(|text| text.as_string_view());
        let mut texts = texts.filter(|text| text.is_valid(row)).map(|text| text.value(row));
        made.write(|joined| texts.try_for_each(|text| joined.push(text)))?;
    }
    Ok(made.finish())
}

/// `concat_ws(separator, …)`, NULL only where the separator is.
fn concat_with(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let texts = columns.iter().map(shown).collect::<Result<Vec<_>>>()?;
    let Some((separators, texts)) = texts.split_first() else {
        return Err(Error::new(SqlState::UNDEFINED_FUNCTION, "concat_ws takes a separator"));
    };
    let mut made = BoundedTexts::default();
    for (row, separator) in separators.as_string_view().iter().enumerate() {
        let Some(separator) = separator else {
            made.null();
            continue;
        };
        let texts = texts.iter().map(|text| text.as_string_view());
        let texts = texts.filter(|text| text.is_valid(row)).map(|text| text.value(row));
        join(&mut made, texts, separator)?;
    }
    Ok(made.finish())
}

fn join<'t>(
    made: &mut BoundedTexts,
    texts: impl Iterator<Item = &'t str>,
    separator: &str,
) -> Result<()> {
    made.write(|joined| {
        for (place, text) in texts.enumerate() {
            if place % LOOKED_AT == 0 {
                check_cancelled()?;
            }
            if place > 0 {
                joined.push(separator)?;
            }
            joined.push(text)?;
        }
        Ok(())
    })
}

fn replace(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let [texts, olds, news] = columns else {
        return Err(Error::internal("replace takes three texts"));
    };
    let rows = texts.as_string_view().iter().zip(olds.as_string_view()).zip(news.as_string_view());
    let mut made = BoundedTexts::default();
    for row in rows {
        let ((Some(text), Some(old)), Some(new)) = row else {
            made.null();
            continue;
        };
        if old.is_empty() {
            made.allow(text.len())?;
            made.value(text);
            continue;
        }
        let found = text.matches(old).count();
        made.allow(
            (text.len() - found * old.len()).saturating_add(found.saturating_mul(new.len())),
        )?;
        made.owned(text.replace(old, new));
    }
    Ok(made.finish())
}

/// `array_to_string(array, separator, what NULL is called)`; NULLs without a name are left out.
fn array_to_string(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let lists = as_list(&columns[0], || {
        let error_text = "function array_to_string does not exist for the given argument types";
        Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
    })?;
    let Some(lists) = lists else {
        return Ok(arrow::array::new_null_array(&TEXT, columns[0].len()));
    };
    let separators = to_text(&columns[1])?;
    let names = columns.get(2).map(to_text).transpose()?;
    let names: Option<&StringViewArray> = names.as_ref().map(|names| names.as_string_view());
    let (items, bounds) = items_of(&lists);
    let items = shown(&items)?;
    let items = items.as_string_view();
    let mut made = BoundedTexts::default();
    for (row, separator) in separators.as_string_view().iter().enumerate() {
        let (Some(separator), true) = (separator, lists.is_valid(row)) else {
            made.null();
            continue;
        };
        let name = names.filter(|names| names.is_valid(row)).map(|names| names.value(row));
        let texts = (bounds[row]..bounds[row + 1]).filter_map(|at| match items.is_valid(at) {
            true => Some(items.value(at)),
            false => name,
        });
        join(&mut made, texts, separator)?;
    }
    Ok(made.finish())
}

/// The column as lists of one kind; nothing for a column of NULLs.
fn as_list(column: &ArrayRef, refused: impl FnOnce() -> Error) -> Result<Option<ArrayRef>> {
    let item = match column.data_type() {
        ArrowType::Null => return Ok(None),
        ArrowType::List(_) => return Ok(Some(Arc::clone(column))),
        ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => Arc::clone(item),
        _ => return Err(refused()),
    };
    let lists = cast(column, &ArrowType::List(item));
    lists.map(Some).map_err(|error| thalweg_values::errors::from_arrow_error(&error))
}

/// The lists behind `VARIADIC`.
pub(super) fn variadic_lists(column: &ArrayRef) -> Result<Option<ArrayRef>> {
    as_list(column, || {
        Error::new(SqlState::DATATYPE_MISMATCH, "VARIADIC argument must be an array")
    })
}

/// The items of all lists, those of nested lists included, and the offset of each row's first item.
pub(super) fn items_of(lists: &ArrayRef) -> (ArrayRef, Vec<usize>) {
    let lists = lists.as_list::<i32>();
    let mut bounds: Vec<usize> = lists.value_offsets().iter().map(|at| *at as usize).collect();
    let mut items = Arc::clone(lists.values());
    while let Some(inner) = items.clone().as_list_opt::<i32>() {
        for bound in &mut bounds {
            *bound = inner.value_offsets()[*bound] as usize;
        }
        items = Arc::clone(inner.values());
    }
    (items, bounds)
}
