//! Texts that share a prepared statement with those that differ in their literals.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::ScalarValue;
use thalweg_dialect::parse::parse;
use thalweg_txn::Catalog;
use thalweg_types::{Result, SqlState};
use thalweg_values::sql_text::SourcePositions;

use super::{Session, Statement};
use crate::ad_hoc::{Known, Parameter, Place, Shape, places, suits, value};
use crate::outcome::Outcome;
use crate::plan_cache::Key;
use crate::prepared::Prepared;

/// Errors that a statement has for other reasons than its text.
const PASSING: [SqlState; 3] =
    [SqlState::QUERY_CANCELED, SqlState::OUT_OF_MEMORY, SqlState::SHUTTING_DOWN];

impl Session {
    /// Runs a text that shares a prepared statement; `None` if it goes the ordinary way.
    pub(super) async fn run_shared(&mut self, sql: &str) -> Result<Option<Outcome>> {
        let Some((shape, key, catalog)) = self.shareable(sql) else { return Ok(None) };
        let (prepared, parameters) =
            match self.database.shared.ad_hoc.look_up(&key, &shape, &catalog) {
                Known::Shared(prepared, parameters) => (prepared, parameters),
                Known::Alone => return Ok(None),
                Known::Again => {
                    let _timer = self.statement_timer();
                    let shared = self.share(sql, &shape).await?;
                    let ad_hoc = &self.database.shared.ad_hoc;
                    let Some((prepared, parameters)) = shared else {
                        ad_hoc.refuse(key, &catalog);
                        return Ok(None);
                    };
                    ad_hoc.keep(key, &shape, &catalog, &prepared, &parameters);
                    (prepared, parameters)
                }
            };
        let Some(values) = values(&shape, &parameters, prepared.parameters()) else {
            return Ok(None);
        };
        let outcome = match self.run_at_once(&prepared, &values) {
            Ok(outcome) => outcome,
            Err(route) => Box::pin(self.run_prepared(&prepared, &values, route)).await,
        };
        match outcome.and_then(|outcome| prepared.check_result(outcome)) {
            // A definition that changed meanwhile, which the ordinary way sees.
            Err(_) if self.block.is_none() && !self.is_current(&catalog) => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// True if a text is one statement that is shared, so that it needs no parser.
    pub(super) fn statement_of_shared(&self, sql: &str) -> Option<Statement> {
        let (shape, key, catalog) = self.shareable(sql)?;
        self.database.shared.ad_hoc.has(&key, &shape, &catalog).then(|| Statement {
            text: sql[shape.place.clone()].to_owned(),
            offset: shape.place.start,
        })
    }

    /// The shape of a text with literals, its key among shared statements, and the definitions that
    /// it sees. `None` if it cannot be shared: in a block that changed definitions, say.
    fn shareable(&self, sql: &str) -> Option<(Shape, Key, Arc<Catalog>)> {
        let shape = Shape::of(sql).filter(|shape| !shape.literals.is_empty())?;
        let key = self.key(&shape.text.as_str().into(), &[])?;
        let catalog = match &self.block {
            Some(block) => Arc::clone(block.transaction.as_ref()?.catalog()),
            None => Arc::clone(self.snapshot().catalog()),
        };
        self.is_current(&catalog).then_some((shape, key, catalog))
    }

    fn is_current(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(catalog, self.snapshot().catalog())
    }

    /// Prepares the statement of a shape; `None` if it cannot be shared.
    ///
    /// # Errors
    /// A cancel, too little memory, or the end of the server; other errors refuse the statement.
    async fn share(
        &mut self,
        sql: &str,
        shape: &Shape,
    ) -> Result<Option<(Prepared, Arc<[Parameter]>)>> {
        let mut parameters = parameters(sql, shape);
        // The parameters' types become known when the statement is prepared. Literals that mean
        // something else as a value of their type stay literals.
        for _ in 0..2 {
            if parameters.is_empty() {
                break;
            }
            let text = shape.with_parameters(sql, &parameters);
            let Some(prepared) = self.prepared_for_all(&text).await? else { break };
            let fields = prepared.parameters().iter();
            let fits = |(parameter, field): &(&Parameter, &FieldRef)| {
                suits(&shape.literals[parameter.literal].value, parameter, field)
            };
            let fitting: Vec<Parameter> = parameters
                .iter()
                .zip(fields)
                .filter(fits)
                .map(|(parameter, _)| *parameter)
                .collect();
            if fitting.len() == parameters.len() {
                return Ok(Some((prepared, parameters.into())));
            }
            parameters = fitting;
        }
        Ok(None)
    }

    /// The prepared statement of a text; `None` if it has an error, which the ordinary way reports.
    async fn prepared_for_all(&mut self, text: &str) -> Result<Option<Prepared>> {
        let prepared = async {
            let parsed = self.parsed(text).await?;
            self.describe(parsed, text, &[]).await
        };
        match prepared.await {
            Err(error) if PASSING.contains(&error.state()) => Err(error),
            prepared => Ok(prepared.ok()),
        }
    }
}

/// The literals of a text that may become parameters.
fn parameters(sql: &str, shape: &Shape) -> Vec<Parameter> {
    // The blanks around it may be long.
    let statement = &sql[shape.place.clone()];
    let parsed = parse(statement).unwrap_or_default();
    let [parsed] = parsed.as_slice() else { return Vec::new() };
    let mut positions = SourcePositions::new(statement);
    let parameter = |Place { start, is_negated, is_operand }| {
        let offset = shape.place.start + positions.offset(start);
        let literal = shape.literals.iter().position(|literal| literal.place.start == offset);
        literal.map(|literal| Parameter { literal, is_negated, is_operand })
    };
    places(&parsed.statement).into_iter().filter_map(parameter).collect()
}

fn values(
    shape: &Shape,
    parameters: &[Parameter],
    fields: &[FieldRef],
) -> Option<Vec<ScalarValue>> {
    let pairs = parameters.iter().zip(fields);
    pairs.map(|(parameter, field)| value(shape, parameter, field)).collect()
}
