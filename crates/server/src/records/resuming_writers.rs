//! Named writers. A client that lost its connection resends unacknowledged rows on a new stream
//! with the same name. The server may still hold the lost stream with rows in flight, so the new
//! stream begins when the old one has ended and all its groups are answered. This way a row never
//! overtakes a later one of its writer.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::HeaderMap;
use parking_lot::Mutex;
use thalweg_protocol::WRITER_HEADER;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

const NAME_BYTES_MAX: usize = 64;

/// The named streams.
#[derive(Clone, Default)]
pub(super) struct Writers(Arc<Mutex<HashMap<Name, Writer>>>);

/// The user and the name that the client chose. It includes the user, so that nobody can end
/// another user's stream.
type Name = (Arc<str>, Arc<str>);

struct Writer {
    /// Held by the writing stream. Others queue for it.
    desk: Arc<tokio::sync::Mutex<()>>,
    /// Cancels the latest stream when a newer one arrives.
    over: CancellationToken,
}

/// A stream's position among those of its writer, released on drop.
pub(super) struct Turn {
    writers: Writers,
    name: Name,
    desk: Option<Arc<tokio::sync::Mutex<()>>>,
    held: Option<OwnedMutexGuard<()>>,
    over: CancellationToken,
}

impl Writers {
    /// Registers a stream and tells the writer's previous one to end; `None` for a stream without a
    /// name.
    ///
    /// # Errors
    /// If the name is invalid.
    pub(super) fn enter(&self, user: &Arc<str>, head: &HeaderMap) -> Result<Option<Turn>> {
        let Some(name) = head.get(WRITER_HEADER) else { return Ok(None) };
        let name = name.to_str().ok().filter(|name| name.len() <= NAME_BYTES_MAX);
        let name: Name = (Arc::clone(user), name.ok_or_else(no_name)?.into());
        let over = CancellationToken::new();
        let mut writers = self.0.lock();
        let writer = writers
            .entry(name.clone())
            .or_insert_with(|| Writer { desk: Arc::default(), over: over.clone() });
        if writer.desk_is_in_use() {
            writer.over.cancel();
        }
        writer.over = over.clone();
        let desk = Some(Arc::clone(&writer.desk));
        let writers = self.clone();
        Ok(Some(Turn { writers, name, desk, held: None, over }))
    }
}

impl Writer {
    /// True if a stream of this writer exists or waits.
    fn desk_is_in_use(&self) -> bool {
        Arc::strong_count(&self.desk) > 1
    }
}

impl Turn {
    /// Waits until the writer's earlier streams have ended.
    pub(super) async fn begin(&mut self) {
        if self.held.is_none()
            && let Some(desk) = &self.desk
        {
            self.held = Some(Arc::clone(desk).lock_owned().await);
        }
    }

    /// Cancelled when a newer stream of the same writer arrives.
    pub(super) fn over(&self) -> CancellationToken {
        self.over.clone()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop((self.held.take(), self.desk.take()));
        let mut writers = self.writers.0.lock();
        if writers.get(&self.name).is_some_and(|writer| !writer.desk_is_in_use()) {
            writers.remove(&self.name);
        }
    }
}

/// The error of a stream whose writer began another one.
pub(super) fn replaced() -> Error {
    Error::new(SqlState::QUERY_CANCELED, "the writer of this stream has begun another one")
}

fn no_name() -> Error {
    let message = format!("a writer's name has at most {NAME_BYTES_MAX} characters of ASCII");
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use hyper::header::HeaderValue;

    use super::*;

    fn named(name: &str) -> HeaderMap {
        let value = HeaderValue::from_str(name).unwrap();
        [(hyper::header::HeaderName::from_static(WRITER_HEADER), value)].into_iter().collect()
    }

    #[test]
    fn a_stream_begins_when_those_before_it_have_ended() {
        let (writers, user): (_, Arc<str>) = (Writers::default(), Arc::from("eve"));
        let enter = || writers.enter(&user, &named("a")).unwrap().unwrap();
        let mut first = enter();
        assert!(first.begin().now_or_never().is_some() && !first.over().is_cancelled());
        let mut second = enter();
        assert!(first.over().is_cancelled() && second.begin().now_or_never().is_none());
        let mut third = enter();
        assert!(second.over().is_cancelled() && !third.over().is_cancelled());
        // It never began: the first is what the third waits for.
        drop(second);
        assert!(third.begin().now_or_never().is_none());
        drop(first);
        assert!(third.begin().now_or_never().is_some() && !third.over().is_cancelled());
        drop(third);
        assert!(writers.0.lock().is_empty());
    }

    #[test]
    fn writers_of_others_go_on() {
        let writers = Writers::default();
        let [eve, bob]: [Arc<str>; 2] = ["eve", "bob"].map(Arc::from);
        let enter = |user, name| writers.enter(user, &named(name)).unwrap().unwrap();
        let (mut one, mut two, mut three) = (enter(&eve, "a"), enter(&eve, "b"), enter(&bob, "a"));
        for turn in [&mut one, &mut two, &mut three] {
            assert!(turn.begin().now_or_never().is_some() && !turn.over().is_cancelled());
        }
        assert!(writers.enter(&eve, &HeaderMap::new()).unwrap().is_none());
        let long = named(&"a".repeat(NAME_BYTES_MAX + 1));
        assert_eq!(writers.enter(&eve, &long).err().unwrap().state().0, "08P01");
    }
}
