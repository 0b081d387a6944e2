use std::task::{Context, Poll};

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_types::{Error, Result, SqlState};

use super::*;

fn take_all(writer: &mut ChunkWriter) -> Vec<Bytes> {
    std::iter::from_fn(|| writer.take_any()).collect()
}

fn cut(cutter: &mut Cutter, pieces: &[Bytes]) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for piece in pieces {
        cutter.feed(piece, |message| {
            assert_eq!(&message.to_bytes()[..], &message[..]);
            found.push(message.to_vec());
            Ok::<_, Error>(())
        })?;
    }
    Ok(found)
}

proptest! {
    #[test]
    fn messages_come_out_however_the_chunks_are_cut(
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
        cuts in prop::collection::vec(1..30_usize, 1..8),
    ) {
        let mut writer = ChunkWriter::new(Pool::new(4));
        for (place, message) in messages.iter().enumerate() {
            match place % 6 {
                0 => writer.message(&[message]),
                2 => writer.shared(&message.clone().into()),
                3 => {
                    let (left, right) = message.split_at(message.len() / 3);
                    writer.message_of([left.to_vec().into(), right.to_vec().into()]);
                }
                4 => writer
                    .message_until(|bytes, _| {
                        bytes.extend_from_slice(message);
                        Ok(())
                    })
                    .unwrap(),
                1 => {
                    let (left, right) = message.split_at(message.len() / 2);
                    writer.message(&[left, right]);
                }
                _ => writer.cached(framed(message)),
            }
        }
        let mut body = Bytes::from(take_all(&mut writer).concat());
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            pieces.push(body.split_to((*cut).min(body.len())));
            if body.is_empty() {
                break;
            }
        }
        let mut cutter = Cutter::new(100);
        prop_assert_eq!(cut(&mut cutter, &pieces).unwrap(), messages);
        prop_assert!(cutter.is_between_messages());
    }
}

#[test]
fn whole_messages_are_not_copied() {
    let piece = Bytes::from([framed(b"one"), framed(b"three")].concat());
    let mut places = Vec::new();
    Cutter::new(100)
        .feed(&piece, |message| {
            places.push(message.to_bytes().as_ptr() as usize - piece.as_ptr() as usize);
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(places, [5, 13]);
}

#[test]
fn a_message_behind_a_prefix_that_came_alone_is_not_copied() {
    let message = Bytes::from(vec![7; 100_000]);
    let mut writer = ChunkWriter::new(Pool::new(4));
    writer.shared(&message);
    let pieces = take_all(&mut writer);
    assert_eq!(pieces[1].as_ptr(), message.as_ptr(), "it goes out as it lies");
    let mut cutter = Cutter::new(1 << 20);
    let mut found = Vec::new();
    for piece in &pieces {
        cutter
            .feed(piece, |message| {
                found.push(message.to_bytes());
                Ok::<_, Error>(())
            })
            .unwrap();
    }
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].as_ptr(), message.as_ptr(), "it stays where it came");
}

#[test]
fn the_first_chunk_is_small_and_the_others_are_large() {
    let mut writer = ChunkWriter::new(Pool::new(4));
    let mut lengths = Vec::new();
    for _ in 0..8_000 {
        writer.message(&[&[7; 95]]);
        lengths.extend(writer.take_full().map(|chunk| chunk.len()));
    }
    assert_eq!(lengths[0], FIRST_CHUNK_BYTES.next_multiple_of(100));
    assert!(lengths[1..].iter().all(|length| *length > CHUNK_BYTES - 100), "{lengths:?}");
    assert!(lengths.len() > 2);
}

#[test]
fn a_message_larger_than_a_chunk_is_a_chunk_of_its_own() {
    let mut writer = ChunkWriter::new(Pool::new(4));
    writer.message(&[b"small"]);
    writer.message(&[&vec![1; 3 * CHUNK_BYTES]]);
    writer.message(&[b"small"]);
    let lengths: Vec<usize> = take_all(&mut writer).iter().map(Bytes::len).collect();
    assert_eq!(lengths, [10, 3 * CHUNK_BYTES + 5, 10]);
}

#[test]
fn buffers_come_back_when_nobody_reads_them() {
    let pool = Pool::new(1);
    let mut writer = ChunkWriter::new(pool.clone());
    let mut chunks = Vec::new();
    for _ in 0..2 {
        writer.message(&[b"bytes"]);
        chunks.extend(writer.take_any());
    }
    let part = chunks[0].slice(5..);
    assert_eq!(pool.free(), 0);
    chunks.clear();
    assert_eq!(pool.free(), 1, "one is still read");
    drop(part);
    assert_eq!(pool.free(), 1, "no more are kept than was said");
}

#[test]
fn long_and_compressed_messages_are_refused() {
    let feed = |bytes: &[u8]| {
        let piece = Bytes::copy_from_slice(bytes);
        Cutter::new(9).feed(&piece, |_| Ok::<_, Error>(()))
    };
    for bad in [&[0, 0, 0, 0, 10][..], &[1, 0, 0, 0, 1, 7]] {
        assert_eq!(feed(bad).unwrap_err().state(), SqlState::PROTOCOL_VIOLATION);
        // A prefix in two pieces is rejected, too.
        let mut cutter = Cutter::new(9);
        let mut halves = bad.chunks(3).map(Bytes::copy_from_slice);
        let mut next = || halves.next().unwrap();
        cutter.feed(&next(), |_| Ok::<_, Error>(())).unwrap();
        assert!(cutter.feed(&next(), |_| Ok::<_, Error>(())).is_err());
    }
    assert!(feed(&[0, 0, 0, 0, 9]).is_ok());
}

/// Writes a message, is pending once, then writes another message and ends.
struct Halting(Vec<&'static str>, Result<()>);

impl Source for Halting {
    fn poll_fill(&mut self, _: &mut Context<'_>, writer: &mut ChunkWriter) -> Poll<Result<Fill>> {
        match self.0.pop() {
            None => Poll::Ready(self.1.clone().map(|()| Fill::End)),
            Some("") => Poll::Pending,
            Some(message) => {
                writer.message(&[message.as_bytes()]);
                Poll::Ready(Ok(Fill::More))
            }
        }
    }
}

#[test]
fn a_body_waits_for_nothing_and_says_how_it_ended() {
    use hyper::body::Body as _;
    let failed = Err(Error::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
    for (end, code) in [(Ok(()), "0"), (failed, "3")] {
        let source = Halting(vec!["b", "", "a"], end);
        let mut body = std::pin::pin!(ChunkBody::new(Pool::new(1), source));
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut next = || match body.as_mut().poll_frame(&mut context) {
            Poll::Ready(frame) => frame.map(|frame| frame.unwrap()),
            Poll::Pending => panic!("it has something to say"),
        };
        assert_eq!(next().unwrap().into_data().unwrap(), framed(b"a"));
        assert_eq!(next().unwrap().into_data().unwrap(), framed(b"b"));
        let trailers = next().unwrap().into_trailers().unwrap();
        assert_eq!(trailers["grpc-status"], code);
        assert!(next().is_none());
    }
}
