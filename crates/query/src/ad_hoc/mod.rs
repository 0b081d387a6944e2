//! Statements that come as text and differ only in their literals share a prepared statement.
//!
//! ```text
//!  text ─► shape, literals ─┬─► literals that are parameters ─► values ──┐
//!                           └─► the others: part of the variant ─► prepared statement ─► rows
//! ```
//!
//! The [`shape`] of a text costs one pass over its bytes, a fraction of parsing it. When a shape
//! comes a second time, the statement is parsed and prepared with parameters in the [`places`] of
//! literals. Later texts of the shape are neither parsed nor planned.
//!
//! Invariant: the answer is that of the text as it was written. Literals whose value does not fit
//! the parameter (a string with a word such as `now`, an integer out of range) send the text the
//! ordinary way, which also reports errors of such values with their positions.

mod places;
mod shape;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use parking_lot::Mutex;

use thalweg_formats::postgres::{ValueFormat, decode};
use thalweg_txn::Catalog;
use thalweg_values::types::TYPE_KEY;

use self::shape::LiteralValue;
use crate::plan_cache::{CachedStatements, Key, SeenTexts};
use crate::prepared::Prepared;

pub(crate) use places::{Place, places};
pub(crate) use shape::{Parameter, Shape};

/// The greatest number of variants of one shape.
const VARIANTS_MAX: usize = 16;

/// The greatest integer up to which a `real` holds each one.
const REAL_EXACT_MAX: u64 = 1 << 24;
/// The greatest integer up to which a `double precision` holds each one.
const DOUBLE_EXACT_MAX: u64 = 1 << 53;

/// The shapes that came as texts, with their prepared statements. All sessions share them.
#[derive(Default)]
pub(crate) struct AdHocStatements {
    shapes: Mutex<CachedStatements<SharedShape>>,
    /// Shapes with the literals that are no parameters, as far as known.
    seen: SeenTexts,
}

/// The statements of one shape.
#[derive(Default)]
pub(crate) struct SharedShape(Mutex<Variants>);

#[derive(Default)]
struct Variants {
    /// `None` until the shape was parsed.
    parameters: Option<Arc<[Parameter]>>,
    variants: Vec<Variant>,
    /// The definitions for which the shape's statements cannot be shared.
    refused: Option<Arc<Catalog>>,
}

/// The statements of a shape with the same values of those literals that are no parameters.
struct Variant {
    others: Vec<LiteralValue>,
    /// The definitions for which it was prepared.
    catalog: Arc<Catalog>,
    prepared: Prepared,
}

/// The way of a text, as far as it is known.
pub(crate) enum Known {
    /// The text is this statement with these literals.
    Shared(Prepared, Arc<[Parameter]>),
    /// It has to go the ordinary way.
    Alone,
    /// It comes again, and may be shared.
    Again,
}

impl AdHocStatements {
    /// Looks up the text of a shape, and notes that it came.
    pub(crate) fn look_up(&self, key: &Key, shape: &Shape, catalog: &Arc<Catalog>) -> Known {
        let found = self.shapes.lock().find(key);
        let others = match &found {
            Some(found) => {
                let variants = found.0.lock();
                if variants.refused.as_ref().is_some_and(|refused| Arc::ptr_eq(refused, catalog)) {
                    return Known::Alone;
                }
                if let Some((prepared, parameters)) = variants.find(shape, catalog) {
                    return Known::Shared(prepared.clone(), Arc::clone(parameters));
                }
                variants.parameters.as_ref().map(|parameters| others(shape, parameters))
            }
            None => None,
        };
        let text = (key, others);
        let is_known = self.seen.may_know(&text);
        self.seen.note(&text);
        if is_known { Known::Again } else { Known::Alone }
    }

    /// True if a text needs no parser, since it is a statement that is shared.
    pub(crate) fn has(&self, key: &Key, shape: &Shape, catalog: &Arc<Catalog>) -> bool {
        let found = self.shapes.lock().find(key);
        found.is_some_and(|found| found.0.lock().find(shape, catalog).is_some())
    }

    /// Keeps the statement of a shape.
    pub(crate) fn keep(
        &self,
        key: Key,
        shape: &Shape,
        catalog: &Arc<Catalog>,
        prepared: &Prepared,
        parameters: &Arc<[Parameter]>,
    ) {
        let kept = self.shapes.lock().keep(key);
        let mut kept = kept.0.lock();
        if kept.parameters.as_ref() != Some(parameters) {
            kept.variants.clear();
            kept.parameters = Some(Arc::clone(parameters));
        }
        let others = others(shape, parameters);
        kept.variants
            .retain(|variant| Arc::ptr_eq(&variant.catalog, catalog) && variant.others != others);
        if kept.variants.len() == VARIANTS_MAX {
            kept.variants.remove(0);
        }
        let (catalog, prepared) = (Arc::clone(catalog), prepared.clone());
        kept.variants.push(Variant { others, catalog, prepared });
    }

