//! PostgreSQL's functions for advisory locks: what planning has to know of them.
//!
//! No plan calls them. They are there so that a statement about locks is described, and its
//! arguments get their types, in the way of all others.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use thalweg_dialect::errors::external;

use self::Act::{Lock, Try, Unlock, UnlockAll};
use super::alone::in_this_place;
use super::table::Mode::{self, Exclusive, Share};

/// How long a lock is held, unless it is given back before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Until {
    SessionEnds,
    TransactionEnds,
}

use Until::{SessionEnds, TransactionEnds};

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    /// Takes a lock, waiting for it.
    Lock(Until, Mode),
    /// Takes a lock that is free, and says whether it was.
    Try(Until, Mode),
    /// Gives a lock of the session back, and says whether there was one.
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

/// What a function does that is one of these.
pub(super) fn act_of(name: &str) -> Option<Act> {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map(|(_, act)| *act)
}

pub(super) fn is_named(name: &str) -> bool {
    act_of(name).is_some()
}

/// Whether a function takes the numbers that name a lock: one `bigint`, or two `integer`.
pub(crate) fn takes_keys(name: &str) -> bool {
    act_of(name).is_some_and(|act| act != UnlockAll)
}

impl Act {
    /// Whether it gives PostgreSQL's `void`, and no truth value.
    pub(super) fn gives_nothing(self) -> bool {
        matches!(self, Lock(..) | UnlockAll)
    }

    /// Whether it takes locks.
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

    /// PostgreSQL's `void`, which is shown as an empty text, or a truth value.
    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(if self.act.gives_nothing() { DataType::Utf8View } else { DataType::Boolean })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        Err(external(in_this_place(self.name)))
    }
}
