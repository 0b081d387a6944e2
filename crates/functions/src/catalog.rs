//! Functions for clients of the catalog: subscripts, bounds, and vectors that count from 0.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Builder, Int64Array, ListArray, ListBuilder, StringViewArray,
    StructArray, UInt32Array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::DataType::Utf8View;
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields, Int32Type};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::functions::expr_fn::substring;
use datafusion::functions_nested::extract::array_element;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, GetFieldAccess, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility, lit, when,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::cast::is_text;
use thalweg_values::errors::external;
use thalweg_values::scalar_function::Function;
use thalweg_values::system_types::SystemType;
use thalweg_values::types::{arrow_field, from_field};

use super::array::along;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let define = |name, arguments: &[usize], job| {
        let counts = arguments.iter().map(|count| TypeSignature::Any(*count));
        let signature = TypeSignature::OneOf(counts.collect());
        let signature = Signature::new(signature, Volatility::Immutable);
        Arc::new(ScalarUDF::from(OfLists { name, job, signature }))
    };
    vec![
        Function::new("like_escape", &[&[Utf8View, Utf8View]], Utf8View, like_escape).into_udf(),
        define("array_subscripts", &[2], Job::Subscripts),
        define("_pg_expandarray", &[1], Job::Expand),
        define("array_or_empty", &[1], Job::OrEmpty),
    ]
}

