//! JSON: operators, and functions under PostgreSQL's names for `json` and `jsonb` alike.
//!
//! Access goes through `datafusion-functions-json`, which reads only as far as it must. Its results
//! are a union of kinds by default; here they are text or JSON, as PostgreSQL's are.

mod at_path;
mod build;
mod change;
mod items;
mod merge;
mod nesting_checked;
mod object;
mod pairs;
mod part;
mod path;
mod sorted_items;
mod step;
mod tree;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int32Array, StringViewArray};
use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF, TypeSignature};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use datafusion_functions_json::udfs;
use thalweg_formats::text::{json_depth, json_items, json_size, parse as text};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::canonical_json::{jsonb, jsonb_column};
use thalweg_values::scalar_function::Function;
use thalweg_values::types::{self, arrow_field};

use thalweg_values::bounded_output::{BoundedTexts, Text, allow_together};

use self::tree::Tree;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let text = || ArrowType::Utf8View;
    let as_text = udfs::json_as_text_udf().as_ref().clone();
    let contains_key = udfs::json_contains_udf().as_ref().clone();
    let mut functions = vec![
        nesting_checked::of(
            as_text.with_aliases(["json_extract_path_text", "jsonb_extract_path_text"]),
        ),
        nesting_checked::of(contains_key.with_aliases(["json_exists"])),
        nesting_checked::of(udfs::json_get_str_udf().as_ref().clone()),
        nesting_checked::of(udfs::json_get_int_udf().as_ref().clone()),
        nesting_checked::of(udfs::json_get_float_udf().as_ref().clone()),
        nesting_checked::of(udfs::json_get_bool_udf().as_ref().clone()),
        nesting_checked::of(udfs::json_length_udf().as_ref().clone()),
        Function::new("json_typeof", &[&[text()]], text(), type_of)
            .alias("jsonb_typeof")
            .into_udf(),
        Function::new("json_array_length", &[&[text()]], ArrowType::Int32, array_length)
            .alias("jsonb_array_length")
            .into_udf(),
        Function::new("jsonb_pretty", &[&[text()]], text(), pretty).into_udf(),
        Function::new("json_strip_nulls", &[&[text()]], text(), strip_nulls)
            .returning_field(arrow_field("json_strip_nulls", &DataType::Json, true))
            .into_udf(),
        Function::new("jsonb_strip_nulls", &[&[text()]], text(), |columns| {
            let canonical = jsonb_column(columns[0].as_string_view())?;
            jsonb_column(strip_nulls(&[canonical])?.as_string_view())
        })
        .returning_field(arrow_field("jsonb_strip_nulls", &DataType::Jsonb, true))
        .into_udf(),
        contains_udf(),
    ];
    functions.extend(at_path::functions());
    functions.extend(build::functions());
    functions.extend(change::functions());
    functions.extend(items::functions());
    functions.extend(merge::functions());
    functions.extend(object::functions());
    functions.extend(pairs::functions());
    functions.extend(part::functions());
    functions.extend(path::functions());
    functions.extend(sorted_items::functions());
    functions.extend(step::functions());
    functions
}

fn contains_udf() -> Arc<ScalarUDF> {
    let text = || ArrowType::Utf8View;
    Function::signed(
        "jsonb_contains",
        TypeSignature::Exact(vec![text(), text()]),
        ArrowType::Boolean,
        contains,
    )
    .into_udf()
}

/// Maximum nesting of values that functions walk as trees. It is the limit of `serde_json`, whose
/// only alternative is the whole stack.
const WALKED_DEPTH_MAX: usize = 127;

fn too_deep(limit: usize) -> Error {
    let message = "a JSON value nests too deeply for this function";
    let detail = format!("The function takes arrays and objects that nest {limit} levels deep.");
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, message).with_detail(detail)
}

/// Size of a value of a tree, and of an object with a few members, in bytes.
const TREE_VALUE_BYTES: usize = 64;
const TREE_OBJECT_BYTES: usize = 640;

/// Size of a part of a value and of the item that it becomes, in bytes.
const PART_BYTES: usize = 64;

/// Texts up to this many bytes are walked without a check of memory.
const SMALL_BYTES_MAX: usize = 4 << 10;

/// Checks that a text may be taken apart, one level deep, together with so many other parts.
///
/// # Errors
/// If the statement has too little memory.
fn allow_parts(text: &str) -> Result<()> {
    match text.len() > SMALL_BYTES_MAX {
        true => allow_together(json_items(text).saturating_mul(PART_BYTES)),
        false => Ok(()),
    }
}

/// Checks that a text may become a tree.
fn allow_tree(text: &str) -> Result<()> {
    if text.len() <= SMALL_BYTES_MAX {
        return Ok(());
    }
    let size = json_size(text);
    let values = size.values.saturating_mul(TREE_VALUE_BYTES);
    let objects = size.objects.saturating_mul(TREE_OBJECT_BYTES);
    allow_together(text.len().saturating_add(values).saturating_add(objects))
}

