//! `LISTEN` and `NOTIFY`: messages between sessions of one process.
//!
//! Requests of a transaction take effect when it commits, as in PostgreSQL: the channels first,
//! then the messages, of which equal ones are sent once. A message is put into the inbox of each
//! session that listens to its channel. It is not durable, and does not leave the process.
//!
//! Invariants: a session that does not read its inbox slows no other session down, and uses bounded
//! memory. No message is dropped silently: a full inbox is closed, and its connection ends with an
//! error.

mod inbox;
mod pending;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use thalweg_types::{Error, Result, SqlState};

pub use inbox::{Inbox, Notification};
pub(crate) use pending::SessionNotifications;

/// Maximum length of a payload, in bytes, exclusive: PostgreSQL's.
const PAYLOAD_BYTES_MAX: usize = 8_000;
/// Maximum length of a channel's name, in bytes: that of identifiers.
pub(crate) const CHANNEL_BYTES_MAX: usize = 63;
/// Maximum number of channels to which a session listens.
const CHANNELS_MAX: usize = 16_384;

/// The sessions that listen, by channel.
#[derive(Default)]
pub(crate) struct Channels {
    listeners: Mutex<HashMap<Arc<str>, Vec<Listener>>>,
    last_id: AtomicU64,
}

struct Listener {
    id: u64,
    inbox: Arc<Inbox>,
}

impl Channels {
    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed)
    }

    fn add(&self, channel: &Arc<str>, id: u64, inbox: &Arc<Inbox>) {
        let mut listeners = self.listeners.lock();
        let of_channel = listeners.entry(Arc::clone(channel)).or_default();
        if of_channel.iter().all(|listener| listener.id != id) {
            of_channel.push(Listener { id, inbox: Arc::clone(inbox) });
        }
    }

    fn remove(&self, channel: &str, id: u64) {
        let mut listeners = self.listeners.lock();
        let Some(of_channel) = listeners.get_mut(channel) else { return };
        of_channel.retain(|listener| listener.id != id);
        if of_channel.is_empty() {
            listeners.remove(channel);
        }
    }

    /// Puts a message into the inboxes of its channel.
    fn send(&self, notification: &Notification) {
        let listeners = self.listeners.lock();
        for listener in listeners.get(&notification.channel).into_iter().flatten() {
            listener.inbox.put(notification.clone());
        }
    }
}

/// Checks the arguments of `NOTIFY`.
///
/// # Errors
/// If the channel has no name or a too long one, or the payload is too long (`22023`).
pub(crate) fn check(channel: &str, payload: &str) -> Result<()> {
    let message = if channel.is_empty() {
        "channel name cannot be empty"
    } else if channel.len() > CHANNEL_BYTES_MAX {
        "channel name too long"
    } else if payload.len() >= PAYLOAD_BYTES_MAX {
        "payload string too long"
    } else {
        return Ok(());
    };
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
}
