//! Reading from many workers at once, on a few threads.
//!
//! Each of N *lanes* is a thread with a runtime and kept connections of its own, and serves its
//! share of the workers: what belongs to one worker never leaves its lane. How a lane goes about it
//! is the [`Mode`]:
//!
//! - *sync* opens one worker after the other, and then reads one after the other;
//! - *async* opens all at once, and puts whatever happens into one queue that all lanes share;
//! - *hybrid* opens all at once, and each lane reads the first few of its own workers that have
//!   sent something, to their end.
//!
//! Promises: the first failure ends everything and says which worker it was; a reader that has
//! enough stops the workers; and what is not read is not fetched, so that memory stays within
//! [`FanInOptions::unread_bytes`].

mod first_first;
mod gather;
mod hybrid;
mod lane;
mod queued;
mod sequential;
mod times;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_env::Env;
use thalweg_types::{Error, Result, SqlState};

use crate::chunks::Message;
use crate::link::{LinkOptions, NodeName};

use lane::Lane;
pub use times::{Stopwatch, Times};

/// How lanes read.
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

impl FromStr for Mode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Mode> {
        match name {
            "sync" => Ok(Mode::Sync),
            "async" => Ok(Mode::Async),
            "hybrid" => Ok(Mode::Hybrid),
            _ => {
                let message = format!("invalid value for parameter \"fan_in\": \"{name}\"");
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("Available values: sync, async, hybrid."))
            }
        }
    }
}

/// What is asked of a worker.
#[derive(Clone, Debug)]
pub struct Question {
    pub worker: NodeName,
    pub message: Bytes,
}

/// What takes in the messages of a lane's workers. There is one for each lane.
pub trait Reader: Send + 'static {
    /// Takes in a message of the worker with this place among the questions. The messages of one
    /// worker come in their order; in async mode to whichever reader is free.
    ///
    /// # Errors
    /// Where nothing more is wanted, or something is wrong.
    fn message(&mut self, worker: usize, message: Message<'_>) -> Result<(), Stop>;
}

/// Why a reader wants no more.
#[derive(Debug)]
pub enum Stop {
    /// It has all that it needs. Everybody stops, which is a good end.
    Enough,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

#[derive(Clone)]
pub struct FanInOptions {
    /// How many lanes.
    pub threads: usize,
    /// How many workers are asked at once, at most.
    pub workers_max: usize,
    /// What may lie here unread, of all workers together.
    pub unread_bytes: usize,
    pub link: LinkOptions,
}

/// What lies unread should lie in the processor's cache: with more, 16 workers are read slower.
pub const UNREAD_BYTES: usize = 4 << 20;

/// What the windows of the workers hold together that all lanes read at a time. Measured with 16
/// workers on two cores: one lane that reads one at a time takes half as long again as with four;
/// two lanes take up to a fifth longer for large messages with one each, and for small ones with
/// four each, than with two.
const READ_WINDOWS_BYTES: usize = 1 << 20;
/// Below this a message is small: telling it from the next one takes a lane longer than its bytes.
const SMALL_BYTES: usize = 4 << 10;
/// The same where other lanes keep the cores busy beside it: then one worker at a time, whose bytes
/// stay in the cache, is best for messages up to here.
const SMALL_BYTES_BESIDE_OTHERS: usize = 64 << 10;

/// How many workers a lane reads at a time: half as many where their messages are small.
#[derive(Clone, Copy)]
struct AtATime {
    max: usize,
    small_bytes: usize,
}

impl AtATime {
    fn of_small(self) -> usize {
        self.max.div_ceil(2)
    }

    /// Where so many messages have so many bytes.
    fn of(self, messages: usize, bytes: usize) -> usize {
        match bytes > messages.saturating_mul(self.small_bytes) {
            true => self.max,
            false => self.of_small(),
        }
    }
}

impl FanInOptions {
    #[must_use]
    pub fn new(threads: usize, workers_max: usize) -> FanInOptions {
        FanInOptions {
            threads: threads.max(1),
            workers_max,
            unread_bytes: UNREAD_BYTES,
            link: LinkOptions::default(),
        }
    }

    /// Windows of thousands are so small that each waits for the next one most of the time: then
    /// all are read at a time.
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

/// Lanes, and the connections that they keep. Clones share them.
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
    /// Where the system refuses threads.
    pub fn new(options: &FanInOptions, env: &Env) -> Result<FanIn> {
        let link = options.link.clone().for_nodes(options.workers_max, options.unread_bytes);
        let at_a_time = options.at_a_time(link.stream_window_bytes);
        let link = Arc::new(link);
        let lanes = (0..options.threads)
            .map(|number| Lane::start(number, Arc::clone(&link), env))
            .collect::<Result<Vec<_>>>()?;
        Ok(FanIn { lanes: lanes.into(), at_a_time, env: env.clone() })
    }

    /// Asks all workers, and hands what they answer to readers of which each lane has one. The
    /// readers come back, with the times that it took.
    ///
    /// # Errors
    /// The first one that a worker or a reader meets.
    pub async fn gather<R: Reader>(
        &self,
        mode: Mode,
        questions: Vec<Question>,
        reader: impl FnMut(usize) -> R,
    ) -> Result<(Vec<R>, Times)> {
        gather::gather(self, mode, questions, reader).await
    }

    /// Gives up the kept connections.
    pub async fn disconnect(&self) {
        for lane in self.lanes.iter() {
            lane.disconnect().await;
        }
    }

    #[must_use]
    pub fn threads(&self) -> usize {
        self.lanes.len()
    }
}

#[cfg(test)]
mod tests;
