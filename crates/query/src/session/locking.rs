//! Statements about advisory locks. The session executes them itself, so that no plan and no thread
//! waits for a lock. Admission control lets these statements in without a slot
//! ([`crate::takes_locks`]).

use thalweg_dialect::parse::Parsed;
use thalweg_txn::Transaction;
use thalweg_types::Result;

use super::Session;
use super::blocks::in_failed_block;
use super::planned::Work;
use crate::locks;
use crate::outcome::Outcome;

impl Session {
    pub(super) async fn run_locks(&mut self, parsed: Parsed, sql: &str) -> Result<Outcome> {
        let transaction = match &mut self.block {
            Some(block) => block.transaction.take().ok_or_else(in_failed_block)?,
            None => Transaction::new(self.snapshot()),
        };
        let work: Work<_> = Box::new(move |execution| {
            Box::pin(async move { locks::read(execution, &parsed.statement).await })
        });
        let (wanted, transaction) = self.with_planner(transaction, sql, work).await?;
        if wanted.takes() {
            self.database.shared.cluster().definitions.may_lock()?;
        }
        // Outside of a block, the statement is a transaction of its own.
        let own = self.block.is_none().then(|| self.locks.begin());
        let timeout = self.settings.time("lock_timeout");
        let outcome = self.cancels.run(self.locks.run(wanted, timeout)).await?;
        drop(own);
        let now = self.snapshot();
        if let Some(block) = &mut self.block {
            block.transaction = Some(transaction);
            block.catch_up(Transaction::new(now));
        }
        Ok(outcome)
    }
}
