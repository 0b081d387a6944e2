//! The SQL functions on sequences. They are volatile: each row calls them, and nothing folds them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use thalweg_txn::{Position, Privileges};
use thalweg_types::{Column, TableId};
use thalweg_values::errors::external;

use super::{OIDS, OutsideSessions, SequenceAccess, sequence_of_default};
use crate::catalog::SessionCatalog;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Next,
    Current,
    Last,
    Set,
}

/// The functions for one planner.
pub(crate) fn functions(names: &Arc<SessionCatalog>) -> Vec<Arc<ScalarUDF>> {
    [Kind::Next, Kind::Current, Kind::Last, Kind::Set]
        .map(|kind| Arc::new(ScalarUDF::from(SequenceFunction::new(kind, names))))
        .into()
}

struct SequenceFunction {
    kind: Kind,
    signature: Signature,
    names: Arc<SessionCatalog>,
    /// `None` until a statement is planned with the function.
    bound: Option<Arc<SequenceAccess>>,
}

impl SequenceFunction {
    fn new(kind: Kind, names: &Arc<SessionCatalog>) -> SequenceFunction {
        let arguments = match kind {
            Kind::Next | Kind::Current => TypeSignature::Any(1),
            Kind::Last => TypeSignature::Nullary,
            Kind::Set => TypeSignature::OneOf(vec![TypeSignature::Any(2), TypeSignature::Any(3)]),
        };
        let signature = Signature::new(arguments, Volatility::Volatile);
        SequenceFunction { kind, signature, names: Arc::clone(names), bound: None }
    }

    fn access(&self) -> Result<Arc<SequenceAccess>> {
        match &self.bound {
            Some(bound) => Ok(Arc::clone(bound)),
            None => self.names.sequence_access().map(Arc::new).map_err(external),
        }
    }
}

impl fmt::Debug for SequenceFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &SequenceFunction) -> bool {
        self.kind == other.kind
            && Arc::ptr_eq(&self.names, &other.names)
            && self.bound.as_ref().map(Arc::as_ptr) == other.bound.as_ref().map(Arc::as_ptr)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Next => "nextval",
            Kind::Current => "currval",
            Kind::Last => "lastval",
            Kind::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    /// Binds the session while planning, because the planner may serve another one by the time that
    /// the statement's rows come.
    fn simplify(&self, arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if self.bound.is_some() {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        let bound = SequenceFunction {
            kind: self.kind,
            signature: self.signature.clone(),
            names: Arc::clone(&self.names),
            bound: Some(self.access()?),
        };
        Ok(ExprSimplifyResult::Simplified(Arc::new(ScalarUDF::from(bound)).call(arguments)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let access = self.access()?;
        let rows = arguments.number_rows;
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let one_sequence = arguments.args.first().is_some_and(is_scalar);
        let columns = arguments.args.into_iter().map(|value| value.into_array(rows));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let values = if self.kind == Kind::Next && one_sequence && rows > 1 {
            numbers(&access, &columns[0], rows)?
        } else {
            let calls = (0..rows).map(|row| self.call(&access, &columns, row));
            calls.collect::<Result<Int64Array>>()?
        };
        Ok(ColumnarValue::Array(Arc::new(values)))
    }
}

/// One number of the same sequence for each row.
fn numbers(access: &SequenceAccess, sequence: &ArrayRef, rows: usize) -> Result<Int64Array> {
    let Some(id) = sequence_at(access, sequence, 0)? else { return Ok(Int64Array::new_null(rows)) };
    let numbers = access.next(id, rows, false).map_err(external)?;
    Ok(Int64Array::from(numbers))
}

impl SequenceFunction {
    /// The value in one row; NULL if an argument is NULL.
    fn call(
        &self,
        access: &SequenceAccess,
        columns: &[ArrayRef],
        row: usize,
    ) -> Result<Option<i64>> {
        if columns.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        if self.kind == Kind::Last {
            return access.latest().map(Some).map_err(external);
        }
        let Some(id) = sequence_at(access, &columns[0], row)? else { return Ok(None) };
        let value = match self.kind {
            Kind::Next => access.next(id, 1, false).map(|numbers| numbers[0]),
            Kind::Current | Kind::Last => access.current(id),
            Kind::Set => {
                let last = cast(&columns[1].slice(row, 1), &DataType::Int64)?;
                let is_called: ArrayRef = match columns.get(2) {
                    Some(column) => cast(&column.slice(row, 1), &DataType::Boolean)?,
                    None => Arc::new(BooleanArray::from(vec![true])),
                };
                let (last, is_called) = (last.as_primitive::<Int64Type>(), is_called.as_boolean());
                if last.is_null(0) || is_called.is_null(0) {
                    return Ok(None);
                }
                let position = Position { last: last.value(0), is_called: is_called.value(0) };
                access.set(id, position)
            }
        };
        value.map(Some).map_err(external)
    }
}

/// The sequence that an argument names, or is the number of; `None` for NULL.
fn sequence_at(access: &SequenceAccess, column: &ArrayRef, row: usize) -> Result<Option<TableId>> {
    if column.is_null(row) {
        return Ok(None);
    }
    let column = column.slice(row, 1);
    let is_text =
        matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if is_text {
        let text = cast(&column, &DataType::Utf8View)?;
        let text: &StringViewArray = text.as_string_view();
        return access.named(text.value(0)).map(Some).map_err(external);
    }
    let number = cast(&column, &DataType::Int64)?;
    let number = number.as_primitive::<Int64Type>();
    let id = number.is_valid(0).then(|| number.value(0) - OIDS);
    // A number that no id can have is the number of no sequence.
    Ok(id.map(|id| TableId(u32::try_from(id).unwrap_or(u32::MAX))))
}

/// The numbers of a column whose default is the next number of a sequence.
pub(crate) struct DefaultNumbers {
    id: TableId,
    access: SequenceAccess,
    /// Roles that may insert rows may number them in an identity column.
    is_identity: bool,
}

impl DefaultNumbers {
    /// The numbers of so many rows, which the caller commits afterwards.
    ///
    /// # Errors
    /// 2200H if the sequence ends before.
    pub(crate) fn take(&self, rows: usize) -> thalweg_types::Result<Int64Array> {
        let numbers = match self.is_identity {
            true => self.access.take(self.id, Privileges::NONE, rows, true),
            false => self.access.next(self.id, rows, true),
        };
        numbers.map(Int64Array::from)
    }
}

/// The numbers of a column's default that is nothing but `nextval(number)`.
///
/// # Errors
/// If no statement of a session runs, and the state is not one of
/// [`OutsideSessions`](super::OutsideSessions).
pub(crate) fn number_of_default(
    state: &SessionState,
    column: &Column,
) -> thalweg_types::Result<Option<DefaultNumbers>> {
    let Some(id) = column.default.as_deref().and_then(sequence_of_default) else {
        return Ok(None);
    };
    let is_identity = column.identity.is_some();
    if let Some(outside) = state.config().get_extension::<OutsideSessions>() {
        return Ok(Some(DefaultNumbers { id, access: outside.access(), is_identity }));
    }
    let function = state.scalar_functions().get("nextval");
    let Some(function) = function.and_then(|f| f.inner().downcast_ref::<SequenceFunction>()) else {
        return Ok(None);
    };
    let access = function.names.sequence_access()?;
    Ok(Some(DefaultNumbers { id, access, is_identity }))
}
