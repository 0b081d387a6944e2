//! JSON from values: `json_build_object`, `json_build_array`, `to_json`, and the functions that
//! replace `json_agg`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, StructArray, new_null_array};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use thalweg_formats::text::style::{
    SessionStyle, current as current_style, push_xsd, within as within_style,
};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::cast::{is_text, stored_micros, to_text};
use thalweg_values::errors::external;
use thalweg_values::scalar_function::Arguments;

use super::super::concatenation::{check_pairs, items_of, variadic_lists};
use super::jsonb_column;
use thalweg_values::bounded_output::{BoundedTexts, Text, allow_together};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    [
        ("json_build_object", Shape::Object, " : "),
        ("jsonb_build_object", Shape::Object, ": "),
        ("json_build_array", Shape::Array, ""),
        ("jsonb_build_array", Shape::Array, ""),
        ("json_object_of", Shape::ObjectOf, " : "),
        ("jsonb_object_of", Shape::ObjectOf, ": "),
        ("json_array_of", Shape::ArrayOf, ""),
        ("jsonb_array_of", Shape::ArrayOf, ""),
        ("array_to_json", Shape::Value, ""),
        ("to_json", Shape::Value, ""),
        ("to_jsonb", Shape::Value, ""),
        ("json_row", Shape::Row, ":"),
        ("json_row_of_list", Shape::Row, ":"),
        ("json_agg_items", Shape::Items, ", "),
        ("json_agg_rows", Shape::Items, ", \n "),
        ("jsonb_agg_items", Shape::Items, ", "),
        ("json_list_items", Shape::Items, ","),
        ("jsonb_list_items", Shape::Items, ","),
        ("json_object_items", Shape::Pairs, " : "),
        ("jsonb_object_items", Shape::Pairs, ": "),
    ]
    .into_iter()
    .map(|(name, shape, mark)| Arc::new(ScalarUDF::from(Build::new(name, shape, mark))))
    .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Object,
    /// An object without a blank in it.
    Row,
    Array,
    /// An object or an array of the items of one array, whatever its dimensions.
    ObjectOf,
    ArrayOf,
    Value,
    /// The items of one array, each of them JSON, as `json_agg` writes them.
    Items,
    /// The items of two arrays, keys and values, as `json_object_agg` writes them.
    Pairs,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Build {
    name: &'static str,
    shape: Shape,
    /// The mark between the name and the value of a member, or between items.
    mark: &'static str,
    signature: Signature,
}

