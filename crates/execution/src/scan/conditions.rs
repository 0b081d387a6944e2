//! Conditions of a filter on single columns, for the use of indexes.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Operator, Volatility};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use thalweg_store::KeyRange;
use thalweg_types::{Index, TableSchema};

/// Maximum number of ranges of one index search.
const RANGES_MAX: usize = 256;

/// Conditions that all relevant rows satisfy. The filter may have others that are not among them.
pub(super) struct Conditions(Vec<(usize, Condition)>);

enum Condition {
    /// The column has one of these values. NULL is one of them only if the filter accepts it.
    OneOf(Vec<ScalarValue>),
    From(Bound<ScalarValue>),
    To(Bound<ScalarValue>),
}

impl Conditions {
    /// The conditions of a filter over a table's columns. The filter has no parameters.
    pub(super) fn of(filter: &Arc<dyn PhysicalExpr>, table: &Schema) -> Conditions {
        let parts = split_conjunction(filter).into_iter();
        Conditions(parts.filter_map(|part| condition(part, table)).collect())
    }

    /// The conditions of a table's filter, if the table has an index or a key that can use them.
    pub(super) fn of_table(
        filter: Option<&Arc<dyn PhysicalExpr>>,
        columns: &Schema,
        table: &TableSchema,
    ) -> Conditions {
        match filter {
            Some(filter) if table.index_names().next().is_some() => Conditions::of(filter, columns),
            _ => Conditions(Vec::new()),
        }
    }

    /// All keys that matching rows can have in these columns, as one array for each column. `None`
    /// if the keys are not limited, or are more than `most`.
    pub(super) fn keys(&self, columns: &[usize], most: usize) -> Option<Vec<ArrayRef>> {
        let values = columns.iter().map(|column| self.one_of(*column));
        let values = values.collect::<Option<Vec<&[ScalarValue]>>>()?;
        let count = values.iter().try_fold(1, |count: usize, one| count.checked_mul(one.len()))?;
        let is_known = |value: &ScalarValue| !value.is_null() && is_equal_by_key(value);
        if count == 0 || count > most || !values.iter().copied().flatten().all(is_known) {
            return None;
        }
        let mut together = count;
        let columns = values.into_iter().map(|values| {
            together /= values.len();
            let alike = together;
            let value = |row: usize| values[row / alike % values.len()].clone();
            ScalarValue::iter_to_array((0..count).map(value)).ok()
        });
        columns.collect()
    }

    fn one_of(&self, column: usize) -> Option<&[ScalarValue]> {
        self.0.iter().find_map(|(of, condition)| match condition {
            Condition::OneOf(values) if *of == column => Some(values.as_slice()),
            _ => None,
        })
    }

    /// True if a column has the same value in all matching rows.
    pub(super) fn is_constant(&self, column: usize) -> bool {
        self.one_of(column).is_some_and(|values| values.len() <= 1)
    }

    fn bounds(&self, column: usize) -> (Bound<ScalarValue>, Bound<ScalarValue>) {
        let mut bounds = (Bound::Unbounded, Bound::Unbounded);
        for (of, condition) in &self.0 {
            match condition {
                Condition::From(from) if *of == column => bounds.0 = from.clone(),
                Condition::To(to) if *of == column => bounds.1 = to.clone(),
                _ => {}
            }
        }
        bounds
    }

    /// Disjoint ranges of an index that together contain all matching rows. If no condition is on
    /// its first column, the range is the whole index.
    pub(super) fn ranges(&self, index: &Index, table: &TableSchema) -> Vec<KeyRange> {
        let mut prefixes: Vec<Vec<ArrayRef>> = vec![Vec::new()];
        let mut bounds = (Bound::Unbounded, Bound::Unbounded);
        for column in table.key_positions(&index.key) {
            let few = |values: &&[ScalarValue]| prefixes.len() * values.len() <= RANGES_MAX;
            match self.one_of(column).filter(few).and_then(arrays) {
                Some(values) => {
                    let longer = |prefix: &Vec<ArrayRef>| {
                        let prefix = prefix.clone();
                        let ends = values.clone().into_iter();
                        ends.map(move |value| [prefix.as_slice(), &[value]].concat())
                    };
                    prefixes = prefixes.iter().flat_map(longer).collect();
                }
                None => {
                    let (from, to) = self.bounds(column);
                    bounds = (bound_array(from), bound_array(to));
                    break;
                }
            }
        }
        let (from, to) = bounds;
        let range = |equal| KeyRange { equal, from: from.clone(), to: to.clone() };
        prefixes.into_iter().map(range).collect()
    }
}

/// True if equal values of the type are one key. Intervals can be equal and yet differ.
fn is_equal_by_key(value: &ScalarValue) -> bool {
    use ScalarValue::*;
    matches!(
        value,
        Boolean(_)
            | Int16(_)
            | Int32(_)
            | Int64(_)
            | Float32(_)
            | Float64(_)
            | Decimal128(..)
            | Utf8View(_)
            | BinaryView(_)
            | FixedSizeBinary(..)
            | Date32(_)
            | TimestampMicrosecond(..)
    )
}

/// True if a range contains every row of its table.
pub(super) fn is_everything(range: &KeyRange) -> bool {
    let unbounded = matches!((&range.from, &range.to), (Bound::Unbounded, Bound::Unbounded));
    range.equal.is_empty() && unbounded
}

fn arrays(values: &[ScalarValue]) -> Option<Vec<ArrayRef>> {
    values.iter().map(|value| value.to_array().ok()).collect()
}

