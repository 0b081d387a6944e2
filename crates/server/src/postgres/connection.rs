//! One client's connection: from its first byte to its last.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use thalweg_query::{Session, TransactionStatus};
use thalweg_types::Error;

use super::message::{self, Message, violation};
use super::portal::Portal;
use super::reply::Severity;
use super::told::Told;
use super::wire::Wire;
use crate::connections::Listed;
use crate::metrics::Connected;
use crate::shared::Shared;

/// What a connected client has.
pub(super) struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) wire: Wire,
    pub(super) session: Session,
    pub(super) listed: Listed,
    pub(super) user: Arc<str>,
    pub(super) portals: HashMap<String, Portal>,
    pub(super) told: Told,
    /// After an error in the extended protocol: everything up to the next `Sync` is skipped.
    pub(super) skipping: bool,
    /// Counts the connection while it is there.
    pub(super) _connected: Connected,
}

/// How a connection ends where it does not go on.
pub(super) enum End {
    /// The client goes, or is gone.
    Gone,
    /// The client is told why.
    Told(Error),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Gone
    }
}

/// Why a message was not answered.
pub(super) enum Trouble {
    Error(Error),
    End(End),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Error(error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::End(error.into())
    }
}

impl From<End> for Trouble {
    fn from(end: End) -> Trouble {
        Trouble::End(end)
    }
}

impl Client {
    /// Serves the client to its end.
    pub(super) async fn run(&mut self) {
        loop {
            let done = match self.next_message().await {
                Ok((kind, body)) => self.take(kind, body).await,
                Err(end) => Err(end),
            };
            match done {
                Ok(()) => {}
                Err(End::Gone) => return,
                Err(End::Told(error)) => return self.say_goodbye(&error).await,
            }
        }
    }

    /// The next message of the client. What is to go out goes out before a wait.
    async fn next_message(&mut self) -> Result<(u8, bytes::Bytes), End> {
        self.send_enough().await?;
        loop {
            if let Some(message) = self.split()? {
                return Ok(message);
            }
            self.wait_for_more().await?;
        }
    }

    /// Takes a message off what has come in, if there is a whole one.
    pub(super) fn split(&mut self) -> Result<Option<(u8, bytes::Bytes)>, End> {
        let limit = self.shared.config.limits.message_bytes;
        message::split(&mut self.wire.input, limit).map_err(End::Told)
    }

    /// Does what one message asks.
    async fn take(&mut self, kind: u8, body: bytes::Bytes) -> Result<(), End> {
        if !Message::is_known(kind) {
            return Err(End::Told(violation(format!("invalid frontend message type {kind}"))));
        }
        if self.skipping && kind != b'S' && kind != b'X' {
            return Ok(());
        }
        let taken = match Message::parse(kind, body) {
            Ok(message) => self.answer(message).await,
            Err(error) => Err(Trouble::Error(error)),
        };
        match taken {
            Ok(()) => Ok(()),
            Err(Trouble::End(end)) => Err(end),
            Err(Trouble::Error(error)) => self.refuse(kind, error).await,
        }
    }

    /// Tells an error. Whatever it was about, an open transaction block has failed.
    async fn refuse(&mut self, kind: u8, error: Error) -> Result<(), End> {
        self.session.fail();
        if self.listed.connection.must_end() {
            return Err(End::Told(error));
        }
        self.wire.replies.error(&error, Severity::Error);
        self.skipping = Message::is_extended(kind);
        if !self.skipping {
            // Taking back what has failed already cannot fail.
            let _ = self.session.end_implicit(false).await;
            self.ready();
        }
        Ok(())
    }

    /// What takes much state is boxed: a connection that waits is then not as large as one that
    /// works, and what comes often is not moved to the heap each time.
    async fn answer(&mut self, message: Message) -> Result<(), Trouble> {
        match message {
            Message::Query(sql) => {
                Box::pin(self.simple_query(&sql)).await?;
                self.ready();
                Ok(())
            }
            Message::Parse { name, sql, types } => Box::pin(self.parse(&name, &sql, &types)).await,
            Message::Bind(bind) => self.bind(&bind).map_err(Trouble::Error),
            Message::Describe(what) => self.describe(&what).map_err(Trouble::Error),
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
            Message::Terminate => Err(Trouble::End(End::Gone)),
            // What is left of a copy that failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
        }
    }

    /// Tells that the next statement may come, and what changed about the session.
    fn ready(&mut self) {
        if self.told.changes(&self.session, &mut self.wire.replies) {
            self.listed.connection.call(self.told.application_name());
        }
        let status = self.session.transaction();
        if status == TransactionStatus::Idle {
            self.portals.clear();
        }
        self.wire.replies.ready(status);
    }
}
