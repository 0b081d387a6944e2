//! Statements, in the simple and in the extended protocol.

use thalweg_dialect::types::from_field;
use thalweg_formats::postgres::{RowEncoder, Type, ValueFormat, decode, field_of_oid};
use thalweg_query::{Copy, Outcome, Prepared, ScalarValue, TransactionStatus};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::connection::{Client, Trouble};
use super::message::{Bind, Named};
use super::portal::{Portal, Rows};
use super::wire::SEND_BYTES;
use crate::connections::FrontEnd;
use crate::trace::Watch;

/// PostgreSQL's `unknown`, and no type at all: the server finds out.
const NO_TYPES: [u32; 2] = [0, 705];

impl Client {
    /// All statements of a text. Several of them are one transaction, unless they say otherwise.
    pub(super) async fn simple_query(&mut self, sql: &str) -> Result<(), Trouble> {
        self.portals.remove("");
        let statements = self.session.parse(sql)?;
        if statements.is_empty() {
            self.wire.replies.empty_query();
            return Ok(());
        }
        let is_idle = self.session.transaction() == TransactionStatus::Idle;
        let implicit = statements.len() > 1 && is_idle;
        if implicit {
            self.session.begin_implicit();
        }
        for statement in &statements {
            let ran = self.simple_statement(&statement.text).await;
            if let Err(trouble) = ran {
                self.session.end_implicit(false).await?;
                return Err(placed(trouble, sql, statement.offset));
            }
        }
        Ok(self.session.end_implicit(true).await?)
    }

    async fn simple_statement(&mut self, sql: &str) -> Result<(), Trouble> {
        let permit = self.shared.admission.admit().await?;
        let watch = self.watch(sql);
        let outcome = self.wire.while_here(self.session.execute(sql)).await?;
        let sent = match outcome {
            Ok(outcome) => self.send(outcome, &watch).await,
            Err(error) => Err(error.into()),
        };
        drop(permit);
        self.over(watch, sent)
    }

    /// Sends everything that a statement gave, in text.
    async fn send(&mut self, outcome: Outcome, watch: &Watch) -> Result<(), Trouble> {
        self.notices(&outcome);
        match outcome.copy {
            Some(Copy::In(copy)) => return self.copy_in(*copy).await,
            Some(Copy::Out(options)) => {
                let rows = outcome.rows.ok_or_else(|| Error::internal("a copy has no rows"))?;
                return self.copy_out(&outcome.schema, rows, &options, watch).await;
            }
            None => {}
        }
        let Some(stream) = outcome.rows else {
            self.wire.replies.complete(&outcome.tag.to_string());
            return Ok(());
        };
        let formats = vec![ValueFormat::Text; outcome.schema.fields().len()];
        self.wire.replies.row_description(&outcome.schema, &formats);
        let encoder = RowEncoder::new(outcome.schema, formats);
        let mut rows = Rows::new(encoder, stream, outcome.tag);
        self.send_rows(&mut rows, u64::MAX, watch).await?;
        self.wire.replies.complete(&rows.tag());
        Ok(())
    }

    /// A statement begins.
    fn watch(&self, sql: &str) -> Watch {
        self.listed.connection.begin(sql);
        self.shared.observer.begin(FrontEnd::Postgres, &self.user, &sql.into())
    }

    /// A statement is over.
    fn over<T>(&self, watch: Watch, done: Result<T, Trouble>) -> Result<T, Trouble> {
        self.listed.connection.finish(self.session.transaction());
        match &done {
            Ok(_) => watch.end(None),
            Err(Trouble::Error(error)) => watch.end(Some(error)),
            // Dropped, it counts as cancelled.
            Err(Trouble::End(_)) => {}
        }
        done
    }

    fn notices(&mut self, outcome: &Outcome) {
        for notice in &outcome.notices {
            self.wire.replies.notice("NOTICE", notice);
        }
    }

