//! Queries that run by a plan from the plan cache.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::ScalarValue;
use futures::{StreamExt, TryStreamExt};
use thalweg_execution::fused::Answer;
use thalweg_txn::Transaction;
use thalweg_types::Result;
use thalweg_values::errors::from_datafusion;

use super::planned::Work;
use super::{Route, Session};
use crate::numeric_parameters;
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::plan_cache::{CachedStatement, GenericPlan, Key, ReturningPlan, Run};
use crate::prepared::Prepared;

/// A query that may have a cached plan.
struct Query<'a> {
    sql: &'a Arc<str>,
    /// `None` if the text was not parsed yet.
    prepared: Option<&'a Prepared>,
    parameters: &'a [FieldRef],
    /// The columns that were described to its client.
    described: Option<&'a SchemaRef>,
}

impl Session {
    /// Runs a prepared query; `None` if another route must run it.
    pub(super) async fn run_prepared_query(
        &mut self,
        prepared: &Prepared,
        values: &[ScalarValue],
    ) -> Result<Option<(Route, Outcome)>> {
        let sql = prepared.sql();
        let parameters = &*numeric_parameters::fields_of_values(prepared.parameters(), values);
        let Some(key) = self.key(sql, parameters).filter(|_| parameters.len() == values.len())
        else {
            return Ok(None);
        };
        let cached = self.database.shared.plans.keep(key);
        let described = prepared.schema();
        let query = Query { sql, prepared: Some(prepared), parameters, described };
        self.run_kept(&query, &cached, values).await
    }

    /// Runs a text that was run before; `None` if another route must run it.
    pub(super) async fn run_again(&mut self, sql: &str) -> Result<Option<(Route, Outcome)>> {
        let plans = &self.database.shared.plans;
        if !plans.may_know(sql) {
            return Ok(None);
        }
        let sql: Arc<str> = sql.into();
        let Some(cached) = self.key(&sql, &[]).and_then(|key| plans.find(&key)) else {
            return Ok(None);
        };
        let query = Query { sql: &sql, prepared: None, parameters: &[], described: None };
        self.run_kept(&query, &cached, &[]).await
    }

    /// Records that a query came as a text. If it comes again, it gets a cached plan.
    pub(super) fn note(&self, sql: &str) {
        let plans = &self.database.shared.plans;
        if plans.may_know(sql) {
            if let Some(key) = self.key(&sql.into(), &[]) {
                plans.keep(key);
            }
        } else {
            plans.note(sql);
        }
    }

    /// `None` if the session's queries get no cached plans: those are shared with sessions that
    /// have other registered tables.
    pub(super) fn key(&self, sql: &Arc<str>, parameters: &[FieldRef]) -> Option<Key> {
        if !self.registered.is_empty() {
            return None;
        }
        let (settings, role) = (&self.settings, self.settings.identity.current);
        let (path, temporary) = (settings.search_path(), self.temporary.namespace());
        Key::new(sql, parameters, role, path, temporary, settings.style())
    }

    async fn run_kept(
        &mut self,
        query: &Query<'_>,
        cached: &Arc<CachedStatement>,
        values: &[ScalarValue],
    ) -> Result<Option<(Route, Outcome)>> {
        // NULL takes part in planning: a comparison with it is never true.
        let own = self.settings.query_memory().is_some();
        if own || values.iter().any(ScalarValue::is_null) {
            return Ok(None);
        }
        let Some((plan, run)) = self.plan_to_run(query, cached, values).await? else {
            return Ok(None);
        };
        if let Some(block) = &mut self.block {
            block.look();
        }
        let schema = Arc::clone(plan.schema());
        if let Some(direct) = &run.direct {
            let runtime = self.database.shared.planners.runtime();
            let answer = async {
                let answer = direct.answer(&schema, runtime).await;
                answer.map_err(|error| from_datafusion(error, query.sql))
            };
            if let Some(answer) = self.cancels.run(answer).await? {
                cached.give_back(plan);
                return Ok(Some(match answer {
                    Answer::Whole(batches) => {
                        (Route::DirectAggregate, Outcome::batches(schema, batches, Tag::Select))
                    }
                    Answer::Parts(parts) => {
                        let sql = Arc::clone(query.sql);
                        let parts = parts.map_err(move |error| from_datafusion(error, &sql));
                        let outcome = Outcome::rows(schema, Box::pin(parts), Tag::Select);
                        (Route::CachedPlan, outcome)
                    }
                }));
            }
        }
        if let Some(rows) = plan.scans().encoded(&run.plan, &schema, &self.form)? {
            cached.give_back(plan);
            let outcome = Outcome::encoded(schema, rows, Tag::Select);
            return Ok(Some((Route::CachedPlan, outcome)));
        }
        let (sql, output) = (Arc::clone(query.sql), Arc::clone(&schema));
        let rows = plan.start(run).map(move |batch| {
            let batch = batch.and_then(|batch| plan::shown(&batch, &output));
            batch.map_err(|error| from_datafusion(error, &sql))
        });
        let rows = ReturningPlan::new(Box::pin(rows), plan, Arc::clone(cached));
        Ok(Some((Route::CachedPlan, Outcome::rows(schema, Box::pin(rows), Tag::Select))))
    }

