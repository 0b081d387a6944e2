//! `string_to_array`: the parts of a text between separators.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewArray, StringViewBuilder};
use arrow::datatypes::DataType as ArrowType;
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::{DataType, Result};
use thalweg_values::scalar_function::Function;
use thalweg_values::types::arrow_type;

use thalweg_values::bounded_output::Growth;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    const TEXT: ArrowType = ArrowType::Utf8View;
    let list = arrow_type(&DataType::Array(Box::new(DataType::Text { max_chars: None })));
    let arguments: &[&[ArrowType]] = &[&[TEXT, TEXT], &[TEXT, TEXT, TEXT]];
    let split = Function::new("string_to_array", arguments, list, split).alias("string_to_list");
    vec![split.into_udf()]
}

/// A separator of NULL separates all characters, and an empty one none. Items that are equal to the
/// third argument become NULL.
fn split(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, separators) = (columns[0].as_string_view(), columns[1].as_string_view());
    let unknowns: Option<&StringViewArray> = columns.get(2).map(|nulls| nulls.as_string_view());
    let mut growth = Growth::default();
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for row in 0..texts.len() {
        if texts.is_null(row) {
            lists.append_null();
            continue;
        }
        let text = texts.value(row);
        let unknown = unknowns.filter(|of| of.is_valid(row)).map(|of| of.value(row));
        let items = lists.values();
        let mut item = |item: &str| -> Result<()> {
            growth.item(item.len())?;
            items.append_option((unknown != Some(item)).then_some(item));
            Ok(())
        };
        match separators.is_valid(row).then(|| separators.value(row)) {
            _ if text.is_empty() => {}
            Some("") => item(text)?,
            Some(separator) => text.split(separator).try_for_each(item)?,
            None => text.split("").filter(|part| !part.is_empty()).try_for_each(item)?,
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}
