//! Waiting for a client, and what ends the wait early. All waits of a connection are here.
//!
//! Between statements, a connection ends when it is told to, when the server drains and no
//! transaction is open, and when its client idles for too long. During a statement, cancels and
//! time-outs end the statement, and ends of connections come as cancels. A client that goes away
//! ends either.

use std::io;
use std::time::Duration;

use thalweg_query::{Cancels, TransactionStatus};
use thalweg_types::{Error, SqlState};

use super::connection::{Client, End, Trouble};
use super::reply::Severity;
use super::work::{Place, Work};

/// How long a client may take to hear why it is sent away.
const GOODBYE: Duration = Duration::from_secs(1);

/// What is waited for between statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// That the client sends something.
    Input,
    /// That the client takes what there is for it.
    Room,
}

impl Client {
    /// Waits for more input. What is to go out goes out first.
    pub(super) async fn wait_for_more(&mut self) -> Result<(), End> {
        self.rest(Awaited::Input).await
    }

    /// Sends what there is, where it is much: a client that only asks must not fill the memory.
    pub(super) async fn send_enough(&mut self) -> Result<(), End> {
        if self.wire.has_enough() { self.send_all().await } else { Ok(()) }
    }

    pub(super) async fn send_all(&mut self) -> Result<(), End> {
        match self.wire.try_flush()? {
            true => Ok(()),
            false => self.rest(Awaited::Room).await,
        }
    }

    async fn rest(&mut self, awaited: Awaited) -> Result<(), End> {
        let is_idle = self.session.transaction() == TransactionStatus::Idle;
        let timeout = self.session.idle_timeout();
        let ended = self.listed.connection.ended();
        let drained = self.shared.drained();
        let wire = &mut self.wire;
        let waited = async {
            match awaited {
                Awaited::Input => wire.read().await,
                Awaited::Room => wire.flush().await.map(|()| true),
            }
        };
        tokio::select! {
            biased;
            () = ended => Err(End::Told(terminated())),
            // A block that is open may still be ended.
            () = drained, if is_idle => Err(End::Told(terminated())),
            waited = waited => if waited? { Ok(()) } else { Err(End::Gone) },
            () = elapsed(timeout) => Err(End::Told(idle_too_long(is_idle))),
        }
    }

    /// Waits during a statement for more of the client's data; false at the end.
    pub(super) async fn read_during(&mut self, work: &mut Work) -> Result<bool, Trouble> {
        unless_cancelled(&mut work.cancels, self.wire.read()).await
    }

    /// Sends what there is of a statement's rows, where it is much. While the client does not take
    /// it, the statement gives up its place.
    pub(super) async fn send_during(&mut self, work: &mut Work) -> Result<(), Trouble> {
        if !self.wire.has_enough() || self.wire.try_flush()? {
            return Ok(());
        }
        work.give_up_place();
        unless_cancelled(&mut work.cancels, self.wire.flush()).await
    }

    /// Takes a place among the statements that run, unless the statement has or needs none.
    pub(super) async fn take_place(&mut self, work: &mut Work) -> Result<(), Trouble> {
        let (admission, asker) = (&self.shared.admission, self.told.asker());
        let permit = match work.place {
            Place::NotNeeded | Place::Held { .. } => return Ok(()),
            Place::Wanted => {
                let waiting = self.wire.while_here(admission.admit(asker));
                unless_cancelled(&mut work.cancels, waiting).await??
            }
            Place::GivenUp => {
                let waiting = self.wire.while_here(admission.readmit(asker));
                unless_cancelled(&mut work.cancels, waiting).await?
            }
        };
        work.place = Place::Held { _permit: permit };
        Ok(())
    }

    /// Tells why the connection ends, if the client listens.
    pub(super) async fn say_goodbye(&mut self, error: &Error) {
        self.wire.replies.error(error, Severity::Fatal);
        let _ = tokio::time::timeout(GOODBYE, self.wire.flush()).await;
    }
}

/// Waits in the name of a statement, for what may be dropped when the statement is cancelled.
pub(super) async fn unless_cancelled<T>(
    cancels: &mut Cancels,
    wait: impl Future<Output = io::Result<T>>,
) -> Result<T, Trouble> {
    Ok(cancels.unless_any(wait).await??)
}

fn terminated() -> Error {
    let message = "terminating connection due to administrator command";
    Error::new(SqlState::SHUTTING_DOWN, message)
}

fn idle_too_long(is_idle: bool) -> Error {
    let (state, what) = if is_idle {
        (SqlState::IDLE_SESSION_TIMEOUT, "idle-session timeout")
    } else {
        (SqlState::IDLE_IN_TRANSACTION_TIMEOUT, "idle-in-transaction timeout")
    };
    Error::new(state, format!("terminating connection due to {what}"))
}

/// Resolves after the time, or never.
#[expect(clippy::disallowed_methods, reason = "clients idle in real time")]
async fn elapsed(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}
