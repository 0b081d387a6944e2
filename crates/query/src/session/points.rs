//! Statements about the row of one key, which run without a planner.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use thalweg_execution::panics::caught_at_once;
use thalweg_txn::Transaction;
use thalweg_types::{Result, SqlState};

use super::{RETRIES_MAX, Session};
use crate::outcome::Outcome;
use crate::point::Point;
use crate::prepared::Prepared;
use crate::workers::AtomicScope;

impl Session {
    /// The rows of a prepared query for few rows that this database holds, without a wait. `None`
    /// if another route must run it.
    pub(super) fn look_up(
        &mut self,
        prepared: &Prepared,
        point: &Point,
        values: &[ScalarValue],
    ) -> Option<Result<Outcome>> {
        let looked = caught_at_once(|| match self.block {
            Some(_) => self.point_in_block(prepared, point, values),
            None => self.point_alone(prepared, point, values).map(|ran| ran.map(|(rows, _)| rows)),
        });
        looked.transpose()
    }

    /// The point statement of a prepared one, if it holds on the session's search path.
    pub(super) fn point_of<'p>(&self, prepared: &'p Prepared) -> Option<&'p Point> {
        prepared.point_for(&self.settings)
    }

    /// The row of a prepared query for one row that a worker holds. `None` if another route must
    /// run it.
    pub(super) async fn ask_for_row(
        &mut self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        if !self.database.shared.cluster().is_present() {
            return Ok(None);
        }
        let Some(point) = self.point_of(prepared) else { return Ok(None) };
        let Some(transaction) = self.visibility() else { return Ok(None) };
        // The transaction's own changes to rows and tables need a plan.
        let catalog = transaction.catalog();
        let is_permitted = point.is_permitted(catalog, self.settings.identity.current);
        if !transaction.is_empty() || !is_permitted || !point.is_about(catalog) {
            return Ok(None);
        }
        let Some(search) = point.search(prepared.parameters(), values)? else { return Ok(None) };
        if let Some(block) = &mut self.block {
            block.look();
        }
        let lookups = Arc::clone(&self.database.shared.cluster().lookups);
        let found = self.cancels.run(lookups.find(search)).await?.all()?;
        // Workers follow the definitions of this node: if the table is unchanged here, it was
        // unchanged there.
        let snapshot = self.snapshot();
        match point.is_about(snapshot.catalog()) {
            true => point.outcome_of_values(&found.values).map(Some),
            false => Ok(None),
        }
    }

    /// Runs a statement that writes a row; `None` if another route must run it.
    pub(super) async fn run_point(
        &mut self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        let Some(point) = self.point_of(prepared) else { return Ok(None) };
        // The general route reports the error.
        if self.settings.modes().read_only {
            return Ok(None);
        }
        if self.is_read_committed() {
            return self.point_read_committed(prepared, point, values).await;
        }
        if self.block.is_some() {
            return self.point_in_block(prepared, point, values);
        }
        for _ in 0..RETRIES_MAX {
            let Some((outcome, transaction)) = self.point_alone(prepared, point, values)? else {
                return Ok(None);
            };
            match self.commit(transaction, None, AtomicScope::EachWorker).await {
                Ok(()) => return Ok(Some(outcome)),
                // Another transaction was first: this one reads the row again.
                Err(error) if error.state() == SqlState::SERIALIZATION_FAILURE => {}
                Err(error) if error.state() == SqlState::UNIQUE_VIOLATION => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    pub(super) fn point_in_block(
        &mut self,
        prepared: &Prepared,
        point: &Point,
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        self.refresh()?;
        let Some(block) = &mut self.block else { return Ok(None) };
        block.look();
        block.has_upserts |= point.is_upsert();
        let Some(transaction) = &mut block.transaction else { return Ok(None) };
        if !point.is_permitted(transaction.catalog(), self.settings.identity.current) {
            return Ok(None);
        }
        let refers = point.writes() && transaction.catalog().has_foreign_keys();
        let before = refers.then(|| transaction.savepoint());
        let ran = point.run(transaction, prepared.parameters(), values)?;
        if let Some(before) = before {
            transaction.check_new_references(Some(&before))?;
        }
        Ok(ran)
    }

    /// Like [`run_point`](Self::run_point), as a transaction of its own. If it writes, the caller
    /// must still commit it.
    fn point_alone(
        &self,
        prepared: &Prepared,
        point: &Point,
        values: &[ScalarValue],
    ) -> Result<Option<(Outcome, Transaction)>> {
        let mut transaction = Transaction::new(self.snapshot());
        if !point.is_permitted(transaction.catalog(), self.settings.identity.current) {
            return Ok(None);
        }
        let outcome = point.run(&mut transaction, prepared.parameters(), values)?;
        Ok(outcome.map(|outcome| (outcome, transaction)))
    }
}