    /// Records that statements of a shape cannot be shared until definitions change.
    pub(crate) fn refuse(&self, key: Key, catalog: &Arc<Catalog>) {
        let kept = self.shapes.lock().keep(key);
        kept.0.lock().refused = Some(Arc::clone(catalog));
    }
}

impl Variants {
    fn find(
        &self,
        shape: &Shape,
        catalog: &Arc<Catalog>,
    ) -> Option<(&Prepared, &Arc<[Parameter]>)> {
        let parameters = self.parameters.as_ref()?;
        let variant = self.variants.iter().find(|variant| {
            Arc::ptr_eq(&variant.catalog, catalog)
                && other_values(shape, parameters).eq(&variant.others)
        });
        variant.map(|variant| (&variant.prepared, parameters))
    }
}

fn others(shape: &Shape, parameters: &[Parameter]) -> Vec<LiteralValue> {
    other_values(shape, parameters).cloned().collect()
}

/// The values of the literals that are no parameters.
fn other_values<'a>(
    shape: &'a Shape,
    parameters: &'a [Parameter],
) -> impl Iterator<Item = &'a LiteralValue> {
    let is_parameter = |place| parameters.iter().any(|parameter| parameter.literal == place);
    let literals = shape.literals.iter().enumerate();
    literals.filter(move |(place, _)| !is_parameter(*place)).map(|(_, literal)| &literal.value)
}

/// True if literals like this one may be values of a parameter of a type: if they mean the same
/// there.
pub(crate) fn suits(literal: &LiteralValue, parameter: &Parameter, field: &FieldRef) -> bool {
    use DataType::{Date32, Float32, Float64, Int16, Int32, Int64, Timestamp, Utf8View};
    let named = field.metadata().get(TYPE_KEY);
    match (literal, field.data_type()) {
        // A `smallint` or a `real` and an integer literal have a wider sum than two of the former.
        (_, Int16 | Float32) if parameter.is_operand => false,
        (LiteralValue::Integer(_), Int16 | Int32 | Int64 | Float32 | Float64)
        | (LiteralValue::String(_), Date32 | Timestamp(..)) => named.is_none(),
        (LiteralValue::String(_), Utf8View) => {
            named.is_none_or(|name| name.starts_with("character varying"))
        }
        _ => false,
    }
}

/// The value of a parameter that stands for a literal that [suits](suits) it. `None` if the value
/// is an error there, or may be.
pub(crate) fn value(shape: &Shape, parameter: &Parameter, field: &FieldRef) -> Option<ScalarValue> {
    match &shape.literals[parameter.literal].value {
        LiteralValue::Integer(integer) if parameter.is_negated => {
            integer_value(-integer, field.data_type())
        }
        LiteralValue::Integer(integer) => integer_value(*integer, field.data_type()),
        LiteralValue::String(text) if *field.data_type() == DataType::Utf8View => {
            Some(ScalarValue::Utf8View(Some(text.clone())))
        }
        LiteralValue::String(text) if is_moment(text) => {
            let decoded = decode(field, ValueFormat::Text, Some(text.as_bytes())).ok()?;
            ScalarValue::try_from_array(&decoded, 0).ok()
        }
        LiteralValue::String(_) => None,
    }
}

/// An integer as a value of a type, if the type holds exactly this one.
fn integer_value(integer: i64, data_type: &DataType) -> Option<ScalarValue> {
    let is_up_to = |exact_max: u64| integer.unsigned_abs() <= exact_max;
    match data_type {
        DataType::Int16 => i16::try_from(integer).ok().map(ScalarValue::from),
        DataType::Int32 => i32::try_from(integer).ok().map(ScalarValue::from),
        DataType::Int64 => Some(integer.into()),
        DataType::Float32 if is_up_to(REAL_EXACT_MAX) => Some((integer as f32).into()),
        DataType::Float64 if is_up_to(DOUBLE_EXACT_MAX) => Some((integer as f64).into()),
        _ => None,
    }
}

/// True for the digits of dates and times, without words such as `now`.
fn is_moment(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b"-:. +".contains(&byte))
}