impl Build {
    fn new(name: &'static str, shape: Shape, mark: &'static str) -> Build {
        let signature = match shape {
            Shape::Value | Shape::Items | Shape::ObjectOf | Shape::ArrayOf => TypeSignature::Any(1),
            Shape::Pairs => TypeSignature::Any(2),
            _ => TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]),
        };
        Build { name, shape, mark, signature: Signature::new(signature, Volatility::Immutable) }
    }

    /// True if it makes `jsonb`.
    fn is_binary(&self) -> bool {
        self.name.starts_with("jsonb") || self.name == "to_jsonb"
    }

    fn build(&self, columns: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<ArrayRef> {
        if self.shape == Shape::Object && columns.len() % 2 == 1 {
            return Err(self.odd_arguments());
        }
        if let (Shape::ObjectOf | Shape::ArrayOf, [column]) = (self.shape, columns) {
            return self.of_items(column);
        }
        if let (Shape::Items, [column]) = (self.shape, columns)
            && let ArrowType::List(_) = column.data_type()
        {
            let items = to_text(column.as_list::<i32>().values())?;
            return joined(column, items.as_string_view(), self.mark);
        }
        if let (Shape::Pairs, [keys, values]) = (self.shape, columns) {
            return self.pairs(keys, values);
        }
        let values = columns
            .iter()
            .zip(fields)
            .map(|(column, field)| json_of(column, field))
            .collect::<Result<Vec<_>>>()?;
        if let (Shape::Value, Some(value)) = (self.shape, values.first()) {
            return Ok(Arc::clone(value));
        }
        let values: Vec<&StringViewArray> =
            values.iter().map(|value| value.as_string_view()).collect();
        let keys = columns.iter().step_by(2).map(to_text).collect::<Result<Vec<_>>>()?;
        let mut made = BoundedTexts::default();
        for row in 0..rows {
            made.write(|text| match self.shape {
                Shape::Object | Shape::Row => self.object(&keys, &values, row, text),
                _ => {
                    let items = values.iter().map(|value| shown(value, row));
                    write_array(items, ", ", text)
                }
            })?;
        }
        Ok(made.finish())
    }

    fn odd_arguments(&self) -> Error {
        let name = self.name.replace("_object_of", "_build_object");
        let error_text = "argument list must have even number of elements";
        Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text).with_hint(format!(
            "The arguments of {name}() must consist of alternating keys and values."
        ))
    }

    /// The result for the items of each list as arguments.
    fn of_items(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let Some(lists) = variadic_lists(column)? else {
            return Ok(new_null_array(&ArrowType::Utf8View, column.len()));
        };
        let (items, bounds) = items_of(&lists);
        let values = match innermost(lists.data_type()) {
            Some(field) => json_of(&items, field)?,
            None => json_of(&items, &Field::new("", items.data_type().clone(), true))?,
        };
        let (keys, values) = (to_text(&items)?, values.as_string_view());
        let mut made = BoundedTexts::default();
        for row in 0..lists.len() {
            if lists.is_null(row) {
                made.null();
                continue;
            }
            let mut places = bounds[row]..bounds[row + 1];
            if self.shape == Shape::ObjectOf && places.len() % 2 == 1 {
                return Err(self.odd_arguments());
            }
            made.write(|text| match self.shape {
                Shape::ArrayOf => write_array(places.map(|at| shown(values, at)), ", ", text),
                _ => {
                    text.push("{")?;
                    let mut comma = "";
                    while let (Some(key), Some(value)) = (places.next(), places.next()) {
                        let key = key_of(&keys, key)
                            .ok_or_else(|| null_key("null value not allowed for object key"))?;
                        self.member(comma, key, shown(values, value), text)?;
                        comma = ", ";
                    }
                    text.push("}")
                }
            })?;
        }
        Ok(made.finish())
    }

    /// Objects of keys and values from two lists, the values as JSON.
    fn pairs(&self, keys: &ArrayRef, values: &ArrayRef) -> Result<ArrayRef> {
        let (Some(key_lists), Some(value_lists)) =
            (keys.as_list_opt::<i32>(), values.as_list_opt::<i32>())
        else {
            return Ok(new_null_array(&ArrowType::Utf8View, keys.len()));
        };
        check_pairs(key_lists, values)?;
        let keys = to_text(key_lists.values())?;
        let values = to_text(value_lists.values())?;
        let values = values.as_string_view();
        let mut made = BoundedTexts::default();
        for row in 0..key_lists.len() {
            if key_lists.is_null(row) {
                made.null();
                continue;
            }
            let (from, to) = (key_lists.value_offsets()[row], key_lists.value_offsets()[row + 1]);
            let first = value_lists.value_offsets()[row] as usize;
            made.write(|text| {
                // PostgreSQL writes these blanks too.
                text.push("{ ")?;
                for (place, key) in (from as usize..to as usize).enumerate() {
                    let key = key_of(&keys, key)
                        .ok_or_else(|| null_key("field name must not be null"))?;
                    let comma = if place > 0 { ", " } else { "" };
                    self.member(comma, key, shown(values, first + place), text)?;
                }
                text.push(" }")
            })?;
        }
        Ok(made.finish())
    }

    fn object(
        &self,
        keys: &[ArrayRef],
        values: &[&StringViewArray],
        row: usize,
        text: &mut Text,
    ) -> Result<()> {
        let between = if self.shape == Shape::Row { "," } else { ", " };
        text.push("{")?;
        for (place, (key, value)) in keys.iter().zip(values.iter().skip(1).step_by(2)).enumerate() {
            let key = key_of(key, row)
                .ok_or_else(|| null_key("null value not allowed for object key"))?;
            let comma = if place > 0 { between } else { "" };
            self.member(comma, key, shown(value, row), text)?;
        }
        text.push("}")
    }

    fn member(&self, comma: &str, key: &str, value: &str, text: &mut Text) -> Result<()> {
        allow_together(quoted_len(key))?;
        let key = quoted(key);
        [comma, &key, self.mark, value].into_iter().try_for_each(|piece| text.push(piece))
    }
}

/// The field of the innermost items of lists in lists.
fn innermost(lists: &ArrowType) -> Option<&FieldRef> {
    let ArrowType::List(item) = lists else { return None };
    innermost(item.data_type()).or(Some(item))
}

fn write_array<'t>(
    items: impl Iterator<Item = &'t str>,
    comma: &str,
    text: &mut Text,
) -> Result<()> {
    text.push("[")?;
    for (place, item) in items.enumerate() {
        if place > 0 {
            text.push(comma)?;
        }
        text.push(item)?;
    }
    text.push("]")
}

fn key_of(keys: &ArrayRef, row: usize) -> Option<&str> {
    let keys = keys.as_string_view();
    keys.is_valid(row).then(|| keys.value(row))
}