/// A bound that cannot be expressed is dropped: the filter itself stays above the scan.
fn bound_array(bound: Bound<ScalarValue>) -> Bound<ArrayRef> {
    let array = |value: ScalarValue| value.to_array().ok();
    match bound {
        Bound::Included(value) => array(value).map_or(Bound::Unbounded, Bound::Included),
        Bound::Excluded(value) => array(value).map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Unbounded => Bound::Unbounded,
    }
}

fn condition(part: &Arc<dyn PhysicalExpr>, table: &Schema) -> Option<(usize, Condition)> {
    if let Some(binary) = part.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::Or => disjunction(binary, table),
            _ => comparison(binary, table),
        };
    }
    if let Some(list) = part.downcast_ref::<InListExpr>().filter(|list| !list.negated()) {
        let column = Side::of(list.expr(), table)?;
        let values = list.list().iter().map(|value| column.value(value));
        let values = values.collect::<Option<Vec<_>>>()?;
        // NULL in a list matches nothing.
        let values = values.into_iter().filter(|value| !value.is_null());
        return Some((column.position, Condition::OneOf(distinct(values))));
    }
    if let Some(is_null) = part.downcast_ref::<IsNullExpr>() {
        let column = is_null.arg().downcast_ref::<Column>()?.index();
        let null = ScalarValue::try_from(table.fields().get(column)?.data_type()).ok()?;
        return Some((column, Condition::OneOf(vec![null])));
    }
    let (flag, column) = match part.downcast_ref::<NotExpr>() {
        Some(not) => (false, not.arg().downcast_ref::<Column>()?),
        None => (true, part.downcast_ref::<Column>()?),
    };
    Some((column.index(), Condition::OneOf(vec![ScalarValue::Boolean(Some(flag))])))
}

/// `a = 1 OR a = 2`
fn disjunction(binary: &BinaryExpr, table: &Schema) -> Option<(usize, Condition)> {
    let (left, right) = (condition(binary.left(), table)?, condition(binary.right(), table)?);
    match (left, right) {
        ((column, Condition::OneOf(left)), (other, Condition::OneOf(right))) if column == other => {
            Some((column, Condition::OneOf(distinct(left.into_iter().chain(right)))))
        }
        _ => None,
    }
}

#[allow(clippy::mutable_key_type, reason = "nobody changes the arrays in a value")]
fn distinct(values: impl Iterator<Item = ScalarValue>) -> Vec<ScalarValue> {
    let mut seen = HashSet::new();
    values.filter(|value| seen.insert(value.clone())).collect()
}

fn comparison(binary: &BinaryExpr, table: &Schema) -> Option<(usize, Condition)> {
    let (column, value, operator) = match Side::of(binary.left(), table) {
        Some(column) => (column, binary.right(), *binary.op()),
        None => (Side::of(binary.right(), table)?, binary.left(), binary.op().swap()?),
    };
    let value = column.value(value)?;
    // A comparison with NULL is true for no row.
    let condition = match operator {
        _ if value.is_null() => Condition::OneOf(Vec::new()),
        Operator::Eq => Condition::OneOf(vec![value]),
        Operator::Gt => Condition::From(Bound::Excluded(value)),
        Operator::GtEq => Condition::From(Bound::Included(value)),
        Operator::Lt => Condition::To(Bound::Excluded(value)),
        Operator::LtEq => Condition::To(Bound::Included(value)),
        _ => return None,
    };
    Some((column.position, condition))
}

/// A column in a comparison, possibly cast to a wider integer.
struct Side<'a> {
    position: usize,
    data_type: &'a DataType,
}

impl<'a> Side<'a> {
    fn of(side: &Arc<dyn PhysicalExpr>, table: &'a Schema) -> Option<Side<'a>> {
        let (inner, wider) = match side.downcast_ref::<CastExpr>() {
            Some(cast) => (cast.expr(), Some(cast.cast_type())),
            None => (side, None),
        };
        let position = inner.downcast_ref::<Column>()?.index();
        let data_type = table.fields().get(position)?.data_type();
        let fits = wider.is_none_or(|wider| wider.is_integer() && data_type.is_integer());
        fits.then_some(Side { position, data_type })
    }

    /// The value of an expression without columns, in the column's type. `None` if it is not
    /// constant, or not a value of the column's type.
    fn value(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
        let value = evaluate(expression)?;
        if value.data_type() == *self.data_type {
            return Some(plain_number(value));
        }
        let own = value.cast_to(self.data_type).ok()?;
        let same = own.cast_to(&value.data_type()).ok()? == value;
        same.then(|| plain_number(own))
    }
}

/// In PostgreSQL, -0 equals 0 and all NaN are equal.
fn plain_number(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(number)) if number.is_nan() => f64::NAN.into(),
        ScalarValue::Float64(Some(number)) => (number + 0.0).into(),
        ScalarValue::Float32(Some(number)) if number.is_nan() => f32::NAN.into(),
        ScalarValue::Float32(Some(number)) => (number + 0.0).into(),
        other => other,
    }
}

fn evaluate(expression: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    if let Some(literal) = expression.downcast_ref::<Literal>() {
        return Some(literal.value().clone());
    }
    let mut constant = true;
    let looked = expression.apply(|part| {
        let function = part.downcast_ref::<ScalarFunctionExpr>();
        let varies = function
            .is_some_and(|function| function.fun().signature().volatility != Volatility::Immutable);
        constant &= !varies && part.downcast_ref::<Column>().is_none();
        Ok(if constant { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    if looked.is_err() || !constant {
        return None;
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let nothing = Arc::new(Schema::empty());
    let nothing = RecordBatch::try_new_with_options(nothing, Vec::new(), &options).ok()?;
    let value = expression.evaluate(&nothing).ok()?.into_array(1).ok()?;
    ScalarValue::try_from_array(&value, 0).ok()
}
