//! PostgreSQL's advisory lock functions as planning sees them.
//!
//! No plan calls them. They are registered so that statements about locks are described, and their
//! arguments typed, like all others.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use thalweg_values::errors::external;

use self::Act::{Lock, Try, Unlock, UnlockAll};
use super::recognize::in_this_place;
use super::table::Mode::{self, Exclusive, Share};

/// The time for which a lock is held unless it is released earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Until {
    SessionEnds,
    TransactionEnds,
}

use Until::{SessionEnds, TransactionEnds};

/// The effect of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    /// Takes a lock, waiting for it.
    Lock(Until, Mode),
    /// Takes a lock if it is free, and returns whether it was.
    Try(Until, Mode),
    /// Releases a lock of the session, and returns whether it was held.
    Unlock(Mode),
    UnlockAll,
}

const FUNCTIONS: [(&str, Act); 11] = [
    ("pg_advisory_lock", Lock(SessionEnds, Exclusive)),
    ("pg_advisory_lock_shared", Lock(SessionEnds, Share)),
    ("pg_advisory_xact_lock", Lock(TransactionEnds, Exclusive)),
    ("pg_advisory_xact_lock_shared", Lock(TransactionEnds, Share)),
    ("pg_try_advisory_lock", Try(SessionEnds, Exclusive)),
    ("pg_try_advisory_lock_shared", Try(SessionEnds, Share)),
    ("pg_try_advisory_xact_lock", Try(TransactionEnds, Exclusive)),
    ("pg_try_advisory_xact_lock_shared", Try(TransactionEnds, Share)),
    ("pg_advisory_unlock", Unlock(Exclusive)),
    ("pg_advisory_unlock_shared", Unlock(Share)),
    ("pg_advisory_unlock_all", UnlockAll),
];

/// The effect of a lock function; `None` for other functions.
pub(super) fn act_of(name: &str) -> Option<Act> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, act)| *act)
}

pub(super) fn is_named(name: &str) -> bool {
    act_of(name).is_some()
}

/// True if a function takes the key of a lock: one `bigint`, or two `integer`.
pub(crate) fn takes_keys(name: &str) -> bool {
    act_of(name).is_some_and(|act| act != UnlockAll)
}

impl Act {
    /// True if the function returns PostgreSQL's `void` rather than a boolean.
    pub(super) fn gives_nothing(self) -> bool {
        matches!(self, Lock(..) | UnlockAll)
    }

    /// True if the function takes locks.
    pub(super) fn takes(self) -> bool {
        matches!(self, Lock(..) | Try(..))
    }

    fn arguments(self) -> TypeSignature {
        match self {
            UnlockAll => TypeSignature::Nullary,
            _ => TypeSignature::OneOf(vec![
                TypeSignature::Exact(vec![DataType::Int64]),
                TypeSignature::Exact(vec![DataType::Int32, DataType::Int32]),
            ]),
        }
    }
}

pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let function = |(name, act): (&'static str, Act)| LockFunction {
        name,
        act,
        signature: Signature::new(act.arguments(), Volatility::Volatile),
    };
    let functions = FUNCTIONS.into_iter().map(function);
    functions.map(|function| Arc::new(ScalarUDF::from(function))).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct LockFunction {
    name: &'static str,
    act: Act,
    signature: Signature,
}

impl ScalarUDFImpl for LockFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// PostgreSQL's `void`, which is shown as an empty text, or a boolean.
    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(if self.act.gives_nothing() { DataType::Utf8View } else { DataType::Boolean })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        Err(external(in_this_place(self.name)))
    }
}
