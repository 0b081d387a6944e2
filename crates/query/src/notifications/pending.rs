//! A session's channels, and the requests of its transaction.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_types::{Error, Result, SqlState};

use super::{CHANNELS_MAX, Channels, Inbox, Notification, check};

/// Maximum size of the messages of one transaction, in bytes.
const PENDING_BYTES_MAX: usize = 64 << 20;

/// Channels of a session, and the requests of its transaction. Functions of a statement share it
/// with the session.
pub(crate) struct SessionNotifications {
    channels: Arc<Channels>,
    id: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` before the first `LISTEN`.
    inbox: Option<Arc<Inbox>>,
    listening: BTreeSet<Arc<str>>,
    requests: Vec<Request>,
    request_bytes: usize,
    /// Number of requests to listen.
    listens: usize,
}

enum Request {
    Listen(Arc<str>),
    Unlisten(Arc<str>),
    UnlistenAll,
    Notify(Notification),
}

impl Request {
    fn memory_bytes(&self) -> usize {
        match self {
            Request::Notify(message) => message.memory_bytes(),
            Request::Listen(_) | Request::Unlisten(_) | Request::UnlistenAll => 128,
        }
    }
}

impl State {
    fn add_request(&mut self, request: Request) -> Result<()> {
        let bytes = self.request_bytes + request.memory_bytes();
        if bytes > PENDING_BYTES_MAX {
            let message = "too many notifications in one transaction";
            return Err(Error::new(SqlState::LIMIT_EXCEEDED, message)
                .with_hint("Commit more often, or send shorter payloads."));
        }
        self.request_bytes = bytes;
        self.requests.push(request);
        Ok(())
    }
}

impl SessionNotifications {
    pub(crate) fn new(channels: &Arc<Channels>) -> SessionNotifications {
        let (channels, id) = (Arc::clone(channels), channels.next_id());
        SessionNotifications { channels, id, state: Mutex::default() }
    }

    /// The session's inbox; `None` if it has never listened.
    pub(crate) fn inbox(&self) -> Option<Arc<Inbox>> {
        self.state.lock().inbox.clone()
    }

    /// The channels that the session listens to, sorted.
    pub(crate) fn listening(&self) -> Vec<String> {
        self.state.lock().listening.iter().map(|channel| channel.to_string()).collect()
    }

    /// Asks for the messages of a channel.
    ///
    /// # Errors
    /// If the session listens to too many channels, or the transaction has asked for too much
    /// (`54000`).
    pub(crate) fn listen(&self, channel: &str) -> Result<()> {
        let mut state = self.state.lock();
        if state.listening.len() + state.listens >= CHANNELS_MAX {
            let message = format!("a session cannot listen to more than {CHANNELS_MAX} channels");
            return Err(Error::new(SqlState::LIMIT_EXCEEDED, message));
        }
        state.add_request(Request::Listen(channel.into()))?;
        state.listens += 1;
        Ok(())
    }

    /// Gives up a channel, or all.
    ///
    /// # Errors
    /// As [`SessionNotifications::listen`].
    pub(crate) fn unlisten(&self, channel: Option<&str>) -> Result<()> {
        self.state.lock().add_request(match channel {
            Some(channel) => Request::Unlisten(channel.into()),
            None => Request::UnlistenAll,
        })
    }

    /// Sends a message once the transaction commits.
    ///
    /// # Errors
    /// If the channel or the payload is refused (`22023`); if the transaction has asked for too
    /// much (`54000`).
    pub(crate) fn notify(&self, process_id: i32, channel: &str, payload: &str) -> Result<()> {
        check(channel, payload)?;
        let (channel, payload) = (channel.into(), payload.into());
        let message = Notification { process_id, channel, payload };
        self.state.lock().add_request(Request::Notify(message))
    }

    /// Number of requests, for [`SessionNotifications::roll_back_to`].
    pub(crate) fn mark(&self) -> usize {
        self.state.lock().requests.len()
    }

    /// Drops the requests since a mark.
    pub(crate) fn roll_back_to(&self, mark: usize) {
        let mut state = self.state.lock();
        if state.requests.len() > mark {
            state.requests.truncate(mark);
            state.request_bytes = state.requests.iter().map(Request::memory_bytes).sum();
            let listens = |request: &&Request| matches!(request, Request::Listen(_));
            state.listens = state.requests.iter().filter(listens).count();
        }
    }

    /// Carries out the requests: the channels first, then each different message once.
    pub(crate) fn commit(&self) {
        let mut state = self.state.lock();
        if state.requests.is_empty() {
            return;
        }
        (state.request_bytes, state.listens) = (0, 0);
        let requests = std::mem::take(&mut state.requests);
        for request in &requests {
            match request {
                Request::Listen(channel) => self.add(&mut state, channel),
                Request::Unlisten(channel) => self.remove(&mut state, channel),
                Request::UnlistenAll => self.remove_all(&mut state),
                Request::Notify(_) => {}
            }
        }
        drop(state);
        let mut sent = HashSet::new();
        for request in &requests {
            if let Request::Notify(message) = request
                && sent.insert((&message.channel, &message.payload))
            {
                self.channels.send(message);
            }
        }
    }

    fn add(&self, state: &mut State, channel: &Arc<str>) {
        let inbox = state.inbox.get_or_insert_default();
        self.channels.add(channel, self.id, inbox);
        state.listening.insert(Arc::clone(channel));
    }

    fn remove(&self, state: &mut State, channel: &str) {
        if state.listening.remove(channel) {
            self.channels.remove(channel, self.id);
        }
    }

    fn remove_all(&self, state: &mut State) {
        for channel in std::mem::take(&mut state.listening) {
            self.channels.remove(&channel, self.id);
        }
    }
}

impl Drop for SessionNotifications {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.state.lock());
        self.remove_all(&mut state);
    }
}
