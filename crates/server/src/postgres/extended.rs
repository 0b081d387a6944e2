//! The extended protocol: prepared statements and portals.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use thalweg_execution::row_forms::{RowForm, ValueForms};
use thalweg_formats::postgres::{
    Type, ValueFormat, decode_parameter, field_declared, field_of_oid,
};
use thalweg_formats::text::style::within;
use thalweg_query::{Prepared, ScalarValue, TransactionStatus};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::types::from_field;

use super::connection::{Client, MessageFailure};
use super::execute::Sent;
use super::message::{Bind, Named};
use super::portal::{Counted, Portal, Rows, State};
use super::running_statement::RunningStatement;

/// No type, and PostgreSQL's `unknown`: the server infers the parameter's type.
const NO_TYPES: [u32; 2] = [0, 705];

impl Client {
    pub(super) async fn parse(
        &mut self,
        name: &str,
        sql: &str,
        types: &[u32],
    ) -> Result<(), MessageFailure> {
        if name.is_empty() {
            // The old unnamed statement is dropped even if the new one is invalid.
            self.session.forget_prepared(name);
        }
        let statements = self.wire.while_here(self.session.split(sql)).await??;
        let prepared = match statements.len() {
            0 => Prepared::empty(),
            1 => self.prepare(sql, types).await?,
            _ => {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message).into());
            }
        };
        self.session.keep_prepared(name, prepared)?;
        self.wire.replies.parse_complete();
        Ok(())
    }

    async fn prepare(&mut self, sql: &str, types: &[u32]) -> Result<Prepared, MessageFailure> {
        let declared = types.iter().map(|oid| declared(*oid)).collect::<Result<Vec<_>>>()?;
        let prepared = self.wire.while_here(self.session.prepare(sql, &declared)).await??;
        prepared.check_taken(self.session.transaction())?;
        let named = named_as_declared(&prepared, types);
        Ok(match named {
            Some(fields) => prepared.with_declared(fields),
            None => prepared,
        })
    }

    pub(super) fn bind(&mut self, bind: &Bind) -> Result<()> {
        let prepared = self.session.find_prepared(&bind.statement)?;
        prepared.check_taken(self.session.transaction())?;
        let style = self.session.style();
        let portal = within(style.as_ref(), || bound(prepared, bind))?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let message = format!("cursor \"{}\" already exists", bind.portal);
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, message));
        }
        self.portals.insert(bind.portal.clone(), portal);
        self.wire.replies.bind_complete();
        Ok(())
    }

    pub(super) fn describe(&mut self, what: &Named) -> Result<()> {
        match what {
            Named::Statement(name) => {
                let prepared = self.session.find_prepared(name)?;
                let columns = prepared.schema().map_or(0, |schema| schema.fields().len());
                self.check_described(&prepared)?;
                let types: Vec<u32> =
                    prepared.declared().iter().map(|field| Type::of(field).oid).collect();
                self.wire.replies.parameter_description(&types);
                self.describe_rows(&prepared, &vec![ValueFormat::Text; columns]);
            }
            Named::Portal(name) => match self.portals.get(name) {
                None => {
                    // A declared cursor is a portal, too.
                    let schema = self.session.cursor_schema(name);
                    let schema = schema.ok_or_else(|| no_portal(name))?;
                    let formats = vec![ValueFormat::Text; schema.fields().len()];
                    self.wire.replies.row_description(&schema, &formats);
                }
                Some(portal) => {
                    let (prepared, formats) = (portal.prepared.clone(), portal.formats.clone());
                    self.check_described(&prepared)?;
                    self.describe_rows(&prepared, &formats);
                }
            },
        }
        Ok(())
    }

    /// Refuses to describe a query in a failed block, since its tables may be gone.
    fn check_described(&self, prepared: &Prepared) -> Result<()> {
        match prepared.schema() {
            Some(_) => prepared.check_taken(self.session.transaction()),
            None => Ok(()),
        }
    }

    fn describe_rows(&mut self, prepared: &Prepared, formats: &[ValueFormat]) {
        match prepared.schema() {
            Some(schema) => self.wire.replies.row_description(schema, formats),
            None => self.wire.replies.no_data(),
        }
    }

    /// Runs a portal or continues it. An error removes the portal.
    pub(super) async fn execute(
        &mut self,
        name: &str,
        rows_max: u64,
    ) -> Result<(), MessageFailure> {
        let Some(mut portal) = self.portals.remove(name) else {
            // A declared cursor is a portal, too.
            return Box::pin(self.execute_declared(name, rows_max)).await;
        };
        let prepared = &portal.prepared;
        portal.state = match portal.state {
            State::Bound(values) if prepared.is_empty() => {
                self.wire.replies.empty_query();
                State::Bound(values)
            }
            State::Done => return Err(cannot_be_run(name).into()),
            State::Fetched(tag) => {
                prepared.check_taken(self.session.transaction())?;
                self.wire.replies.complete(Counted(&tag, 0));
                State::Fetched(tag)
            }
            State::Open(rows, mut work) => {
                prepared.check_taken(self.session.transaction())?;
                self.resume(&mut work, prepared.sql());
                self.fetch(rows, rows_max, work).await?
            }
            State::Bound(values) => {
                prepared.check_taken(self.session.transaction())?;
                self.begin_unless_alone().await?;
                let mut work = Box::new(self.begin(prepared.sql()));
                let form = match rows_max {
                    u64::MAX => data_rows(&portal.formats),
                    // Counted rows must be separable, so they come as batches.
                    _ => RowForm::Batches,
                };
                match self.open(prepared, &values, &portal.formats, form, &mut work).await {
                    Ok(Some(rows)) => self.fetch(Box::new(rows), rows_max, work).await?,
                    done => {
                        self.over(*work, done)?;
                        State::Done
                    }
                }
            }
        };
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    /// Sends the next rows of an open portal.
    async fn fetch(
        &mut self,
        mut rows: Box<Rows>,
        rows_max: u64,
        mut work: Box<RunningStatement>,
    ) -> Result<State, MessageFailure> {
        match self.send_rows(&mut rows, rows_max, &mut work).await {
            Ok(Sent::Enough) => {
                self.suspend(&mut work);
                self.wire.replies.portal_suspended();
                Ok(State::Open(rows, work))
            }
            Ok(Sent::All(count)) => {
                self.over(*work, Ok(()))?;
                self.wire.replies.complete(Counted(&rows.tag, count));
                Ok(State::Fetched(rows.tag))
            }
            Err(trouble) => self.over(*work, Err(trouble)),
        }
    }

    /// Begins an implicit transaction unless `Sync` follows directly. Statements up to the next
    /// `Sync` form one transaction. A single one is its own transaction, which the session retries
    /// after a conflict; so the next message must be known first.
    async fn begin_unless_alone(&mut self) -> Result<(), MessageFailure> {
        if self.session.transaction() != TransactionStatus::Idle {
            return Ok(());
        }
        // A client that expects an answer sends `Flush` or `Sync`, so another message will come.
        while self.wire.input.is_empty() {
            self.wait_for_more().await.map_err(MessageFailure::End)?;
        }
        if self.wire.input[0] != b'S' {
            self.session.begin_implicit();
        }
        Ok(())
    }

    /// Runs a bound statement; `None` if it gave no rows and is complete.
    pub(super) async fn open(
        &mut self,
        prepared: &Prepared,
        values: &[ScalarValue],
        formats: &[ValueFormat],
        form: RowForm,
        work: &mut RunningStatement,
    ) -> Result<Option<Rows>, MessageFailure> {
        self.take_place(work).await?;
        let running = self.session.execute_prepared_as(prepared, values, form);
        let outcome = self.wire.while_here(running).await??;
        if !outcome.gives_rows() || outcome.copy.is_some() {
            Box::pin(self.send(outcome, work)).await?;
            return Ok(None);
        }
        self.notices(&outcome);
        Ok(Rows::of(outcome, formats.to_vec()))
    }

    /// Closes a statement or portal. Portals of a closed statement survive, as in PostgreSQL.
    pub(super) fn close(&mut self, what: &Named) {
        match what {
            Named::Statement(name) => self.session.forget_prepared(name),
            Named::Portal(name) => drop(self.portals.remove(name)),
        }
        self.wire.replies.close_complete();
    }
}

