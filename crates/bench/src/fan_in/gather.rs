//! Code that all modes share: splitting by lane, the end, and the first failure.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::try_join_all;
use parking_lot::Mutex;
use thalweg_cluster::chunks::{Cutter, MESSAGE_BYTES_MAX};
use thalweg_cluster::link::{Answer, NodeName, ReconnectingLink, damaged};
use thalweg_cluster::node::FETCH;
use thalweg_cluster::times::{Stopwatch, Times};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{AtATime, FanIn, Mode, Question, Reader, Stop, hybrid, queued, sequential};

/// A worker to be asked.
pub(super) struct Asked {
    /// Index of its question.
    pub(super) place: usize,
    link: ReconnectingLink,
    question: Question,
}

/// An answer that has begun.
pub(super) struct Opened {
    pub(super) place: usize,
    pub(super) answer: Answer,
    pub(super) cutter: Cutter,
}

impl Asked {
    pub(super) async fn open(self, watch: &Stopwatch) -> Result<Opened> {
        let answer = self.link.call(FETCH, &self.question.message).await?;
        watch.opened();
        Ok(Opened { place: self.place, answer, cutter: Cutter::new(MESSAGE_BYTES_MAX) })
    }
}

/// A lane's part of a query.
pub(super) struct Share<R> {
    pub(super) asked: Vec<Asked>,
    pub(super) reader: Shared<R>,
    pub(super) watch: Arc<Stopwatch>,
    pub(super) at_a_time: AtATime,
}

/// A lane's reader, which all of the lane's tasks share. No other thread uses it meanwhile.
pub(super) struct Shared<R>(Arc<Mutex<Option<R>>>);

impl<R> Clone for Shared<R> {
    fn clone(&self) -> Shared<R> {
        Shared(Arc::clone(&self.0))
    }
}

impl<R: Reader> Shared<R> {
    fn new(reader: R) -> Shared<R> {
        Shared(Arc::new(Mutex::new(Some(reader))))
    }

    fn take(&self) -> Option<R> {
        self.0.lock().take()
    }

    /// Hands over the messages that are complete with this piece, and returns their number.
    pub(super) fn feed(
        &self,
        (place, from): (usize, &NodeName),
        cutter: &mut Cutter,
        piece: &Bytes,
        watch: &Stopwatch,
    ) -> Result<usize, Stop> {
        let mut reader = self.0.lock();
        // The reader is gone if another task of the query has ended the gather.
        let reader = reader.as_mut().ok_or(Stop::Enough)?;
        let mut messages = 0;
        let fed = cutter.feed(piece, |message| {
            watch.message();
            messages += 1;
            reader.message(place, message)
        });
        match fed {
            Ok(()) => Ok(messages),
            Err(Stop::Failed(error)) => Err(damaged(error, from).into()),
            Err(Stop::Enough) => Err(Stop::Enough),
        }
    }
}

/// Reads one answer to its end.
pub(super) async fn read<R: Reader>(
    mut opened: Opened,
    reader: &Shared<R>,
    watch: &Stopwatch,
) -> Result<(), Stop> {
    while let Some(piece) = opened.answer.piece().await? {
        let from = (opened.place, opened.answer.from());
        reader.feed(from, &mut opened.cutter, &piece, watch)?;
    }
    whole(&opened)
}

/// Checks that an answer does not end within a message.
pub(super) fn whole(opened: &Opened) -> Result<(), Stop> {
    match opened.cutter.is_between_messages() {
        true => Ok(()),
        false => {
            let message = format!("the answer of {} ends within a message", opened.answer.from());
            Err(Error::new(SqlState::PROTOCOL_VIOLATION, message).into())
        }
    }
}

/// A task that is aborted when its owner is dropped.
struct Ending<T>(JoinHandle<T>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) async fn gather<R: Reader>(
    fan_in: &FanIn,
    mode: Mode,
    questions: Vec<Question>,
    mut reader: impl FnMut(usize) -> R,
) -> Result<(Vec<R>, Times)> {
    let watch = Arc::new(Stopwatch::start(Arc::clone(&fan_in.env.clock)));
    let lanes = fan_in.lanes.len();
    let workers = questions.len();
    let mut shares: Vec<Vec<Asked>> = (0..lanes).map(|_| Vec::new()).collect();
    for (place, question) in questions.into_iter().enumerate() {
        let lane = place % lanes;
        let link = fan_in.lanes[lane].link(&question.worker);
        shares[lane].push(Asked { place, link, question });
    }
    let readers: Vec<Shared<R>> = (0..lanes).map(|lane| Shared::new(reader(lane))).collect();
    let queue = Arc::new(queued::Queue::new(workers));
    let enough = watch::Sender::new(false);
    let tasks = shares.into_iter().zip(&readers).zip(fan_in.lanes.iter());
    let tasks: Vec<_> = tasks
        .map(|((asked, reader), lane)| {
            let (reader, watch) = (reader.clone(), Arc::clone(&watch));
            let share = Share { asked, reader, watch, at_a_time: fan_in.at_a_time };
            let (queue, mut ended) = (Arc::clone(&queue), enough.subscribe());
            let work = async move {
                tokio::select! {
                    done = run(mode, share, queue) => done,
                    // If the sender is dropped, the query was canceled.
                    _ = ended.wait_for(|ended| *ended) => Ok(()),
                }
            };
            Ending(lane.runtime().spawn(work))
        })
        .collect();
    let waits = tasks.into_iter().map(|mut task| {
        let enough = &enough;
        async move {
            let done = (&mut task.0).await;
            match done.unwrap_or_else(|died| Err(Stop::Failed(Error::internal(died.to_string())))) {
                Err(Stop::Failed(error)) => Err(error),
                Err(Stop::Enough) => {
                    enough.send_replace(true);
                    Ok(())
                }
                Ok(()) => Ok(()),
            }
        }
    });
    try_join_all(waits).await?;
    let times = watch.stop();
    let readers = readers.iter().map(|reader| reader.take().expect("it is taken here alone"));
    Ok((readers.collect(), times))
}

async fn run<R: Reader>(
    mode: Mode,
    share: Share<R>,
    queue: Arc<queued::Queue>,
) -> Result<(), Stop> {
    match mode {
        Mode::Sync => sequential::run(share).await,
        Mode::Async => queued::run(share, queue).await,
        Mode::Hybrid => hybrid::run(share).await,
    }
}
