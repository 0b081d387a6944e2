//! Streams that look rows up.
//!
//! All look-ups of keys that one read brought are answered from one snapshot, in one response if it
//! is not too long. Answers come in the order of the look-ups; keys that no row has are answered by
//! being passed over.

mod answers;
mod reader;

use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use thalweg_query::Session;
use thalweg_types::{Error, Result};
use tonic::body::Body;

use super::door::Hall;
use super::guest::{Guest, Seat, shutting_down, terminated};
use super::incoming::Incoming;
use super::memory::Held;
use super::ranges::{self, Statements};
use crate::grpc::{Upload, streamed};
use crate::pump::{Pieces, Pump};
use answers::Answers;
use reader::{LookUp, LookUpReader};

pub(super) fn two_way(hall: Arc<Hall>, guest: Guest, body: Upload) -> Response<Body> {
    streamed(Pump::start(async move |pieces| {
        let Guest { records, session, seat } = guest;
        let message_bytes_max = seat.shared.config.limits.record_message_bytes;
        let reader = LookUpReader::new(records);
        let incoming = Incoming::new(body, message_bytes_max, reader);
        let ended = seat.ended();
        let ranges = Statements::default();
        let mut stream = SearchStream { hall, session, ranges, seat, incoming, pieces };
        let searched = tokio::select! {
            biased;
            () = ended => Err(terminated()),
            done = stream.go_on() => done,
        };
        stream.seat.count_end(searched.as_ref().err());
        searched
    }))
}

struct SearchStream {
    hall: Arc<Hall>,
    session: Session,
    ranges: Statements,
    seat: Seat,
    incoming: Incoming<LookUpReader>,
    pieces: Pieces<Bytes>,
}

impl SearchStream {
    /// Answers until the client has asked all.
    ///
    /// # Errors
    /// Why the stream ended before its client did.
    async fn go_on(&mut self) -> Result<()> {
        let mut drained = std::pin::pin!(self.seat.drained());
        while !self.incoming.has_ended() {
            tokio::select! {
                biased;
                () = &mut drained => self.incoming.stop(shutting_down()),
                () = self.incoming.read() => {}
            }
            self.seat.metrics().read();
            let held = self.hall.memory.hold(self.incoming.whole_bytes()).await;
            let answered = self.incoming.reader.answered();
            self.incoming.take_apart();
            self.answer(answered, held).await?;
        }
        self.incoming.end()
    }

    /// Answers what one read brought.
    async fn answer(&mut self, answered: u64, held: Held) -> Result<()> {
        let (answers, held) = (Answers::new(answered), Some(held));
        let mut telling = Telling { answers, held, pieces: &self.pieces };
        for look_up in self.incoming.reader.finish() {
            match look_up {
                LookUp::Keys(run) => {
                    let keys = run.len();
                    let found = run.answer(self.incoming.reader.records(), &mut telling).await?;
                    self.seat.metrics().looked_up(keys, found);
                }
                LookUp::Range(index, range) => {
                    telling.send().await?;
                    let (session, statements) = (&mut self.session, &mut self.ranges);
                    ranges::answer(session, statements, index, range, &mut telling).await?;
                }
                LookUp::Failed(index, error) => telling.answers.fail(index, &error),
            }
            telling.send_if_long().await?;
        }
        telling.send().await
    }
}

/// Answers on their way to a client.
pub(super) struct Telling<'a> {
    pub(super) answers: Answers,
    /// The memory of what was asked, until it is for the client to go on: nobody waits for one that
    /// does not read.
    held: Option<Held>,
    pieces: &'a Pieces<Bytes>,
}

impl Telling<'_> {
    /// Sends the answers so far, if there are any.
    pub(super) async fn send(&mut self) -> Result<()> {
        let Some(response) = self.answers.take() else { return Ok(()) };
        self.held = None;
        self.pieces.push(response).await.map_err(|_| Error::internal("the client has left"))
    }

    /// Sends the answers so far, if they are long enough.
    pub(super) async fn send_if_long(&mut self) -> Result<()> {
        if self.answers.is_long() { self.send().await } else { Ok(()) }
    }
}