fn parse(text: &str) -> Result<Tree<'_>> {
    allow_tree(text)?;
    check_walked(text)?;
    Tree::read(text)
}

fn check_walked(text: &str) -> Result<()> {
    match text.len() > WALKED_DEPTH_MAX && json_depth(text) > WALKED_DEPTH_MAX {
        true => Err(too_deep(WALKED_DEPTH_MAX)),
        false => Ok(()),
    }
}

/// The first character of each value, whose syntax is checked, and the value.
fn begun(column: &ArrayRef) -> impl Iterator<Item = Result<Option<(u8, &str)>>> {
    column.as_string_view().iter().map(|value| {
        let Some(value) = value.map(str::trim_start) else { return Ok(None) };
        text::json(value)?;
        Ok(value.bytes().next().map(|first| (first, value)))
    })
}

fn type_of(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let name = |(first, _)| match first {
        b'n' => "null",
        b't' | b'f' => "boolean",
        b'"' => "string",
        b'[' => "array",
        b'{' => "object",
        _ => "number",
    };
    let names = begun(&columns[0]).map(|value| value.map(|value| value.map(name)));
    Ok(Arc::new(names.collect::<Result<StringViewArray>>()?))
}

fn array_length(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let lengths = begun(&columns[0]).map(|value| match value? {
        None => Ok(None),
        Some((b'[', value)) => Ok(Some(i32::try_from(json_items(value)).unwrap_or(i32::MAX))),
        Some((b'{', _)) => Err(not_an_array("a non-array")),
        Some(_) => Err(not_an_array("a scalar")),
    });
    Ok(Arc::new(lengths.collect::<Result<Int32Array>>()?))
}

fn not_an_array(what: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("cannot get array length of {what}"))
}

fn pretty(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut made = BoundedTexts::default();
    for text in columns[0].as_string_view() {
        match text {
            Some(text) => {
                // The indentation of a deep value is the square of its depth.
                check_walked(text)?;
                let text = jsonb(text)?;
                made.write(|out| write_pretty(&text, out))?;
            }
            None => made.null(),
        }
    }
    Ok(made.finish())
}

/// Writes each item and member on a line of its own.
fn write_pretty(canonical: &str, out: &mut Text<'_>) -> Result<()> {
    fn new_line(level: usize, out: &mut Text<'_>) -> Result<()> {
        out.push("\n")?;
        (0..level).try_for_each(|_| out.push("    "))
    }
    let (mut level, mut begins_line) = (0_usize, false);
    for token in tree::tokens(canonical) {
        match token {
            "]" | "}" => {
                level = level.saturating_sub(1);
                new_line(level, out)?;
            }
            _ if begins_line => new_line(level, out)?,
            _ => {}
        }
        out.push(if token == ":" { ": " } else { token })?;
        level += usize::from(matches!(token, "[" | "{"));
        begins_line = matches!(token, "[" | "{" | ",");
    }
    Ok(())
}

fn strip_nulls(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut made = BoundedTexts::default();
    for text in columns[0].as_string_view() {
        match text {
            Some(text) => {
                allow_together(text.len())?;
                let stripped = tree::without_nulls(text)?;
                made.allow(stripped.len())?;
                made.owned(stripped);
            }
            None => made.null(),
        }
    }
    Ok(made.finish())
}

fn contains(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (wholes, parts) = (columns[0].as_string_view(), columns[1].as_string_view());
    let held = wholes.iter().zip(parts).map(|(whole, part)| {
        let (Some(whole), Some(part)) = (whole, part) else { return Ok(None) };
        let (whole, part) = (parse(whole)?, parse(part)?);
        Ok(Some(match (&whole, &part) {
            // An array contains a scalar that is one of its items.
            (Tree::Array(items), Tree::Plain(_) | Tree::Text(_)) => items.contains(&part),
            _ => holds(&whole, &part),
        }))
    });
    Ok(Arc::new(held.collect::<Result<BooleanArray>>()?))
}

/// True if `whole` contains all of `part`, at the same place.
fn holds(whole: &Tree<'_>, part: &Tree<'_>) -> bool {
    match (whole, part) {
        (Tree::Object(whole), Tree::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| holds(whole, part)))
        }
        (Tree::Array(whole), Tree::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| holds(whole, part)))
        }
        (whole, part) => whole == part,
    }
}

