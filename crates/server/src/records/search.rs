//! Streams of look-ups.
//!
//! All key look-ups of one socket read are answered from one snapshot, in one response unless it
//! gets too long. Answers come in the order of the look-ups. A key without a row gets no entry: the
//! number of answered look-ups passes it over.

mod answers;
mod reader;

use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use thalweg_query::Session;
use thalweg_types::{Error, Result};
use tonic::body::Body;

use super::caller::{CallSession, Caller, shutting_down, terminated};
use super::incoming::Incoming;
use super::memory::Held;
use super::ranges::{self, Statements};
use super::service::RecordsService;
use crate::grpc::{Upload, streamed};
use crate::read_ahead::{Pieces, ReadAhead};
use answers::Answers;
use reader::{LookUp, LookUpReader};

pub(super) fn two_way(
    service: Arc<RecordsService>,
    caller: Caller,
    body: Upload,
) -> Response<Body> {
    streamed(ReadAhead::start(async move |pieces| {
        let Caller { records, session, call_session } = caller;
        let message_bytes_max = call_session.shared.config.limits.record_message_bytes;
        let reader = LookUpReader::new(records);
        let incoming = Incoming::new(body, message_bytes_max, reader);
        let ended = call_session.ended();
        let ranges = Statements::default();
        let mut stream = SearchStream { service, session, ranges, call_session, incoming, pieces };
        let searched = tokio::select! {
            biased;
            () = ended => Err(terminated()),
            done = stream.go_on() => done,
        };
        stream.call_session.count_end(searched.as_ref().err());
        searched
    }))
}

struct SearchStream {
    service: Arc<RecordsService>,
    session: Session,
    ranges: Statements,
    call_session: CallSession,
    incoming: Incoming<LookUpReader>,
    pieces: Pieces<Bytes>,
}

impl SearchStream {
    /// Answers look-ups until the client ends the stream.
    ///
    /// # Errors
    /// If the stream ends before its client ended it.
    async fn go_on(&mut self) -> Result<()> {
        let mut drained = std::pin::pin!(self.call_session.drained());
        while !self.incoming.has_ended() {
            tokio::select! {
                biased;
                () = &mut drained => self.incoming.stop(shutting_down()),
                () = self.incoming.read() => {}
            }
            self.call_session.metrics().read();
            let held = self.service.memory.hold(self.incoming.whole_bytes()).await;
            let answered = self.incoming.reader.answered();
            self.incoming.take_apart();
            self.answer(answered, held).await?;
        }
        self.incoming.end()
    }

    /// Answers the look-ups of one read.
    async fn answer(&mut self, answered: u64, held: Held) -> Result<()> {
        let (answers, held) = (Answers::new(answered), Some(held));
        let mut telling = Telling { answers, held, pieces: &self.pieces };
        for look_up in self.incoming.reader.finish() {
            match look_up {
                LookUp::Keys(run) => {
                    let keys = run.len();
                    let found = run.answer(self.incoming.reader.records(), &mut telling).await?;
                    self.call_session.metrics().looked_up(keys, found);
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

/// Answers on their way to the client.
pub(super) struct Telling<'a> {
    pub(super) answers: Answers,
    /// Memory of the requests, held until the first response is handed over. Others must not wait
    /// for a client that does not read.
    held: Option<Held>,
    pieces: &'a Pieces<Bytes>,
}

impl Telling<'_> {
    /// Sends the pending answers, if there are any.
    pub(super) async fn send(&mut self) -> Result<()> {
        let Some(response) = self.answers.take() else { return Ok(()) };
        self.held = None;
        self.pieces.push(response).await.map_err(|_| Error::internal("the client has left"))
    }

    /// Sends the pending answers if they reach the size of a response.
    pub(super) async fn send_if_long(&mut self) -> Result<()> {
        if self.answers.is_long() { self.send().await } else { Ok(()) }
    }
}
