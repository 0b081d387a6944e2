//! Prepared statements: parsed and described once, run with different values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::Expr;
use thalweg_dialect::parse::Parsed;
use thalweg_execution::executor::Executor;
use thalweg_formats::text::style::SessionStyle;
use thalweg_txn::RoleId;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::statement_control::StatementMemory;

use crate::numeric_parameters::{self, field_of_value};
use crate::outcome::Outcome;
use crate::parameters::{self, bind, literal};
use crate::point::Point;
use crate::session::{TransactionStatus, in_failed_block};
use crate::statement::{self, Description, Settings};

/// The most that the named prepared statements of a session take together, in bytes.
const SESSION_BYTES_MAX: usize = 64 << 20;

/// About the size of a short prepared statement beside its tree and text, in bytes.
const STATEMENT_BYTES: usize = 2 << 10;

/// A statement with parameters. Clones are cheap.
#[derive(Clone)]
pub struct Prepared {
    inner: Arc<Inner>,
}

#[derive(Clone, Default)]
struct Inner {
    /// `None` for an empty text.
    parsed: Option<Parsed>,
    sql: Arc<str>,
    parameters: Vec<FieldRef>,
    declared: Option<Vec<FieldRef>>,
    schema: Option<SchemaRef>,
    point: Option<Arc<Point>>,
    /// The session state on which the names of the point statement depend.
    resolution: Resolution,
    /// About the bytes that the statement takes, and the memory of the process that they are.
    bytes: usize,
    _memory: Option<Arc<StatementMemory>>,
}

/// The session state on which the meaning of unqualified names depends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// The setting `search_path`; `None` for the initial one.
    pub(crate) search_path: Option<Arc<str>>,
    /// The current role, whose namespace may be on the path.
    pub(crate) role: Option<RoleId>,
    /// The style in which constants were read.
    pub(crate) style: Option<Arc<SessionStyle>>,
}

impl Prepared {
    pub(crate) fn new(parsed: Parsed, sql: &str, description: Description) -> Prepared {
        let Description { parameters, schema } = description;
        let field = |(place, field): (usize, Field)| -> FieldRef {
            Arc::new(field.with_name(format!("${}", place + 1)))
        };
        let parameters = parameters.into_iter().enumerate().map(field).collect();
        let (parsed, sql) = (Some(parsed), sql.into());
        let inner = Inner { parsed, sql, parameters, schema, ..Inner::default() };
        Prepared { inner: Arc::new(inner) }
    }

    /// Counts the statement, whose tree has so many bytes, as memory of the process.
    ///
    /// # Errors
    /// 53200 if the process has too little memory.
    pub(crate) fn held_by(self, executor: &Executor, tree_bytes: usize) -> Result<Prepared> {
        let bytes = tree_bytes + self.inner.sql.len() + STATEMENT_BYTES;
        let _memory = Some(Arc::new(executor.hold(bytes)?));
        let inner = Arc::unwrap_or_clone(self.inner);
        Ok(Prepared { inner: Arc::new(Inner { bytes, _memory, ..inner }) })
    }

    /// An empty text, which may be prepared too.
    #[must_use]
    pub fn empty() -> Prepared {
        Prepared { inner: Arc::default() }
    }