/// `->`, `->>`, `#>`, `#>>`, `?`, `@>`, `<@`, `@?` and `@@`, and subscripts of `jsonb`.
#[derive(Debug)]
pub(super) struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawFieldAccessExpr>> {
        if !is_jsonb(&access.expr, schema) {
            return Ok(PlannerResult::Original(access));
        }
        let step = match &access.field_access {
            GetFieldAccess::NamedStructField { name } => Expr::Literal(name.clone(), None),
            GetFieldAccess::ListIndex { key } => step(key.as_ref().clone(), schema),
            GetFieldAccess::ListRange { .. } => return Ok(PlannerResult::Original(access)),
        };
        let part = part::of_document(true).call(vec![access.expr, step]);
        Ok(PlannerResult::Planned(part))
    }

    fn plan_binary_op(
        &self,
        RawBinaryExpr { op, left, right }: RawBinaryExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        let is_json = |expr: &Expr| expr.to_field(schema).is_ok_and(|(_, field)| is_json(&field));
        if let Some(name) = of_jsonb(&op, &left, &right, schema) {
            let mut functions = merge::functions().into_iter().chain(path::functions());
            let function = functions.find(|function| function.name() == name);
            if let Some(function) = function {
                return Ok(PlannerResult::Planned(function.call(vec![left, right])));
            }
        }
        let function = match op {
            BinaryOperator::Arrow => step::of_document(is_jsonb(&left, schema)),
            BinaryOperator::LongArrow => step::as_text(is_jsonb(&left, schema)),
            BinaryOperator::HashArrow | BinaryOperator::HashLongArrow => {
                let function = match op {
                    BinaryOperator::HashArrow => at_path::of_document(is_jsonb(&left, schema)),
                    _ => at_path::as_text(),
                };
                let path = datafusion::logical_expr::cast(right, at_path::path_type());
                return Ok(PlannerResult::Planned(function.call(vec![left, path])));
            }
            BinaryOperator::Question => {
                nesting_checked::of(udfs::json_contains_udf().as_ref().clone())
            }
            BinaryOperator::AtArrow if is_json(&left) || is_json(&right) => contains_udf(),
            BinaryOperator::ArrowAt if is_json(&left) || is_json(&right) => {
                let call = contains_udf().call(vec![right, left]);
                return Ok(PlannerResult::Planned(call));
            }
            _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        let arguments = vec![left, step(right, schema)];
        Ok(PlannerResult::Planned(function.call(arguments)))
    }
}

fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    let field = expr.to_field(schema);
    field.is_ok_and(|(_, field)| matches!(types::from_field(&field), Ok(DataType::Jsonb)))
}

/// One step of a path: the place in an array, or a key.
fn step(step: Expr, schema: &DFSchema) -> Expr {
    match step.get_type(schema) {
        Ok(given) if given.is_integer() => datafusion::logical_expr::cast(step, ArrowType::Int64),
        _ => step,
    }
}

/// The function that an operator of `jsonb` is, by the types of its operands.
fn of_jsonb(
    op: &BinaryOperator,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Option<&'static str> {
    // The type of a long chain of `AND` takes long to find, and would be asked for at each link.
    let has_function = matches!(
        op,
        BinaryOperator::StringConcat
            | BinaryOperator::Minus
            | BinaryOperator::HashMinus
            | BinaryOperator::AtQuestion
            | BinaryOperator::AtAt
            | BinaryOperator::Question
            | BinaryOperator::QuestionPipe
            | BinaryOperator::QuestionAnd
    );
    if !has_function {
        return None;
    }
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Utf8(_), _));
    let (first, second) = (is_jsonb(left, schema), is_jsonb(right, schema));
    if let BinaryOperator::StringConcat = op {
        let fits = (first || is_literal(left)) && (second || is_literal(right));
        return ((first || second) && fits).then_some("jsonb_concat");
    }
    if !first {
        return None;
    }
    Some(match (op, right.get_type(schema).ok()?) {
        (BinaryOperator::Minus, ArrowType::List(_)) => "jsonb_delete_keys",
        (BinaryOperator::Minus, given) if given.is_integer() => "jsonb_delete_item",
        (BinaryOperator::Minus, _) => "jsonb_delete",
        (BinaryOperator::HashMinus, _) => "jsonb_delete_path",
        (BinaryOperator::AtQuestion, _) => "jsonb_path_exists_opr",
        (BinaryOperator::AtAt, _) => "jsonb_path_match_opr",
        (BinaryOperator::Question, _) => "jsonb_exists",
        (BinaryOperator::QuestionPipe, _) => "jsonb_exists_any",
        (BinaryOperator::QuestionAnd, _) => "jsonb_exists_all",
        _ => return None,
    })
}

/// The JSON type of a function's result: its name tells which of the two it is.
fn json_field(name: &str) -> Field {
    let is_binary = name.starts_with("jsonb") || name == "to_jsonb";
    arrow_field(name, if is_binary { &DataType::Jsonb } else { &DataType::Json }, true)
}

fn is_json(field: &Field) -> bool {
    matches!(types::from_field(field), Ok(DataType::Json | DataType::Jsonb))
}
