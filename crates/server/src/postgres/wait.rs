//! Waiting for a client, and the events that end a wait early. All waits of a connection are in
//! this module.
//!
//! Between statements, a connection ends when it is terminated, when the server drains while no
//! transaction is open, or when its client idles too long. During a statement, cancellations and
//! timeouts end the statement, and a termination arrives as a cancellation. A client that
//! disconnects ends both kinds of waits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use thalweg_execution::cancel::Cancels;
use thalweg_query::{Inbox, TransactionStatus};
use thalweg_types::{Error, SqlState};

use super::connection::{Client, End, MessageFailure};
use super::reply::Severity;
use super::running_statement::{AdmissionState, RunningStatement};

/// Time for sending the reason of a termination to the client.
const GOODBYE: Duration = Duration::from_secs(1);

/// The event awaited between statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// The client sends data.
    Input,
    /// The client accepts the pending replies.
    Room,
}

impl Client {
    /// Waits for more input. Pending replies are sent first.
    pub(super) async fn wait_for_more(&mut self) -> Result<(), End> {
        self.rest(Awaited::Input).await
    }

    /// Sends pending replies if there are many, so that a client that only sends requests does not
    /// fill the memory.
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
        // A block hears of messages when it has ended.
        let inbox = self.session.inbox().filter(|_| is_idle && awaited == Awaited::Input);
        let wire = &mut self.wire;
        let waited = async {
            match awaited {
                Awaited::Input => wire.read().await,
                Awaited::Room => wire.flush().await.map(|()| true),
            }
        };
        tokio::select! {
            biased;
            () = ended => Err(End::Reported(terminated())),
            // A client with an open transaction block may still end it.
            () = drained, if is_idle => Err(End::Reported(terminated())),
            waited = waited => if waited? { Ok(()) } else { Err(End::Gone) },
            () = arrived(inbox) => self.pass_on_notifications().map_err(End::Reported),
            () = elapsed(timeout) => Err(End::Reported(idle_too_long(is_idle))),
        }
    }

    /// Waits during a statement for more of the client's data; false at the end.
    pub(super) async fn read_during(
        &mut self,
        work: &mut RunningStatement,
    ) -> Result<bool, MessageFailure> {
        unless_cancelled(&mut work.cancels, self.wire.read()).await
    }

    /// Sends a statement's pending rows if there are many. The statement gives up its permit while
    /// the client does not accept them.
    pub(super) async fn send_during(
        &mut self,
        work: &mut RunningStatement,
    ) -> Result<(), MessageFailure> {
        if !self.wire.has_enough() || self.wire.try_flush()? {
            return Ok(());
        }
        work.give_up_place();
        unless_cancelled(&mut work.cancels, self.wire.flush()).await
    }

    /// Takes a permit, unless the statement holds one or needs none.
    pub(super) async fn take_place(
        &mut self,
        work: &mut RunningStatement,
    ) -> Result<(), MessageFailure> {
        let (admission, asker) = (&self.shared.admission, self.reported.asker());
        let permit = match work.place {
            AdmissionState::NotNeeded | AdmissionState::Held { .. } => return Ok(()),
            AdmissionState::Wanted => {
                let waiting = self.wire.while_here(admission.admit(asker));
                unless_cancelled(&mut work.cancels, waiting).await??
            }
            AdmissionState::GivenUp => {
                let waiting = self.wire.while_here(admission.readmit(asker));
                unless_cancelled(&mut work.cancels, waiting).await?
            }
        };
        work.place = AdmissionState::Held { _permit: permit };
        Ok(())
    }

    /// Sends the reason for the connection's end, with a time limit.
    pub(super) async fn send_final_error(&mut self, error: &Error) {
        self.wire.replies.error(error, Severity::Fatal);
        let _ = tokio::time::timeout(GOODBYE, self.wire.flush()).await;
    }
}

/// Runs a wait of a statement. The wait is dropped when the statement is cancelled.
pub(super) async fn unless_cancelled<T>(
    cancels: &mut Cancels,
    wait: impl Future<Output = io::Result<T>>,
) -> Result<T, MessageFailure> {
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

/// Resolves once another session has sent a message, or never without an inbox.
async fn arrived(inbox: Option<Arc<Inbox>>) {
    match inbox {
        Some(inbox) => inbox.arrived().await,
        None => std::future::pending().await,
    }
}

/// Resolves after the timeout, or never if there is none.
#[expect(clippy::disallowed_methods, reason = "clients idle in real time")]
async fn elapsed(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}
