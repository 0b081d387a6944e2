//! Functions that text and bytes have alike: substrings, positions, and trimming. DataFusion's
//! functions do it for text, these for bytes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Int64Type};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::functions::{string, unicode};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::scalar_function::{Compute, computed};

use super::super::{regexp, size_checked};
use super::{Numbered, converted};
use thalweg_values::bounded_output::{BoundedBytes, allow_all};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        substring(),
        overlay(),
        position(),
        OfBoth::made(string::btrim(), Kind::TrimBoth),
        OfBoth::made(string::ltrim(), Kind::TrimStart),
        OfBoth::made(string::rtrim(), Kind::TrimEnd),
    ]
}

fn substring() -> Arc<ScalarUDF> {
    OfBoth::made(unicode::substr(), Kind::Part)
}

fn overlay() -> Arc<ScalarUDF> {
    OfBoth::made(size_checked::overlay(), Kind::Overlay)
}

fn position() -> Arc<ScalarUDF> {
    OfBoth::made(unicode::strpos(), Kind::Position)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Part,
    Overlay,
    Position,
    TrimBoth,
    TrimStart,
    TrimEnd,
}

impl Kind {
    /// The lists of arguments with bytes; a literal beside them may be bytes as well.
    fn lists(self) -> Vec<TypeSignature> {
        use ArrowType::{BinaryView, Int64, Utf8};
        let texts = match self {
            Kind::Part => vec![vec![BinaryView]],
            _ => vec![vec![BinaryView, BinaryView], vec![BinaryView, Utf8], vec![Utf8, BinaryView]],
        };
        let numbers = match self {
            Kind::Part | Kind::Overlay => 1..=2,
            _ => 0..=0,
        };
        let mut lists = Vec::new();
        for text in &texts {
            for count in numbers.clone() {
                let list = text.iter().cloned().chain(std::iter::repeat_n(Int64, count));
                lists.push(TypeSignature::Exact(list.collect()));
            }
        }
        lists
    }

    fn returns(self) -> ArrowType {
        match self {
            Kind::Position => ArrowType::Int32,
            _ => ArrowType::BinaryView,
        }
    }

    fn compute(self) -> Compute {
        match self {
            Kind::Part => part,
            Kind::Overlay => overlaid,
            Kind::Position => place_of,
            Kind::TrimBoth => |columns| trimmed(columns, true, true),
            Kind::TrimStart => |columns| trimmed(columns, true, false),
            Kind::TrimEnd => |columns| trimmed(columns, false, true),
        }
    }
}

/// A function of text that is one of bytes as well.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfBoth {
    of_text: Arc<ScalarUDF>,
    kind: Kind,
    signature: Signature,
}

impl OfBoth {
    fn made(of_text: Arc<ScalarUDF>, kind: Kind) -> Arc<ScalarUDF> {
        let of_bytes = kind.lists();
        let texts = match &of_text.signature().type_signature {
            TypeSignature::OneOf(lists) => lists.clone(),
            list => vec![list.clone()],
        };
        // If a signature with text also accepts bytes, the signatures with bytes come first.
        let lists = match kind {
            Kind::Overlay => [of_bytes, texts].concat(),
            _ => [texts, of_bytes].concat(),
        };
        let signature = Signature::one_of(lists, Volatility::Immutable);
        Arc::new(ScalarUDF::from(OfBoth { of_text, kind, signature }))
    }
}

fn are_bytes<'t>(mut given: impl Iterator<Item = &'t ArrowType>) -> bool {
    given.any(|given| matches!(given, ArrowType::Binary | ArrowType::BinaryView))
}

impl ScalarUDFImpl for OfBoth {
    fn name(&self) -> &str {
        self.of_text.name()
    }