    /// Sends rows, at most so many; whether all of them are sent.
    async fn send_rows(
        &mut self,
        rows: &mut Rows,
        rows_max: u64,
        watch: &Watch,
    ) -> Result<bool, Trouble> {
        let mut left = rows_max;
        loop {
            let more = match self.wire.while_here(rows.fill()).await? {
                Ok(more) => more,
                Err(error) => {
                    self.session.fail();
                    return Err(error.into());
                }
            };
            if !more {
                return Ok(true);
            }
            if left == 0 {
                return Ok(false);
            }
            let bytes = self.wire.replies.bytes.len();
            let written = rows.write(&mut self.wire.replies.bytes, left, SEND_BYTES)?;
            let bytes = self.wire.replies.bytes.len() - bytes;
            watch.sent(written as usize, bytes).inspect_err(|_| self.session.fail())?;
            left -= written;
            self.wire.flush_some().await?;
        }
    }

    pub(super) async fn parse(
        &mut self,
        name: &str,
        sql: &str,
        types: &[u32],
    ) -> Result<(), Trouble> {
        let statements = self.session.parse(sql)?;
        if statements.is_empty() {
            self.empty.insert(name.to_owned());
        } else {
            if statements.len() > 1 {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message).into());
            }
            let declared = types.iter().map(|oid| declared(*oid)).collect::<Result<Vec<_>>>()?;
            let prepared = self.wire.while_here(self.session.prepare(sql, &declared)).await??;
            self.empty.remove(name);
            if name.is_empty() {
                self.session.forget_prepared(name);
            }
            self.session.keep_prepared(name, prepared)?;
        }
        self.wire.replies.parse_complete();
        Ok(())
    }

    /// A prepared statement; `None` for an empty one.
    fn statement(&mut self, name: &str) -> Result<Option<Prepared>> {
        if self.empty.contains(name) {
            return Ok(None);
        }
        self.session.find_prepared(name).map(Some)
    }

    pub(super) fn bind(&mut self, bind: &Bind) -> Result<()> {
        let portal = match self.statement(&bind.statement)? {
            None => Portal::Empty,
            Some(prepared) => bound(prepared, bind)?,
        };
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
                let Some(prepared) = self.statement(name)? else {
                    self.wire.replies.parameter_description(&[]);
                    self.wire.replies.no_data();
                    return Ok(());
                };
                let types: Vec<u32> =
                    prepared.parameters().iter().map(|field| Type::of(field).oid).collect();
                self.wire.replies.parameter_description(&types);
                let columns = prepared.schema().map_or(0, |schema| schema.fields().len());
                self.describe_rows(&prepared, &vec![ValueFormat::Text; columns]);
            }
            Named::Portal(name) => match self.portals.get(name) {
                None => {
                    // A cursor that was declared is a portal too.
                    let schema = self.session.cursor_schema(name);
                    let schema = schema.ok_or_else(|| no_portal(name))?;
                    let formats = vec![ValueFormat::Text; schema.fields().len()];
                    self.wire.replies.row_description(&schema, &formats);
                }
                Some(Portal::Bound { prepared, formats, .. }) => {
                    let (prepared, formats) = (prepared.clone(), formats.clone());
                    self.describe_rows(&prepared, &formats);
                }
                Some(_) => self.wire.replies.no_data(),
            },
        }
        Ok(())
    }

    fn describe_rows(&mut self, prepared: &Prepared, formats: &[ValueFormat]) {
        match prepared.schema() {
            Some(schema) => self.wire.replies.row_description(schema, formats),
            None => self.wire.replies.no_data(),
        }
    }

    pub(super) async fn execute(&mut self, name: &str, rows_max: u32) -> Result<(), Trouble> {
        let rows_max = if rows_max == 0 { u64::MAX } else { u64::from(rows_max) };
        let portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let (mut rows, watch) = match portal {
            Portal::Empty => {
                self.wire.replies.empty_query();
                self.portals.insert(name.to_owned(), Portal::Empty);
                return Ok(());
            }
            Portal::Done => {
                let message = format!("portal \"{name}\" cannot be run anymore");
                return Err(Error::new(SqlState::OBJECT_NOT_IN_STATE, message).into());
            }
            Portal::Open(rows, watch) => (rows, watch),
            Portal::Bound { prepared, values, formats } => {
                self.begin_unless_alone().await?;
                let watch = self.watch(prepared.sql());
                match self.open(&prepared, &values, formats, &watch).await {
                    Ok(Some(rows)) => (Box::new(rows), watch),
                    done => {
                        self.over(watch, done)?;
                        self.portals.insert(name.to_owned(), Portal::Done);
                        return Ok(());
                    }
                }
            }
        };
        match self.send_rows(&mut rows, rows_max, &watch).await {
            Ok(false) => {
                self.wire.replies.portal_suspended();
                self.portals.insert(name.to_owned(), Portal::Open(rows, watch));
                Ok(())
            }
            done => {
                self.over(watch, done)?;
                self.wire.replies.complete(&rows.tag());
                self.portals.insert(name.to_owned(), Portal::Done);
                Ok(())
            }
        }
    }

    /// Statements up to the next `Sync` are one transaction. One that stands alone is its own, so
    /// that it is tried again when it loses against another: what follows it has to be known.
    async fn begin_unless_alone(&mut self) -> Result<(), Trouble> {
        if self.session.transaction() != TransactionStatus::Idle {
            return Ok(());
        }
        // Whoever wants an answer sends `Flush` or `Sync`, so something comes.
        while self.wire.input.is_empty() {
            self.wait_for_more().await.map_err(Trouble::End)?;
        }
        if self.wire.input[0] != b'S' {
            self.session.begin_implicit();
        }
        Ok(())
    }

    /// Runs a bound statement; `None` where it gave no rows and is done.
    async fn open(
        &mut self,
        prepared: &Prepared,
        values: &[ScalarValue],
        formats: Vec<ValueFormat>,
        watch: &Watch,
    ) -> Result<Option<Rows>, Trouble> {
        let _permit = self.shared.admission.admit().await?;
        let running = self.session.execute_prepared(prepared, values);
        let outcome = self.wire.while_here(running).await??;
        if outcome.rows.is_none() || outcome.copy.is_some() {
            Box::pin(self.send(outcome, watch)).await?;
            return Ok(None);
        }
        self.notices(&outcome);
        let stream = outcome.rows.ok_or_else(|| Error::internal("a query has no rows"))?;
        Ok(Some(Rows::new(RowEncoder::new(outcome.schema, formats), stream, outcome.tag)))
    }

    pub(super) fn close(&mut self, what: &Named) {
        match what {
            Named::Statement(name) => {
                self.empty.remove(name);
                self.session.forget_prepared(name);
            }
            Named::Portal(name) => drop(self.portals.remove(name)),
        }
        self.wire.replies.close_complete();
    }
}