/// Converts a pattern of LIKE with another escape character to one that escapes with backslashes.
fn like_escape(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (patterns, escapes) = (arguments[0].as_string_view(), arguments[1].as_string_view());
    let rows = patterns.iter().zip(escapes).map(|row| match row {
        (Some(pattern), Some(escape)) => with_backslashes(pattern, escape).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

fn with_backslashes(pattern: &str, escape: &str) -> Result<String> {
    let mut characters = escape.chars();
    let escape = characters.next();
    if characters.next().is_some() {
        let message = "invalid escape string";
        return Err(Error::new(SqlState::INVALID_ESCAPE_CHARACTER, message)
            .with_hint("Escape string must be empty or one character."));
    }
    let mut written = String::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        let escaped = escape == Some(character);
        let meant = if escaped { rest.next() } else { Some(character) };
        let meant = meant.ok_or_else(|| {
            let message = "LIKE pattern must not end with escape character";
            Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, message)
        })?;
        if escaped || meant == '\\' {
            written.push('\\');
        }
        written.push(meant);
    }
    Ok(written)
}

/// The operation of a function on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Job {
    /// The places of its items, in a list: what `generate_subscripts` gives row by row.
    Subscripts,
    /// Its items and their places, in a list: what `_pg_expandarray` gives row by row.
    Expand,
    /// The list itself, and an empty one for NULL.
    OrEmpty,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfLists {
    name: &'static str,
    job: Job,
    signature: Signature,
}

impl ScalarUDFImpl for OfLists {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(match self.job {
            Job::Subscripts => ArrowType::new_list(ArrowType::Int32, true),
            Job::Expand => ArrowType::List(Arc::new(expanded_field(&item_of(&types[0])))),
            Job::OrEmpty => match &types[0] {
                ArrowType::Null => ArrowType::new_list(ArrowType::Utf8View, true),
                list => list.clone(),
            },
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let types: Vec<ArrowType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let first = SystemType::of(&arguments.arg_fields[0]);
        let rows = arguments.number_rows;
        let columns = arguments.args.into_iter().map(|value| value.into_array(rows));
        let columns = columns.collect::<PlanResult<Vec<ArrayRef>>>()?;
        if self.job == Job::Subscripts {
            let lengths = along(&columns, |length| length).map_err(external)?;
            let lower = if first.is_some_and(SystemType::is_vector) { 0 } else { 1 };
            return Ok(ColumnarValue::Array(Arc::new(subscripts(&lengths, lower))));
        }
        let values = &columns[0];
        let list = match values.data_type() {
            ArrowType::Null => new_null_array(arguments.return_field.data_type(), rows),
            ArrowType::List(_) => Arc::clone(values),
            other => cast(values, &ArrowType::List(item_of(other)))?,
        };
        let Some(list) = list.as_list_opt::<i32>() else {
            return Ok(ColumnarValue::Array(list));
        };
        Ok(ColumnarValue::Array(match self.job {
            Job::Expand => Arc::new(expanded(list)),
            Job::Subscripts | Job::OrEmpty => Arc::new(or_empty(list)),
        }))
    }
}

fn item_of(list: &ArrowType) -> FieldRef {
    match list {
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            Arc::clone(item)
        }
        _ => Arc::new(Field::new_list_field(ArrowType::Utf8View, true)),
    }
}

/// The subscripts of an array's items; empty if it has no such dimension.
fn subscripts(lengths: &ArrayRef, lower: i32) -> ListArray {
    let lengths = lengths.as_primitive::<Int32Type>();
    let mut lists = ListBuilder::new(Int32Builder::new());
    for length in lengths {
        (0..length.unwrap_or(0)).for_each(|place| lists.values().append_value(lower + place));
        lists.append(true);
    }
    lists.finish()
}

fn expanded_field(item: &FieldRef) -> Field {
    let fields = Fields::from(vec![
        item.as_ref().clone().with_name("x"),
        Field::new("n", ArrowType::Int64, true),
    ]);
    Field::new_list_field(ArrowType::Struct(fields), true)
}

/// Each list's items beside their places, counted from 1.
fn expanded(list: &ListArray) -> ListArray {
    let item = Arc::new(expanded_field(&item_of(list.data_type())));
    let ArrowType::Struct(fields) = item.data_type() else {
        unreachable!("items are expanded into structures")
    };
    let places = lengths(list).flat_map(|length| 1..=length as i64);
    let places: ArrayRef = Arc::new(places.collect::<Int64Array>());
    let rows = StructArray::new(fields.clone(), vec![used_items(list), places], None);
    let offsets = OffsetBuffer::from_lengths(lengths(list));
    ListArray::new(item, offsets, Arc::new(rows), list.nulls().cloned())
}

fn lengths(list: &ListArray) -> impl Iterator<Item = usize> {
    (0..list.len()).map(|row| match list.is_valid(row) {
        true => list.value_length(row) as usize,
        false => 0,
    })
}

fn or_empty(list: &ListArray) -> ListArray {
    if list.null_count() == 0 {
        return list.clone();
    }
    let offsets = OffsetBuffer::from_lengths(lengths(list));
    ListArray::new(item_of(list.data_type()), offsets, used_items(list), None)
}

/// The items of all lists one after the other: those of NULL lists may lie between them.
fn used_items(list: &ListArray) -> ArrayRef {
    let offsets = list.value_offsets();
    let used = (0..list.len())
        .filter(|row| list.is_valid(*row))
        .flat_map(|row| offsets[row] as u32..offsets[row + 1] as u32);
    take(list.values(), &UInt32Array::from_iter_values(used), None)
        .expect("offsets of a list lie within its items")
}

/// `vector[0]` is the first item of a vector; the planner counts from 1. An item of what an
/// aggregate gathered is one of its array.
///
/// And a literal beside an array, a truth value or JSON is one of those, written as text.
#[derive(Debug)]
pub(super) struct CatalogOperators;

impl ExprPlanner for CatalogOperators {
    fn plan_field_access(
        &self,
        mut access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawFieldAccessExpr>> {
        if let GetFieldAccess::ListIndex { key } = &mut access.field_access
            && let Ok((_, field)) = access.expr.to_field(schema)
        {
            if SystemType::of(&field) == Some(SystemType::Name) {
                // A name is an array of characters that counts from 0.
                let from = key.as_ref().clone() + lit(1_i64);
                return Ok(PlannerResult::Planned(substring(access.expr, from, lit(1_i64))));
            }
            if SystemType::of(&field).is_some_and(SystemType::is_vector) {
                **key = key.as_ref().clone() + lit(1_i64);
            } else if let ArrowType::List(_) = field.data_type() {
                **key = never_negative(key)?;
                // DataFusion would make an `nth_value` of this, which takes certain literals only.
                if let Expr::AggregateFunction(_) = access.expr {
                    let item = array_element(access.expr, (**key).clone());
                    return Ok(PlannerResult::Planned(item));
                }
            }
        }
        Ok(PlannerResult::Original(access))
    }

    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            if let Some(typed) = typed_literal(&expr.right, &expr.left, schema) {
                expr.right = typed;
            } else if let Some(typed) = typed_literal(&expr.left, &expr.right, schema) {
                expr.left = typed;
            }
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Nothing lies before the first item; DataFusion would count back from the last one.
fn never_negative(key: &Expr) -> PlanResult<Expr> {
    if let Expr::Literal(value, _) = key
        && value.cast_to(&ArrowType::Int64).is_ok_and(|value| value >= ScalarValue::Int64(Some(0)))
    {
        return Ok(key.clone());
    }
    let key = datafusion::logical_expr::cast(key.clone(), ArrowType::Int64);
    when(key.clone().lt(lit(0_i64)), lit(0_i64)).otherwise(key)
}

/// The literal in the type of what it is compared to.
pub(super) fn typed_literal(literal: &Expr, beside: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Literal(value, _) = literal else { return None };
    if !is_text(&value.data_type()) {
        return None;
    }
    let (_, field) = beside.to_field(schema).ok()?;
    let data_type = from_field(&field).ok()?;
    match data_type {
        DataType::Array(_) | DataType::Boolean | DataType::Jsonb => {
            let field = Arc::new(arrow_field("", &data_type, true));
            Some(Expr::Cast(Cast { expr: Box::new(literal.clone()), field }))
        }
        _ => None,
    }
}