    /// True if the text holds no statement, only blanks and comments.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.parsed.is_none()
    }

    /// Checks that a session in this state accepts the statement.
    ///
    /// # Errors
    /// If the session's transaction block has failed and the statement does not end it.
    pub fn check_taken(&self, status: TransactionStatus) -> Result<()> {
        let ends_block = self.inner.parsed.as_ref().is_some_and(statement::ends_block);
        match status == TransactionStatus::Failed && !ends_block {
            true => Err(in_failed_block()),
            false => Ok(()),
        }
    }

    /// Sets the parameter types that the client declared. They may be more specific than those of
    /// [`Prepared::parameters`], but must agree with them.
    #[must_use]
    pub fn with_declared(self, declared: Vec<FieldRef>) -> Prepared {
        let inner = Arc::unwrap_or_clone(self.inner);
        Prepared { inner: Arc::new(Inner { declared: Some(declared), ..inner }) }
    }

    /// The parameters as the client declared them, otherwise [`Prepared::parameters`].
    #[must_use]
    pub fn declared(&self) -> &[FieldRef] {
        self.inner.declared.as_deref().unwrap_or(&self.inner.parameters)
    }

    /// Sets the point statement, if the statement is one.
    pub(crate) fn with_point(self, point: Option<Point>, resolution: Resolution) -> Prepared {
        let (point, inner) = (point.map(Arc::new), Arc::unwrap_or_clone(self.inner));
        Prepared { inner: Arc::new(Inner { point, resolution, ..inner }) }
    }

    /// The point statement, if its names still mean what they meant when it was prepared.
    pub(crate) fn point_for(&self, settings: &Settings) -> Option<&Point> {
        let Resolution { search_path, role, style } = &self.inner.resolution;
        let is_same = search_path.as_ref() == settings.search_path()
            && *role == Some(settings.identity.current)
            && style.as_ref() == settings.style();
        self.inner.point.as_deref().filter(|_| is_same)
    }

    #[cfg(test)]
    pub(crate) fn point(&self) -> Option<&Point> {
        self.inner.point.as_deref()
    }

    /// The statement's syntax tree, with its parameters.
    pub(crate) fn tree(&self) -> Option<&Tree> {
        self.inner.parsed.as_ref().map(|parsed| &parsed.statement)
    }

    /// The statement's text as the client sent it.
    #[must_use]
    pub fn sql(&self) -> &Arc<str> {
        &self.inner.sql
    }

    /// The parameters' types, as Arrow fields. Their metadata names types that Arrow does not have.
    #[must_use]
    pub fn parameters(&self) -> &[FieldRef] {
        &self.inner.parameters
    }

    /// The columns of the result; `None` if the statement returns no rows.
    #[must_use]
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.inner.schema.as_ref()
    }

    /// Checks that an outcome has the columns that were described.
    pub(crate) fn check_result(&self, outcome: Outcome) -> Result<Outcome> {
        let same = match &self.inner.schema {
            None => true,
            Some(schema) => {
                let (described, now) = (schema.fields(), outcome.schema.fields());
                let has_numerics = numeric_parameters::any(&self.inner.parameters);
                let is_alike = |described: &ArrowType, now: &ArrowType| match has_numerics {
                    true => numeric_parameters::is_alike(described, now),
                    false => described.equals_datatype(now),
                };
                let alike = |(described, now): (&FieldRef, &FieldRef)| {
                    is_alike(described.data_type(), now.data_type())
                        && described.name() == now.name()
                };
                outcome.gives_rows()
                    && described.len() == now.len()
                    && described.iter().zip(now).all(alike)
            }
        };
        if same {
            return Ok(outcome);
        }
        let message = "cached plan must not change result type";
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
            .with_hint("Prepare the statement again."))
    }

    /// The statement with values in place of its parameters.
    pub(crate) fn with_values(&self, values: &[ScalarValue]) -> Result<Parsed> {
        self.check_count(values.len())?;
        let literals = self.inner.parameters.iter().zip(values);
        let literals = literals
            .map(|(field, value)| literal(Some(value), &field_of_value(field, value)).map(Some))
            .collect::<Result<Vec<_>>>()?;
        self.bound(&literals)
    }

    /// The statement with the arguments of `EXECUTE` in place of its parameters.
    pub(crate) fn with_expressions(&self, values: &[Expr]) -> Result<Parsed> {
        self.check_count(values.len())?;
        let mut casts = Vec::with_capacity(values.len());
        for (field, value) in self.inner.parameters.iter().zip(values) {
            let mut cast = parameters::cast_to(field)?;
            if let Expr::Cast { expr, .. } = &mut cast {
                **expr = value.clone();
            }
            casts.push(Some(cast));
        }
        self.bound(&casts)
    }

    fn bound(&self, values: &[Option<Expr>]) -> Result<Parsed> {
        let parsed = self.inner.parsed.clone();
        let mut parsed =
            parsed.ok_or_else(|| Error::unsupported("EXECUTE of an empty statement"))?;
        bind(&mut parsed.statement, values);
        Ok(parsed)
    }

    fn check_count(&self, given: usize) -> Result<()> {
        let wanted = self.inner.parameters.len();
        if given == wanted {
            return Ok(());
        }
        let message = format!(
            "bind message supplies {given} parameters, but prepared statement requires {wanted}"
        );
        Err(Error::new(SqlState::PROTOCOL_VIOLATION, message))
    }
}

/// The named prepared statements of a session.
#[derive(Default)]
pub(crate) struct PreparedStatements {
    named: HashMap<String, Prepared>,
    /// Bytes of all of them.
    bytes: usize,
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

    /// # Errors
    /// 53200 if the session's statements are too large together.
    pub(crate) fn keep(&mut self, name: String, prepared: Prepared) -> Result<()> {
        let bytes = self.bytes + prepared.inner.bytes;
        if bytes > SESSION_BYTES_MAX {
            let limit = SESSION_BYTES_MAX >> 20;
            let message = format!("prepared statements of a session may take {limit} MiB together");
            return Err(Error::new(SqlState::OUT_OF_MEMORY, message)
                .with_hint("DEALLOCATE some of them, or send large values as parameters."));
        }
        self.bytes = bytes;
        if let Some(before) = self.named.insert(name, prepared) {
            self.bytes -= before.inner.bytes;
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<()> {
        let removed = self.named.remove(name).ok_or_else(|| unknown(name))?;
        self.bytes -= removed.inner.bytes;
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        *self = PreparedStatements::default();
    }
}

fn unknown(name: &str) -> Error {
    let message = format!("prepared statement \"{name}\" does not exist");
    Error::new(SqlState::INVALID_STATEMENT_NAME, message)
}
