//! One client's connection, after it was opened.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use thalweg_query::{Session, TransactionStatus};
use thalweg_types::Error;

use super::message::{self, Message, violation};
use super::parameter_status::ReportedSettings;
use super::portal::Portal;
use super::reply::Severity;
use super::wire::Wire;
use crate::connections::Listed;
use crate::metrics::Connected;
use crate::shared::Shared;

/// A connected client with its session.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) wire: Wire,
    pub(super) session: Session,
    pub(super) listed: Listed,
    pub(super) user: Arc<str>,
    pub(super) portals: HashMap<String, Portal>,
    pub(super) reported: ReportedSettings,
    /// True after an error in the extended protocol: all messages up to the next `Sync` are
    /// skipped.
    pub(super) skipping: bool,
    /// Counts the connection until it is dropped.
    pub(super) _connected: Connected,
}

/// The reason why a connection ends.
pub(super) enum End {
    /// The client terminated the connection or vanished.
    Gone,
    /// The error is sent to the client first.
    Reported(Error),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

/// The reason why a message was not answered.
pub(super) enum MessageFailure {
    Error(Error),
    End(End),
}

impl From<Error> for MessageFailure {
    fn from(error: Error) -> MessageFailure {
        MessageFailure::Error(error)
    }
}

impl From<io::Error> for MessageFailure {
    fn from(error: io::Error) -> MessageFailure {
        MessageFailure::End(error.into())
    }
}

impl From<End> for MessageFailure {
    fn from(end: End) -> MessageFailure {
        MessageFailure::End(end)
    }
}

impl Client {
    /// Serves messages until the connection ends.
    pub(super) async fn run(&mut self) {
        loop {
            let done = match self.next_message().await {
                Ok((kind, body)) => self.take(kind, body).await,
                Err(end) => Err(end),
            };
            match done {
                Ok(()) => {}
                Err(End::Gone) => return,
                Err(End::Reported(error)) => return self.send_final_error(&error).await,
            }
        }
    }

    /// The next message of the client. Pending replies are sent before it waits.
    async fn next_message(&mut self) -> Result<(u8, bytes::Bytes), End> {
        self.send_enough().await?;
        loop {
            if let Some(message) = self.split()? {
                return Ok(message);
            }
            self.wait_for_more().await?;
        }
    }

    /// Splits one message off the input if it is complete.
    pub(super) fn split(&mut self) -> Result<Option<(u8, bytes::Bytes)>, End> {
        let limit = self.shared.config.limits.message_bytes;
        message::split(&mut self.wire.input, limit).map_err(End::Reported)
    }

    /// Handles one message.
    async fn take(&mut self, kind: u8, body: bytes::Bytes) -> Result<(), End> {
        if !Message::is_known(kind) {
            return Err(End::Reported(violation(format!("invalid frontend message type {kind}"))));
        }
        if self.skipping && kind != b'S' && kind != b'X' {
            return Ok(());
        }
        let taken = match Message::parse(kind, body) {
            Ok(message) => self.answer(message).await,
            Err(error) => Err(MessageFailure::Error(error)),
        };
        match taken {
            Ok(()) => Ok(()),
            Err(MessageFailure::End(end)) => Err(end),
            Err(MessageFailure::Error(error)) => self.refuse(kind, error).await,
        }
    }

    /// Sends an error to the client. Any error fails an open transaction block.
    async fn refuse(&mut self, kind: u8, error: Error) -> Result<(), End> {
        self.session.fail();
        if self.listed.connection.must_end() {
            return Err(End::Reported(error));
        }
        self.wire.replies.error(&error, Severity::Error);
        self.skipping = Message::is_extended(kind);
        if !self.skipping {
            // The implicit transaction has failed already, so its rollback cannot fail.
            let _ = self.session.end_implicit(false).await;
            self.ready();
        }
        Ok(())
    }

    /// Handles a parsed message. Calls with large futures are boxed, which keeps the future of an
    /// idle connection small; frequent small ones stay unboxed to avoid an allocation each.
    async fn answer(&mut self, message: Message) -> Result<(), MessageFailure> {
        match message {
            Message::Query(sql) => {
                Box::pin(self.simple_query(&sql)).await?;
                self.ready();
                Ok(())
            }
            Message::Parse { name, sql, types } => Box::pin(self.parse(&name, &sql, &types)).await,
            Message::Bind(bind) => self.bind(&bind).map_err(MessageFailure::Error),
            Message::Describe(what) => self.describe(&what).map_err(MessageFailure::Error),
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Message::Close(what) => {
                self.close(&what);
                Ok(())
            }
            Message::Flush => Ok(self.send_all().await?),
            Message::Sync => {
                let failed = std::mem::take(&mut self.skipping);
                self.session.end_implicit(!failed).await?;
                self.ready();
                Ok(())
            }
            Message::Terminate => Err(MessageFailure::End(End::Gone)),
            // The rest of a copy that failed is ignored.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
        }
    }

    /// Adds the messages of other sessions to the replies.
    ///
    /// # Errors
    /// If the session has missed messages.
    pub(super) fn pass_on_notifications(&mut self) -> Result<(), Error> {
        let Some(inbox) = self.session.inbox() else { return Ok(()) };
        let messages = inbox.take()?;
        messages.iter().for_each(|message| self.wire.replies.notification(message));
        Ok(())
    }

    /// Sends `ReadyForQuery`, after the settings that changed.
    fn ready(&mut self) {
        // The value of a setting was checked when `set_config` was called.
        let _ = self.session.finish_statement();
        if self.reported.changes(&self.session, &mut self.wire.replies) {
            self.listed.connection.call(self.reported.application_name());
        }
        let status = self.session.transaction();
        if status == TransactionStatus::Idle {
            self.portals.clear();
            // A session that missed messages ends when it waits for its client.
            let _ = self.pass_on_notifications();
        }
        self.wire.replies.ready(status);
    }
}
