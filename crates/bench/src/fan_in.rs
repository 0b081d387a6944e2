//! Reading from many workers at once, on a few threads: the three orders of a gateway's scans,
//! without plans and rows.
//!
//! Each of N *lanes* is a thread with its own runtime and connections, and serves its share of the
//! workers. A connection never leaves its lane. The [`Mode`] decides on the order of reading:
//!
//! - *sync* opens one worker after the other, and then reads one after the other.
//! - *async* opens all at once, and puts their pieces into one queue that all lanes share.
//! - *hybrid* opens all at once, and each lane reads the first few of its own workers that have
//!   sent something, to their end.
//!
//! Invariants: the first failure ends everything and names the worker. A reader that has enough
//! stops the workers. Unread data is not fetched, so memory stays within
//! [`FanInOptions::unread_bytes`].

mod first_first;
mod gather;
mod hybrid;
mod lane;
mod queued;
mod sequential;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_cluster::chunks::Message;
use thalweg_cluster::link::{LinkOptions, NodeName, UNREAD_BYTES};
use thalweg_cluster::times::Times;
use thalweg_env::Env;
use thalweg_types::{Error, Result};

use lane::Lane;

/// The order in which lanes read; see the module's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    Sync,
    Async,
    #[default]
    Hybrid,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Sync => "sync",
            Mode::Async => "async",
            Mode::Hybrid => "hybrid",
        })
    }
}

/// A request to a worker.
#[derive(Clone, Debug)]
pub struct Question {
    pub worker: NodeName,
    pub message: Bytes,
}

/// Consumer of the messages of a lane's workers. Each lane has its own.
pub trait Reader: Send + 'static {
    /// Handles a message of a worker, which is named by the index of its question. The messages of
    /// one worker arrive in order. In async mode they go to any free reader.
    ///
    /// # Errors
    /// If the reader wants no more, or fails.
    fn message(&mut self, worker: usize, message: Message<'_>) -> Result<(), Stop>;
}

/// The reason why a reader wants no more.
#[derive(Debug)]
pub enum Stop {
    /// It has all that it needs. All lanes stop, and the gather succeeds.
    Enough,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

/// Options of a [`FanIn`].
#[derive(Clone)]
pub struct FanInOptions {
    /// Number of lanes.
    pub threads: usize,
    /// Largest number of workers that are asked at once.
    pub workers_max: usize,
    /// Limit of unread bytes, of all workers together.
    pub unread_bytes: usize,
    pub link: LinkOptions,
}

/// Total window of the workers that all lanes read at a time, in bytes. Measured with 16 workers on
/// two cores: one lane that reads one worker at a time takes 1.5 times as long as with four. With
/// two lanes, two workers each are best: one each takes up to a fifth longer for large messages,
/// and four each for small ones.
const READ_WINDOWS_BYTES: usize = 1 << 20;
/// Average size of messages, in bytes, up to which they count as small: cutting them out costs more
/// than handling their bytes.
const SMALL_BYTES: usize = 4 << 10;
/// Like [`SMALL_BYTES`], if there are other lanes that keep the cores busy. Up to this size it is
/// best to read one worker at a time, whose bytes stay in the cache.
const SMALL_BYTES_BESIDE_OTHERS: usize = 64 << 10;

/// Number of workers that a lane reads at a time: half as many if their messages are small.
#[derive(Clone, Copy)]
struct AtATime {
    max: usize,
    small_bytes: usize,
}

impl AtATime {
    fn of_small(self) -> usize {
        self.max.div_ceil(2)
    }

    /// The number of workers, if so many messages have so many bytes together.
    fn of(self, messages: usize, bytes: usize) -> usize {
        match bytes > messages.saturating_mul(self.small_bytes) {
            true => self.max,
            false => self.of_small(),
        }
    }
}

impl FanInOptions {
    /// Default options with `threads` lanes, at least one, for up to `workers_max` workers.
    #[must_use]
    pub fn new(threads: usize, workers_max: usize) -> FanInOptions {
        FanInOptions {
            threads: threads.max(1),
            workers_max,
            unread_bytes: UNREAD_BYTES,
            link: LinkOptions::default(),
        }
    }

    /// With thousands of workers, windows are so small that each worker mostly waits for the next
    /// window. Then all workers are read at a time.
    fn at_a_time(&self, stream_window_bytes: u32) -> AtATime {
        let window_bytes = stream_window_bytes as usize;
        let max = match self.workers_max.saturating_mul(window_bytes) <= self.unread_bytes {
            true => (READ_WINDOWS_BYTES / window_bytes / self.threads).max(1),
            false => usize::MAX,
        };
        let small_bytes = match self.threads {
            1 => SMALL_BYTES,
            _ => SMALL_BYTES_BESIDE_OTHERS,
        };
        AtATime { max, small_bytes }
    }
}

/// The lanes, and their connections. Clones share them.
#[derive(Clone)]
pub struct FanIn {
    lanes: Arc<[Lane]>,
    at_a_time: AtATime,
    env: Env,
}

impl FanIn {
    /// Starts the lanes.
    ///
    /// # Errors
    /// If the system refuses threads.
    pub fn new(options: &FanInOptions, env: &Env) -> Result<FanIn> {
        let link = options.link.clone().for_nodes(options.workers_max, options.unread_bytes);
        let at_a_time = options.at_a_time(link.stream_window_bytes);
        let link = Arc::new(link);
        let lanes = (0..options.threads)
            .map(|number| Lane::start(number, Arc::clone(&link), env))
            .collect::<Result<Vec<_>>>()?;
        Ok(FanIn { lanes: lanes.into(), at_a_time, env: env.clone() })
    }

    /// Asks all workers, and hands their answers to readers, one for each lane. Returns the readers
    /// and the times that it took.
    ///
    /// # Errors
    /// The first error of a worker or a reader.
    pub async fn gather<R: Reader>(
        &self,
        mode: Mode,
        questions: Vec<Question>,
        reader: impl FnMut(usize) -> R,
    ) -> Result<(Vec<R>, Times)> {
        gather::gather(self, mode, questions, reader).await
    }

    /// Drops the open connections.
    pub async fn disconnect(&self) {
        for lane in self.lanes.iter() {
            lane.disconnect().await;
        }
    }

    /// Number of lanes.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.lanes.len()
    }
}
