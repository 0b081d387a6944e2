//! Streams that look rows up.
//!
//! All look-ups that one read brought are answered from one snapshot, in one response if it is not
//! too long. Answers come in the order of the look-ups; keys that no row has are answered by being
//! passed over.

mod answers;
mod reader;

use std::sync::Arc;

use bytes::Bytes;
use hyper::Response;
use thalweg_types::{Error, Result};
use tonic::body::Body;

use super::door::Hall;
use super::guest::{Guest, shutting_down, terminated};
use super::incoming::Incoming;
use super::ranges;
use crate::grpc::{Upload, streamed};
use crate::pump::{Pieces, Pump};
pub(super) use answers::Answers;
use reader::{LookUp, LookUpReader};

pub(super) fn two_way(hall: Arc<Hall>, guest: Guest, body: Upload) -> Response<Body> {
    streamed(Pump::start(async move |pieces| {
        let Guest { records, mut session, seat } = guest;
        let message_bytes_max = seat.shared.config.limits.record_message_bytes;
        let reader = LookUpReader::new(records);
        let mut incoming = Incoming::new(body, message_bytes_max, reader);
        let (ended, drained) = (seat.ended(), seat.drained());
        let (mut ended, mut drained) = (std::pin::pin!(ended), std::pin::pin!(drained));
        let searched = loop {
            if incoming.has_ended() {
                break incoming.end();
            }
            tokio::select! {
                biased;
                () = &mut ended => break Err(terminated()),
                () = &mut drained => incoming.stop(shutting_down()),
                () = incoming.read() => {}
            }
            seat.metrics().read();
            let held = hall.memory.hold(incoming.take_read_bytes()).await;
            let answered = async {
                let mut answers = Answers::new(incoming.reader.answered());
                for look_up in incoming.reader.finish() {
                    match look_up {
                        LookUp::Keys(run) => {
                            let keys = run.len();
                            let found = run.answer(incoming.reader.records(), &mut answers).await?;
                            seat.metrics().looked_up(keys, found);
                        }
                        LookUp::Range(index, range) => {
                            send(&mut answers, &pieces).await?;
                            let range =
                                ranges::answer(&mut session, index, range, &mut answers, &pieces);
                            range.await?;
                        }
                        LookUp::Failed(index, error) => answers.fail(index, &error),
                    }
                    if answers.is_long() {
                        send(&mut answers, &pieces).await?;
                    }
                }
                send(&mut answers, &pieces).await
            };
            let answered = answered.await;
            drop(held);
            if let Err(error) = answered {
                break Err(error);
            }
        };
        seat.count_end(searched.as_ref().err());
        searched
    }))
}

/// Sends the answers so far, if there are any.
pub(super) async fn send(answers: &mut Answers, pieces: &Pieces<Bytes>) -> Result<()> {
    match answers.take() {
        None => Ok(()),
        Some(response) => {
            pieces.push(response).await.map_err(|_| Error::internal("the client has left"))
        }
    }
}
