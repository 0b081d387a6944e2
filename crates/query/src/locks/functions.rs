//! PostgreSQL's functions for advisory locks.
//!
//! By the time that a statement's rows come, its planner may serve another session: a call is bound
//! to its session while it is planned. What waits is awaited by the plan, as `pg_sleep` is.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, StringViewArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use async_trait::async_trait;
use datafusion::common::{Result as PlanResult, plan_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use thalweg_dialect::errors::external;
use thalweg_types::Error;

use self::Act::{Lock, Try, Unlock, UnlockAll};
use super::session::{Asker, Until};
use super::table::{Key, Mode};
use crate::catalog::SessionCatalog;
use Mode::{Exclusive, Share};
use Until::{SessionEnds, TransactionEnds};

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
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

/// Whether a function is one of these.
pub(super) fn is_named(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

/// Whether a function takes the numbers that name a lock: one `bigint`, or two `integer`.
pub(crate) fn takes_keys(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, act)| *known == name && *act != UnlockAll)
}

/// The functions of one planner.
pub(crate) fn functions(names: &Arc<SessionCatalog>) -> Vec<Arc<ScalarUDF>> {
    let function = |(name, act)| LockFunction {
        name,
        act,
        signature: Signature::new(arguments(act), Volatility::Volatile),
        names: Arc::clone(names),
        bound: None,
    };
    let functions = FUNCTIONS.into_iter().map(function);
    functions.map(|function| Arc::new(ScalarUDF::from(function))).collect()
}

#[derive(Clone)]
struct LockFunction {
    name: &'static str,
    act: Act,
    signature: Signature,
    names: Arc<SessionCatalog>,
    /// Whom it is called for; `None` before a statement is planned with it.
    bound: Option<Asker>,
}

impl fmt::Debug for LockFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// No two functions of one planner share a name.
impl PartialEq for LockFunction {
    fn eq(&self, other: &LockFunction) -> bool {
        let is_bound_alike = match (&self.bound, &other.bound) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is_for(other),
            _ => false,
        };
        self.name == other.name && Arc::ptr_eq(&self.names, &other.names) && is_bound_alike
    }
}

impl Eq for LockFunction {}

impl Hash for LockFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
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
        Ok(match self.act {
            Lock(..) | UnlockAll => DataType::Utf8View,
            Try(..) | Unlock(_) => DataType::Boolean,
        })
    }

    fn simplify(
        &self,
        arguments: Vec<Expr>,
        _: &SimplifyContext,
    ) -> PlanResult<ExprSimplifyResult> {
        if self.bound.is_some() {
            return Ok(ExprSimplifyResult::Original(arguments));
        }
        let bound = LockFunction { bound: Some(self.asker()?), ..self.clone() };
        let bound = match self.act {
            Lock(..) => AsyncScalarUDF::new(Arc::new(bound)).into_scalar_udf(),
            _ => ScalarUDF::from(bound),
        };
        Ok(ExprSimplifyResult::Simplified(bound.call(arguments)))
    }

    /// Once for each row, also where all rows name one lock.
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let asker = self.asker()?;
        let answers: ArrayRef = match self.act {
            Try(until, mode) => {
                let taken = keys(&arguments)?.into_iter().map(|key| {
                    key.map(|key| asker.try_lock(until, key, mode)).transpose().map_err(external)
                });
                Arc::new(taken.collect::<PlanResult<BooleanArray>>()?)
            }
            Unlock(mode) => {
                let keys = keys(&arguments)?.into_iter();
                let given_back = keys.map(|key| key.map(|key| asker.unlock(key, mode)));
                Arc::new(given_back.collect::<BooleanArray>())
            }
            UnlockAll => {
                asker.unlock_all();
                nothing((0..arguments.number_rows).map(|_| true))
            }
            Lock(..) => {
                let error = Error::unsupported(format!("{} in this place", self.name));
                return Err(external(error.with_hint("SELECT it in a statement of its own.")));
            }
        };
        Ok(ColumnarValue::Array(answers))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for LockFunction {
    async fn invoke_async_with_args(
        &self,
        arguments: ScalarFunctionArgs,
    ) -> PlanResult<ColumnarValue> {
        let Lock(until, mode) = self.act else { return self.invoke_with_args(arguments) };
        let asker = self.asker()?;
        let keys = keys(&arguments)?;
        for key in keys.iter().flatten() {
            asker.lock(until, *key, mode).await.map_err(external)?;
        }
        Ok(ColumnarValue::Array(nothing(keys.iter().map(Option::is_some))))
    }
}

impl LockFunction {
    /// Whom the call takes locks for.
    fn asker(&self) -> PlanResult<Asker> {
        match &self.bound {
            Some(asker) => Ok(asker.clone()),
            None => {
                let takes = matches!(self.act, Lock(..) | Try(..));
                self.names.asker(takes).map_err(external)
            }
        }
    }
}

fn arguments(act: Act) -> TypeSignature {
    match act {
        UnlockAll => TypeSignature::Nullary,
        _ => TypeSignature::OneOf(vec![
            TypeSignature::Exact(vec![DataType::Int64]),
            TypeSignature::Exact(vec![DataType::Int32, DataType::Int32]),
        ]),
    }
}

/// The locks that the rows name.
fn keys(arguments: &ScalarFunctionArgs) -> PlanResult<Vec<Option<Key>>> {
    let columns = arguments.args.iter().map(|values| values.to_array(arguments.number_rows));
    let columns = columns.collect::<PlanResult<Vec<ArrayRef>>>()?;
    Ok(match columns.as_slice() {
        [numbers] => {
            let numbers = numbers.as_primitive::<Int64Type>().iter();
            numbers.map(|number| number.map(Key::One)).collect()
        }
        [first, second] => {
            let second = second.as_primitive::<Int32Type>().iter();
            let pairs = first.as_primitive::<Int32Type>().iter().zip(second);
            pairs.map(|(first, second)| Some(Key::Two(first?, second?))).collect()
        }
        _ => return plan_err!("a lock has one number or two"),
    })
}

/// PostgreSQL's `void`, or NULL where nothing was done.
fn nothing(done: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(done.map(|done| done.then_some("")).collect::<StringViewArray>())
}