    /// A cached plan, or a new one, with its rows; `None` if the query cannot have one.
    async fn plan_to_run(
        &mut self,
        query: &Query<'_>,
        cached: &Arc<CachedStatement>,
        values: &[ScalarValue],
    ) -> Result<Option<(GenericPlan, Run)>> {
        self.refresh()?;
        let Some(mut transaction) = self.visibility() else { return Ok(None) };
        let catalog = Arc::clone(transaction.catalog());
        let own = !Arc::ptr_eq(&catalog, transaction.snapshot().catalog());
        // Plans over workers contain the transaction's own changes to their rows.
        let adds = self.database.shared.cluster().is_present() && !transaction.is_empty();
        if own || adds || cached.is_refused(&catalog) {
            return Ok(None);
        }
        let gathering = self.settings.gathering;
        while let Some(plan) = cached.take(&catalog) {
            // If a table has outgrown its plan, a new one is made.
            if let Ok(Some(run)) = plan.bind(&mut transaction, values, gathering) {
                self.database.shared.plans.note_run();
                return Ok(Some((plan, run)));
            }
        }
        let work = self.planning_of(query, values).await?;
        let (plan, mut transaction) =
            Box::pin(self.with_planner(transaction, query.sql, work)).await?;
        let plan = plan.filter(|plan| {
            let now = plan.schema().fields();
            query.described.is_none_or(|described| {
                match numeric_parameters::any(query.parameters) {
                    true => numeric_parameters::are_alike(described.fields(), now),
                    false => described.fields() == now,
                }
            })
        });
        let run = plan.map(|plan| (plan.bind(&mut transaction, values, gathering), plan));
        self.database.shared.plans.note_made(matches!(run, Some((Ok(Some(_)), _))));
        let Some((Ok(Some(run)), plan)) = run else {
            cached.refuse(&catalog);
            return Ok(None);
        };
        Ok(Some((plan, run)))
    }

    /// Makes a plan that other runs can share; `None` if the query cannot have one.
    async fn planning_of(
        &mut self,
        query: &Query<'_>,
        values: &[ScalarValue],
    ) -> Result<Work<Option<GenericPlan>>> {
        let prepared = query.prepared.cloned();
        let parsed = match prepared {
            Some(_) => None,
            None => Some(self.parsed(query.sql).await?),
        };
        let (parameters, values) = (query.parameters.to_vec(), values.to_vec());
        Ok(Box::new(move |execution| {
            Box::pin(async move {
                let parsed = parsed.as_ref().map(|parsed| &parsed.statement);
                let tree = prepared.as_ref().and_then(Prepared::tree).or(parsed);
                let Some(tree) = tree else { return Ok(None) };
                Ok(GenericPlan::of(execution, tree, &parameters, &values).await)
            })
        }))
    }

    /// The transaction that a query of the session reads; `None` in a block that has failed.
    pub(super) fn visibility(&mut self) -> Option<Transaction> {
        match &mut self.block {
            Some(block) => Some(block.transaction.as_mut()?.share()),
            None => Some(Transaction::new(self.snapshot())),
        }
    }
}