/// Moves an error's place from a statement to the text that holds it.
fn placed(trouble: Trouble, sql: &str, offset: usize) -> Trouble {
    match trouble {
        Trouble::Error(error) => {
            let before = sql[..offset].chars().count();
            let position = error.position().map(|position| position + before);
            Trouble::Error(match position {
                Some(position) => error.with_position(position),
                None => error,
            })
        }
        end @ Trouble::End(_) => end,
    }
}

/// The type that a client says a parameter has.
fn declared(oid: u32) -> Result<Option<DataType>> {
    if NO_TYPES.contains(&oid) {
        return Ok(None);
    }
    // A type that is not known here may still be one whose text is understood.
    field_of_oid(oid).map(|field| from_field(&field)).transpose()
}

fn bound(prepared: Prepared, bind: &Bind) -> Result<Portal> {
    let wanted = prepared.parameters().len();
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
    for ((field, format), bytes) in prepared.parameters().iter().zip(formats).zip(&bind.values) {
        let value = decode(field, format, bytes.as_deref())?;
        let value = ScalarValue::try_from_array(&value, 0).map_err(|error| {
            Error::internal("the value of a parameter cannot be read").with_source(error)
        })?;
        values.push(value);
    }
    let columns = prepared.schema().map_or(0, |schema| schema.fields().len());
    let formats = bind.results.of(columns)?;
    Ok(Portal::Bound { prepared, values, formats })
}

fn no_portal(name: &str) -> Error {
    let message = format!("portal \"{name}\" does not exist");
    Error::new(SqlState::INVALID_CURSOR_NAME, message)
}
