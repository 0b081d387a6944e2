//! Cache of fragments that gateways run repeatedly: sent once, then run by number.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::error::Result as PlanResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use thalweg_execution::parameter_values::{ParameterValues, parameter};
use thalweg_protocol::cluster as wire;
use thalweg_query::{ShardPlan, Shards};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::errors::external;

use crate::codec::{self, Reader};
use crate::{operators, rows};

/// Limit of cached fragments. A gateway sends an evicted one again.
const KEPT_MAX: usize = 1_024;
/// Limit of the idle plans of one fragment, which is the number of concurrent runs that reuse a
/// plan.
const IDLE_MAX: usize = 8;

type Plan = Arc<dyn ExecutionPlan>;

/// A fragment without the values that differ from run to run.
pub(super) struct CachedFragment {
    pub(super) fragment: wire::Fragment,
    /// The types that its expressions refer to.
    fields: SchemaRef,
    /// Idle plans, each with its `place_base`: the part of row handles that identifies the worker.
    idle: Mutex<Vec<(u64, ShardPlan)>>,
}

/// A plan that one run uses exclusively. Dropping this returns it.
pub(super) struct BorrowedPlan {
    plan: Option<(u64, ShardPlan)>,
    home: Arc<CachedFragment>,
}

impl Drop for BorrowedPlan {
    fn drop(&mut self) {
        let Some((place_base, plan)) = self.plan.take() else { return };
        plan.forget();
        let mut idle = self.home.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push((place_base, plan));
        }
    }
}

impl CachedFragment {
    /// The plan of a run over the current rows with these parameter values, and the guard that
    /// returns the plan after the run.
    ///
    /// # Errors
    /// If planning fails.
    pub(super) fn plan(
        self: &Arc<CachedFragment>,
        place_base: u64,
        values: &[u8],
        shards: &Shards,
    ) -> PlanResult<(Plan, Option<BorrowedPlan>)> {
        let literals = codec::values(values).map_err(external)?;
        let known = literals.iter().map(|value| value.downcast_ref::<Literal>());
        let values: Option<Vec<ScalarValue>> =
            known.map(|literal| Some(literal?.value().clone())).collect();
        let Some(values) = values.filter(|_| self.fragment.number > 0) else {
            return Ok((self.made(place_base, literals, shards)?, None));
        };
        while let Some(plan) = self.take(place_base) {
            if let Some(run) = shards.rebound(&plan, &values)? {
                return Ok((run, Some(self.lend(place_base, plan))));
            }
        }
        let held = ParameterValues::of(&values);
        let parameters = values.iter().enumerate();
        let parameters =
            parameters.map(|(place, value)| parameter(place + 1, value.data_type(), &held));
        let plan = self.made(place_base, parameters.collect(), shards)?;
        let kept = shards.keep(&plan, &held)?;
        Ok((plan, kept.map(|kept| self.lend(place_base, kept))))
    }

    fn made(
        &self,
        place_base: u64,
        values: Vec<Arc<dyn PhysicalExpr>>,
        shards: &Shards,
    ) -> PlanResult<Plan> {
        let reader = Reader::new(&self.fields, &self.fragment.literals, values);
        operators::of_fragment(&self.fragment, place_base, &reader.map_err(external)?, shards)
    }

    fn take(&self, place_base: u64) -> Option<ShardPlan> {
        let mut idle = self.idle.lock();
        while let Some((base, plan)) = idle.pop() {
            if base == place_base {
                return Some(plan);
            }
        }
        None
    }

    fn lend(self: &Arc<CachedFragment>, place_base: u64, plan: ShardPlan) -> BorrowedPlan {
        BorrowedPlan { plan: Some((place_base, plan)), home: Arc::clone(self) }
    }
}

#[derive(Default)]
pub(super) struct FragmentCache(Mutex<HashMap<u64, Arc<CachedFragment>>>);

impl FragmentCache {
    /// Decodes a received fragment, and caches it if it has a number.
    ///
    /// # Errors
    /// If its types are damaged.
    pub(super) fn take_in(&self, mut fragment: wire::Fragment) -> Result<Arc<CachedFragment>> {
        let (fields, _) = rows::decode(&fragment.fields)?;
        let number = fragment.number;
        fragment.fields = Bytes::new();
        // The bytes may be a slice of a large message, so they are copied.
        fragment.literals = Bytes::copy_from_slice(&fragment.literals);
        let known = Arc::new(CachedFragment { fragment, fields, idle: Mutex::default() });
        if number > 0 {
            let mut kept = self.0.lock();
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(number, Arc::clone(&known));
        }
        Ok(known)
    }

    /// Finds a cached fragment.
    ///
    /// # Errors
    /// If it was never sent, or was evicted.
    pub(super) fn find(&self, number: u64) -> Result<Arc<CachedFragment>> {
        let found = self.0.lock().get(&number).cloned();
        found.ok_or_else(|| Error::new(SqlState::UNKNOWN_FRAGMENT, "no such fragment is kept"))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;

    use super::*;

    fn numbered(number: u64) -> wire::Fragment {
        let fields = rows::encode(&Schema::empty(), &[]).unwrap();
        wire::Fragment { number, table: 7, fields, ..wire::Fragment::default() }
    }

    #[test]
    fn those_with_a_number_are_kept_until_there_are_too_many() {
        let fragments = FragmentCache::default();
        fragments.take_in(numbered(0)).unwrap();
        assert_eq!(fragments.find(0).err().unwrap().state(), SqlState::UNKNOWN_FRAGMENT);
        for number in 1..=KEPT_MAX as u64 {
            fragments.take_in(numbered(number)).unwrap();
        }
        assert_eq!(fragments.find(1).unwrap().fragment.table, 7);
        fragments.take_in(numbered(u64::MAX)).unwrap();
        assert_eq!(fragments.find(1).err().unwrap().state(), SqlState::UNKNOWN_FRAGMENT);
        assert!(fragments.find(u64::MAX).is_ok());
    }

    #[test]
    fn damaged_types_are_refused() {
        let damaged = wire::Fragment { fields: vec![1, 2, 3].into(), ..numbered(5) };
        assert!(FragmentCache::default().take_in(damaged).is_err());
    }
}
