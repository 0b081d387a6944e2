//! The messages that wait for one session.

use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::Notify;

/// Maximum size of the messages that wait for one session, in bytes.
const INBOX_BYTES_MAX: usize = 8 << 20;
/// Memory of a message beside its payload, in bytes.
const MESSAGE_BYTES: usize = 64;

/// A message of `NOTIFY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The number of the session that sent it.
    pub process_id: i32,
    pub channel: Arc<str>,
    pub payload: Arc<str>,
}

impl Notification {
    pub(super) fn memory_bytes(&self) -> usize {
        MESSAGE_BYTES + self.payload.len()
    }
}

/// The messages that other sessions, and its own, sent to a session.
#[derive(Default)]
pub struct Inbox {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    messages: Vec<Notification>,
    bytes: usize,
    /// True once a message found no room: the session has missed it.
    is_full: bool,
}

impl Inbox {
    /// Resolves once there may be messages. Messages that came before the call count.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes all messages, in the order of arrival.
    ///
    /// # Errors
    /// If the session has missed a message because too many waited (`53400`). The client cannot
    /// know what it missed, so its connection should end.
    pub fn take(&self) -> Result<Vec<Notification>> {
        let mut waiting = self.waiting.lock();
        if waiting.is_full {
            let message = "terminating connection because it has not read its notifications";
            return Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
                .with_detail(format!("More than {INBOX_BYTES_MAX} bytes waited for it."))
                .with_hint("Read notifications while you listen, or use UNLISTEN."));
        }
        waiting.bytes = 0;
        Ok(std::mem::take(&mut waiting.messages))
    }

    pub(super) fn put(&self, message: Notification) {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + message.memory_bytes();
        if bytes > INBOX_BYTES_MAX {
            waiting.is_full = true;
            waiting.messages = Vec::new();
        }
        if !waiting.is_full {
            waiting.bytes = bytes;
            waiting.messages.push(message);
        }
        drop(waiting);
        self.arrived.notify_one();
    }
}
