//! Prepared statements: parsed and described once, run with other values each time.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::Expr;
use thalweg_dialect::parse::Parsed;
use thalweg_dialect::types::arrow_field;
use thalweg_types::{DataType, Error, Result, SqlState};

use crate::outcome::Outcome;
use crate::parameters::{bind, literal};
use crate::point::Point;
use crate::statement::Description;

/// A statement with places for values. Clones are cheap.
#[derive(Clone)]
pub struct Prepared {
    inner: Arc<Inner>,
}

struct Inner {
    parsed: Parsed,
    sql: String,
    types: Vec<DataType>,
    parameters: Vec<FieldRef>,
    schema: Option<SchemaRef>,
    point: Option<Point>,
}

impl Prepared {
    pub(crate) fn new(parsed: Parsed, sql: &str, description: Description) -> Prepared {
        let Description { parameters: types, schema } = description;
        let field = |(place, data_type): (usize, &DataType)| -> FieldRef {
            let field: Field = arrow_field(&format!("${}", place + 1), data_type, true);
            Arc::new(field)
        };
        let parameters = types.iter().enumerate().map(field).collect();
        let sql = sql.to_owned();
        let inner = Inner { parsed, sql, types, parameters, schema, point: None };
        Prepared { inner: Arc::new(inner) }
    }

    /// The same, with the way around the planner that it may take.
    pub(crate) fn with_point(self, point: Option<Point>) -> Prepared {
        match Arc::into_inner(self.inner) {
            Some(inner) => Prepared { inner: Arc::new(Inner { point, ..inner }) },
            None => unreachable!("it was made just now, by one owner"),
        }
    }

    pub(crate) fn point(&self) -> Option<&Point> {
        self.inner.point.as_ref()
    }

    #[must_use]
    pub fn sql(&self) -> &str {
        &self.inner.sql
    }

    /// The parameters' types, as Arrow fields that also name what Arrow has no type for.
    #[must_use]
    pub fn parameters(&self) -> &[FieldRef] {
        &self.inner.parameters
    }

    /// The columns of the result; `None` where the statement gives no rows.
    #[must_use]
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.inner.schema.as_ref()
    }

    /// Lets an outcome pass whose columns are those that were described.
    pub(crate) fn check_result(&self, outcome: Outcome) -> Result<Outcome> {
        let same = match &self.inner.schema {
            None => true,
            Some(schema) => {
                let (told, now) = (schema.fields(), outcome.schema.fields());
                let alike = |(told, now): (&FieldRef, &FieldRef)| {
                    told.data_type().equals_datatype(now.data_type()) && told.name() == now.name()
                };
                outcome.rows.is_some() && told.len() == now.len() && told.iter().zip(now).all(alike)
            }
        };
        if same {
            return Ok(outcome);
        }
        let message = "cached plan must not change result type";
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_hint("Prepare the statement again."))
    }

    /// The statement with values in the places of its parameters.
    pub(crate) fn with_values(&self, values: &[ScalarValue]) -> Result<Parsed> {
        self.check_count(values.len())?;
        let literals = self.inner.types.iter().zip(values);
        let literals = literals
            .map(|(data_type, value)| literal(Some(value), data_type).map(Some))
            .collect::<Result<Vec<_>>>()?;
        Ok(self.bound(&literals))
    }

    /// The statement with what `EXECUTE` gives in the places of its parameters.
    pub(crate) fn with_expressions(&self, values: &[Expr]) -> Result<Parsed> {
        self.check_count(values.len())?;
        let mut casts = Vec::with_capacity(values.len());
        for (data_type, value) in self.inner.types.iter().zip(values) {
            let mut cast = literal(None, data_type)?;
            if let Expr::Cast { expr, .. } = &mut cast {
                **expr = value.clone();
            }
            casts.push(Some(cast));
        }
        Ok(self.bound(&casts))
    }

    fn bound(&self, values: &[Option<Expr>]) -> Parsed {
        let mut parsed = self.inner.parsed.clone();
        bind(&mut parsed.statement, values);
        parsed
    }

    fn check_count(&self, given: usize) -> Result<()> {
        let wanted = self.inner.types.len();
        if given == wanted {
            return Ok(());
        }
        let message = format!(
            "bind message supplies {given} parameters, but prepared statement requires {wanted}"
        );
        Err(Error::new(SqlState::PROTOCOL_VIOLATION, message))
    }
}

/// The prepared statements that a session has given names.
#[derive(Default)]
pub(crate) struct PreparedStatements {
    named: HashMap<String, Prepared>,
}

impl PreparedStatements {
    pub(crate) fn find(&self, name: &str) -> Result<&Prepared> {
        self.named.get(name).ok_or_else(|| unknown(name))
    }

    pub(crate) fn check_free(&self, name: &str) -> Result<()> {
        if !self.named.contains_key(name) {
            return Ok(());
        }
        let message = format!("prepared statement \"{name}\" already exists");
        Err(Error::new(SqlState::DUPLICATE_STATEMENT, message))
    }

    pub(crate) fn keep(&mut self, name: String, prepared: Prepared) {
        self.named.insert(name, prepared);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<()> {
        self.named.remove(name).map(drop).ok_or_else(|| unknown(name))
    }

    pub(crate) fn clear(&mut self) {
        self.named.clear();
    }
}

fn unknown(name: &str) -> Error {
    let message = format!("prepared statement \"{name}\" does not exist");
    Error::new(SqlState::INVALID_STATEMENT_NAME, message)
}
