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
//! Invariant: the answer is that of the text as it was written. Literals whose value would not do as
//! a parameter (a string that is no number beside a number, an integer out of range) send the text
//! the ordinary way, which also reports errors of such values with their positions.

mod places;
mod shape;

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use parking_lot::Mutex;

use thalweg_formats::postgres::{ValueFormat, decode};
use thalweg_txn::Catalog;
use thalweg_values::types::TYPE_KEY;

use self::shape::{Literal, LiteralValue};
use crate::plan_cache::{CachedStatements, Key, SeenTexts};
use crate::prepared::Prepared;

pub(crate) use places::places;
pub(crate) use shape::Shape;

/// The greatest number of variants of one shape.
const VARIANTS_MAX: usize = 4;

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
    /// The literals that are parameters, by their places among all; `None` until the shape was
    /// parsed.
    parameters: Option<Arc<[usize]>>,
    variants: Vec<Variant>,
}

/// The statements of a shape with the same values of those literals that are no parameters.
struct Variant {
    others: Vec<LiteralValue>,
    /// The definitions for which it was prepared.
    catalog: Arc<Catalog>,
    /// `None` if the statement cannot be shared.
    prepared: Option<Prepared>,
}

/// What is known of a text.
pub(crate) enum Known {
    /// The text is this statement with these literals.
    Shared { prepared: Prepared, parameters: Arc<[usize]> },
    /// It has to go the ordinary way.
    Alone,
    /// It comes again, and may be shared.
    Again,
}

impl AdHocStatements {
    /// Looks up the text of a shape, and notes that it came.
    pub(crate) fn look_up(&self, key: &Key, shape: &Shape, catalog: &Arc<Catalog>) -> Known {
        let found = self.shapes.lock().find(key);
        let mut parameters = None;
        if let Some(found) = &found {
            let variants = found.0.lock();
            if let Some(variant) = variants.find(shape, catalog) {
                return match (&variant.prepared, &variants.parameters) {
                    (Some(prepared), Some(parameters)) => Known::Shared {
                        prepared: prepared.clone(),
                        parameters: Arc::clone(parameters),
                    },
                    _ => Known::Alone,
                };
            }
            parameters = variants.parameters.clone();
        }
        let others = parameters.map(|parameters| others(shape, &parameters));
        let text = (key, others);
        let is_known = self.seen.may_know(&text);
        self.seen.note(&text);
        if is_known { Known::Again } else { Known::Alone }
    }

    /// True if a text needs no parser, since it is a statement that is shared.
    pub(crate) fn has(&self, key: &Key, shape: &Shape, catalog: &Arc<Catalog>) -> bool {
        let found = self.shapes.lock().find(key);
        found.is_some_and(|found| {
            let variants = found.0.lock();
            variants.find(shape, catalog).is_some_and(|variant| variant.prepared.is_some())
        })
    }

    /// Keeps the statement of a shape, or `None` if it cannot be shared.
    pub(crate) fn keep(
        &self,
        key: Key,
        shape: &Shape,
        catalog: &Arc<Catalog>,
        parameters: &Arc<[usize]>,
        prepared: Option<Prepared>,
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
        kept.variants.push(Variant { others, catalog: Arc::clone(catalog), prepared });
    }
}

impl Variants {
    fn find(&self, shape: &Shape, catalog: &Arc<Catalog>) -> Option<&Variant> {
        let parameters = self.parameters.as_ref()?;
        self.variants.iter().find(|variant| {
            let others = other_literals(shape, parameters).map(|literal| &literal.value);
            Arc::ptr_eq(&variant.catalog, catalog) && others.eq(&variant.others)
        })
    }
}

fn others(shape: &Shape, parameters: &[usize]) -> Vec<LiteralValue> {
    other_literals(shape, parameters).map(|literal| literal.value.clone()).collect()
}

fn other_literals<'a>(
    shape: &'a Shape,
    parameters: &'a [usize],
) -> impl Iterator<Item = &'a Literal> {
    let literals = shape.literals.iter().enumerate();
    literals.filter(|(place, _)| !parameters.contains(place)).map(|(_, literal)| literal)
}

/// The value of a parameter that stands for a literal. `None` if the literal means something else,
/// is an error there, or may be.
pub(crate) fn value(literal: &Literal, field: &FieldRef) -> Option<ScalarValue> {
    let named = field.metadata().get(TYPE_KEY);
    let is_exact = |integer: &i64, exact_max: u64| integer.unsigned_abs() <= exact_max;
    match (&literal.value, field.data_type()) {
        (LiteralValue::Integer(_), _) if named.is_some() => None,
        (LiteralValue::Integer(value), DataType::Int16) => {
            i16::try_from(*value).ok().map(ScalarValue::from)
        }
        (LiteralValue::Integer(value), DataType::Int32) => {
            i32::try_from(*value).ok().map(ScalarValue::from)
        }
        (LiteralValue::Integer(value), DataType::Int64) => Some((*value).into()),
        (LiteralValue::Integer(value), DataType::Float32) if is_exact(value, REAL_EXACT_MAX) => {
            Some((*value as f32).into())
        }
        (LiteralValue::Integer(value), DataType::Float64) if is_exact(value, DOUBLE_EXACT_MAX) => {
            Some((*value as f64).into())
        }
        (LiteralValue::String(text), DataType::Utf8View)
            if named.is_none_or(|name| name.starts_with("character varying")) =>
        {
            Some(ScalarValue::Utf8View(Some(text.clone())))
        }
        (LiteralValue::String(text), DataType::Date32 | DataType::Timestamp(..))
            if is_moment(text) =>
        {
            let decoded = decode(field, ValueFormat::Text, Some(text.as_bytes())).ok()?;
            ScalarValue::try_from_array(&decoded, 0).ok()
        }
        _ => None,
    }
}

/// True for the digits of dates and times, without words such as `now`.
fn is_moment(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b"-:. +".contains(&byte))
}