fn null_key(message: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn shown(values: &StringViewArray, row: usize) -> &str {
    if values.is_null(row) { "null" } else { values.value(row) }
}

/// A text as JSON, in as much memory as it needs.
pub(super) fn quoted(text: &str) -> String {
    let mut bytes = Vec::with_capacity(quoted_len(text));
    match serde_json::to_writer(&mut bytes, text) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// Length of a text as JSON, in bytes.
pub(super) fn quoted_len(text: &str) -> usize {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | 8 | 9 | 10 | 12 | 13 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    2 + text.bytes().map(length).sum::<usize>()
}

/// Each value as JSON; NULL stays NULL.
fn json_of(column: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    let data_type = column.data_type();
    let is_moment = matches!(data_type, ArrowType::Timestamp(_, _) | ArrowType::Date32);
    if let Some(style) = current_style().filter(|_| is_moment) {
        return json_of_moments(column, &style);
    }
    let is_json = is_text(data_type) && super::is_json(field);
    if is_json || data_type.is_integer() || *data_type == ArrowType::Boolean {
        return to_text(column);
    }
    if let ArrowType::List(item) = data_type {
        let items = json_of(column.as_list::<i32>().values(), item)?;
        return joined(column, items.as_string_view(), ",");
    }
    if let Some(rows) = column.as_struct_opt() {
        return json_of_rows(rows);
    }
    let texts = to_text(column)?;
    let is_number = data_type.is_numeric();
    let is_moment = matches!(data_type, ArrowType::Timestamp(_, _));
    let mut made = BoundedTexts::default();
    for text in texts.as_string_view() {
        match text {
            Some(text @ ("NaN" | "Infinity" | "-Infinity")) => made.value(&quoted(text)),
            Some(text) if is_number => made.value(text),
            Some(text) if is_moment && !text.ends_with("infinity") => {
                made.value(&quoted(&iso(text)));
            }
            Some(text) => {
                made.allow(quoted_len(text))?;
                made.owned(quoted(text));
            }
            None => made.null(),
        }
    }
    Ok(made.finish())
}

/// Dates and moments in ISO form, whatever the session's style: only its zone counts.
fn json_of_moments(column: &ArrayRef, style: &SessionStyle) -> Result<ArrayRef> {
    let iso = SessionStyle { zone: style.zone.clone(), ..SessionStyle::default() };
    let Some(micros) = stored_micros(column) else {
        let iso = Some(Arc::new(iso));
        let texts = within_style(iso.as_ref(), || to_text(column))?;
        let texts = texts.as_string_view().iter();
        let quoted = texts.map(|text| text.map(quoted));
        return Ok(Arc::new(quoted.collect::<StringViewArray>()));
    };
    let has_zone = matches!(column.data_type(), ArrowType::Timestamp(_, Some(_)));
    let micros = micros?;
    let written = micros.iter().map(|micros| {
        let mut text = "\"".to_owned();
        push_xsd(&iso, micros?, has_zone, &mut text);
        text.push('"');
        Some(text)
    });
    Ok(Arc::new(written.collect::<StringViewArray>()))
}

/// Rows as objects. A row constructor makes fields without names of their own, which PostgreSQL
/// calls `f1`, `f2` and so on.
fn json_of_rows(rows: &StructArray) -> Result<ArrayRef> {
    let values = rows
        .columns()
        .iter()
        .zip(rows.fields())
        .map(|(column, field)| json_of(column, field))
        .collect::<Result<Vec<_>>>()?;
    let names = rows.fields().iter().enumerate().map(|(place, field)| {
        let is_unnamed = *field.name() == format!("c{place}");
        quoted(&if is_unnamed { format!("f{}", place + 1) } else { field.name().clone() })
    });
    let names: Vec<String> = names.collect();
    let mut made = BoundedTexts::default();
    for row in 0..rows.len() {
        if rows.is_null(row) {
            made.null();
            continue;
        }
        made.write(|text| {
            text.push("{")?;
            for (place, (name, values)) in names.iter().zip(&values).enumerate() {
                let comma = if place > 0 { "," } else { "" };
                let value = shown(values.as_string_view(), row);
                [comma, name, ":", value].into_iter().try_for_each(|piece| text.push(piece))?;
            }
            text.push("}")
        })?;
    }
    Ok(made.finish())
}

/// A moment as ISO 8601 writes it: the offset of a zone has its minutes, too.
fn iso(text: &str) -> String {
    let (moment, era) = match text.strip_suffix(" BC") {
        Some(moment) => (moment, " BC"),
        None => (text, ""),
    };
    let sign = moment.len().checked_sub("+00".len()).map(|at| moment.as_bytes()[at]);
    let minutes = if matches!(sign, Some(b'+' | b'-')) { ":00" } else { "" };
    format!("{}{minutes}{era}", moment.replacen(' ', "T", 1))
}

/// The lists of a column, of whose items the JSON is given.
fn joined(column: &ArrayRef, items: &StringViewArray, comma: &str) -> Result<ArrayRef> {
    let lists = column.as_list::<i32>();
    let offsets = lists.value_offsets();
    let mut made = BoundedTexts::default();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            made.null();
            continue;
        }
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        made.write(|text| write_array(range.map(|at| shown(items, at)), comma, text))?;
    }
    Ok(made.finish())
}

impl ScalarUDFImpl for Build {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(ArrowType::Utf8View)
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        Ok(Arc::new(super::json_field(self.name)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let arguments = Arguments::of(args.args, args.number_rows)?;
        let built = self
            .build(&arguments.columns, &args.arg_fields, arguments.rows)
            .and_then(|built| {
                if self.is_binary() { jsonb_column(built.as_string_view()) } else { Ok(built) }
            })
            .map_err(external)?;
        arguments.result(built)
    }
}