fn data_rows(formats: &Arc<[ValueFormat]>) -> RowForm {
    RowForm::DataRows(ValueForms::Each(Arc::clone(formats)))
}

/// The type that a client declares for a parameter.
fn declared(oid: u32) -> Result<Option<DataType>> {
    if NO_TYPES.contains(&oid) {
        return Ok(None);
    }
    // The server may not know a type but still understand its text format.
    field_of_oid(oid).map(|field| from_field(&field)).transpose()
}

/// The parameters with the type names that the client declared; `None` if these equal the inferred
/// ones.
fn named_as_declared(prepared: &Prepared, types: &[u32]) -> Option<Vec<FieldRef>> {
    let parameters = prepared.parameters();
    let named = |(field, oid): (&FieldRef, &u32)| field_declared(field, *oid);
    let mut fields: Vec<FieldRef> = parameters
        .iter()
        .zip(types)
        .map(|pair| named(pair).unwrap_or_else(|| FieldRef::clone(pair.0)))
        .collect();
    fields.extend_from_slice(&parameters[fields.len()..]);
    (fields != parameters).then_some(fields)
}

fn bound(prepared: Prepared, bind: &Bind) -> Result<Portal> {
    let wanted = prepared.declared().len();
    if bind.values.len() != wanted {
        let given = bind.values.len();
        let message = format!(
            "bind message supplies {given} parameters, but prepared statement \"{}\" requires \
             {wanted}",
            bind.statement
        );
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    let formats = bind.formats.of(wanted)?;
    let mut values = Vec::with_capacity(wanted);
    for ((field, format), bytes) in prepared.declared().iter().zip(formats).zip(&bind.values) {
        let value = decode_parameter(field, format, bytes.as_deref())?;
        let value = ScalarValue::try_from_array(&value, 0).map_err(|error| {
            Error::internal("the value of a parameter cannot be read").with_source(error)
        })?;
        values.push(value);
    }
    let columns = prepared.schema().map_or(0, |schema| schema.fields().len());
    let formats = bind.results.of(columns)?.into();
    Ok(Portal { prepared, formats, state: State::Bound(values) })
}

pub(super) fn no_portal(name: &str) -> Error {
    let message = format!("portal \"{name}\" does not exist");
    Error::new(SqlState::INVALID_CURSOR_NAME, message)
}

pub(super) fn cannot_be_run(name: &str) -> Error {
    let message = format!("portal \"{name}\" cannot be run");
    Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
}