    fn aliases(&self) -> &[String] {
        self.of_text.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        match are_bytes(arg_types.iter()) {
            true => Ok(self.kind.returns()),
            false => self.of_text.return_type(arg_types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        if !are_bytes(args.arg_fields.iter().map(|field| field.data_type())) {
            return self.of_text.return_field_from_args(args);
        }
        Ok(Arc::new(Field::new(self.name(), self.kind.returns(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let given: Vec<ArrowType> = args.args.iter().map(ColumnarValue::data_type).collect();
        match are_bytes(given.iter()) {
            true => computed(args, self.kind.compute()),
            false => self.of_text.invoke_with_args(args),
        }
    }
}

/// From a place that counts from 1, and to the end or so many bytes.
fn part(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let numbered = Numbered::of(columns)?;
    let counts = columns.get(2).map(|counts| converted(counts, &DataType::Int8)).transpose()?;
    let mut made = BoundedBytes::default();
    for (row, numbers) in numbered.rows().enumerate() {
        let count = match &counts {
            Some(counts) if counts.is_null(row) => None,
            Some(counts) => Some(counts.as_primitive::<Int64Type>().value(row)),
            None => Some(i64::MAX),
        };
        let (Some((bytes, from)), Some(count)) = (numbers, count) else {
            made.null();
            continue;
        };
        if count < 0 {
            return Err(negative_length());
        }
        let first = from.saturating_sub(1);
        let start = place_within(first, bytes);
        let end = place_within(first.saturating_add(count), bytes);
        made.value(&[&bytes[start..end.max(start)]])?;
    }
    Ok(made.finish())
}

fn negative_length() -> Error {
    Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")
}

/// The number as a place in the bytes, or the end that is nearest to it.
fn place_within(number: i64, bytes: &[u8]) -> usize {
    usize::try_from(number).unwrap_or(0).min(bytes.len())
}

/// `overlay(bytes PLACING others FROM place FOR count)`; without a count, as many bytes are
/// replaced as are inserted.
fn overlaid(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let numbered = Numbered::of(&[Arc::clone(&columns[0]), Arc::clone(&columns[2])])?;
    let others = converted(&columns[1], &DataType::Bytea)?;
    let counts = columns.get(3).map(|counts| converted(counts, &DataType::Int8)).transpose()?;
    let mut made = BoundedBytes::default();
    for (row, (numbers, other)) in numbered.rows().zip(others.as_binary_view()).enumerate() {
        let count = match &counts {
            Some(counts) if counts.is_null(row) => None,
            Some(counts) => Some(counts.as_primitive::<Int64Type>().value(row)),
            None => other.map(|other| other.len() as i64),
        };
        let (Some((bytes, from)), Some(other), Some(count)) = (numbers, other, count) else {
            made.null();
            continue;
        };
        if from <= 0 {
            return Err(negative_length());
        }
        let before = place_within(from - 1, bytes);
        let behind = place_within((from - 1).saturating_add(count), bytes);
        made.value(&[&bytes[..before], other, &bytes[behind..]])?;
    }
    Ok(made.finish())
}

/// The position of the first occurrence of bytes in others, counted from 1; 0 if there is none.
fn place_of(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let bytes = converted(&columns[0], &DataType::Bytea)?;
    let wanted = converted(&columns[1], &DataType::Bytea)?;
    let places = bytes.as_binary_view().iter().zip(wanted.as_binary_view()).map(|pair| {
        let (Some(bytes), Some(wanted)) = pair else { return Ok(None) };
        Ok(Some(found(bytes, wanted).map_or(0, |place| place as i32 + 1)))
    });
    Ok(Arc::new(places.collect::<Result<Int32Array>>()?))
}

/// Knuth, Morris and Pratt's search, whose time is linear for repetitive bytes too.
fn found(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.len() > bytes.len() {
        return None;
    }
    // For each prefix of `wanted`, the length of the longest shorter prefix that it also ends with.
    let mut again = vec![0_usize; wanted.len()];
    let mut length = 0;
    for place in 1..wanted.len() {
        length = extended(length, wanted[place], wanted, &again);
        again[place] = length;
    }
    length = 0;
    for (place, byte) in bytes.iter().enumerate() {
        if length == wanted.len() {
            return Some(place - length);
        }
        length = extended(length, *byte, wanted, &again);
    }
    (length == wanted.len()).then(|| bytes.len() - length)
}

/// The length of the longest prefix of `wanted` that ends at `byte`, if one of `length` bytes ended
/// in front of it.
fn extended(mut length: usize, byte: u8, wanted: &[u8], again: &[usize]) -> usize {
    while length > 0 && wanted[length] != byte {
        length = again[length - 1];
    }
    length + usize::from(wanted[length] == byte)
}

/// Removes bytes from either end that occur in the other argument.
fn trimmed(columns: &[ArrayRef], at_start: bool, at_end: bool) -> Result<ArrayRef> {
    let bytes = converted(&columns[0], &DataType::Bytea)?;
    let others = converted(&columns[1], &DataType::Bytea)?;
    allow_all(&bytes, 1)?;
    let mut made = BoundedBytes::default();
    for pair in bytes.as_binary_view().iter().zip(others.as_binary_view()) {
        let (Some(mut bytes), Some(others)) = pair else {
            made.null();
            continue;
        };
        let mut goes = [false; 256];
        others.iter().for_each(|byte| goes[usize::from(*byte)] = true);
        while let (true, [first, rest @ ..]) = (at_start, bytes)
            && goes[usize::from(*first)]
        {
            bytes = rest;
        }
        while let (true, [rest @ .., last]) = (at_end, bytes)
            && goes[usize::from(*last)]
        {
            bytes = rest;
        }
        made.value(&[bytes])?;
    }
    Ok(made.finish())
}

/// `substring(bytes FROM 2 FOR 3)` and its like, of which the planner makes DataFusion's own
/// functions.
#[derive(Debug)]
pub(crate) struct PlannerOfBoth;

impl ExprPlanner for PlannerOfBoth {
    fn plan_substring(&self, args: Vec<Expr>) -> PlanResult<PlannerResult<Vec<Expr>>> {
        // A text is a pattern. A column is taken for a place, since its type is not known here.
        let is_pattern = |from: &Expr| {
            from.get_type(&DFSchema::empty()).is_ok_and(|given| given == ArrowType::Utf8View)
        };
        let function = match args.as_slice() {
            [_, from] if is_pattern(from) => regexp::substring_pattern(),
            _ => substring(),
        };
        Ok(PlannerResult::Planned(function.call(args)))
    }

    fn plan_overlay(&self, args: Vec<Expr>) -> PlanResult<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(overlay().call(args)))
    }

    fn plan_position(&self, args: Vec<Expr>) -> PlanResult<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(position().call(args)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_where_they_first_stand() {
        for (bytes, wanted, place) in [
            (&b"abcabd"[..], &b"abd"[..], Some(3)),
            (b"aaab", b"aab", Some(1)),
            (b"abab", b"abab", Some(0)),
            (b"ab", b"abc", None),
            (b"abacababc", b"ababc", Some(4)),
            (b"abc", b"d", None),
            (b"xyz", b"z", Some(2)),
            (b"x", b"", Some(0)),
            (b"", b"", Some(0)),
        ] {
            assert_eq!(found(bytes, wanted), place, "{wanted:?} in {bytes:?}");
        }
    }
}
