use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt as _;
use thalweg_types::{ErrorKind, SqlState};

use super::*;
use crate::chunks::Cutter;
use crate::node::{FETCH, ServeOptions};
use crate::tests::*;

async fn connect(name: &NodeName) -> Link {
    Link::connect(name.clone(), &impatient()).await.unwrap()
}

const FEW: Wanted = Wanted { messages: 3, bytes: 10, end: End::Well };

async fn read(mut answer: Answer) -> Result<Vec<Vec<u8>>> {
    let (mut cutter, mut found) = (Cutter::new(1 << 20), Vec::new());
    while let Some(piece) = answer.piece().await? {
        cutter.feed(&piece, |message| {
            found.push(message.to_vec());
            Ok::<_, Error>(())
        })?;
    }
    Ok(found)
}

#[tokio::test]
async fn a_worker_answers_in_messages() {
    let worker = TestWorker::start(1);
    let link = connect(&worker.name).await;
    let wanted = Wanted { messages: 1_000, bytes: 1_000, end: End::Well };
    let found = read(link.call(FETCH, &wanted.question()).await.unwrap()).await.unwrap();
    assert_eq!(found, (0..1_000).map(|number| message(number, 1_000)).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_error_comes_behind_what_was_sent_before_it() {
    let worker = TestWorker::start(1);
    let link = connect(&worker.name).await;
    let wanted = Wanted { end: End::Badly, ..FEW };
    let mut answer = link.call(FETCH, &wanted.question()).await.unwrap();
    assert!(answer.piece().await.unwrap().is_some());
    let error = answer.piece().await.unwrap_err();
    assert_eq!((error.state(), error.message()), (SqlState::DIVISION_BY_ZERO, "division by zero"));
    // The link can still be used.
    let found = read(link.call(FETCH, &FEW.question()).await.unwrap()).await.unwrap();
    assert_eq!(found.len(), 3);
}

#[tokio::test]
async fn calls_that_nobody_knows_are_refused() {
    let worker = TestWorker::start(1);
    let link = connect(&worker.name).await;
    let error = link.call("/thalweg.cluster.v1.Nobody/Knows", b"").await.err().unwrap();
    assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED);
}

#[tokio::test]
async fn an_answer_that_is_dropped_ends_the_work() {
    let worker = TestWorker::start(1);
    let link = connect(&worker.name).await;
    let wanted = Wanted { end: End::Never, ..FEW };
    let answer = link.call(FETCH, &wanted.question()).await.unwrap();
    assert_eq!(worker.counters.open.load(Ordering::Relaxed), 1);
    drop(answer);
    until("the worker stops", || worker.counters.open.load(Ordering::Relaxed) == 0).await;
}

const ENDLESS: Wanted = Wanted { messages: u64::MAX, bytes: 10_000, end: End::Never };

async fn is_read_on(held: &mut Answer) {
    for _ in 0..100 {
        assert!(held.piece().await.unwrap().is_some());
    }
}

/// By default, servers treat many calls that are canceled at once as an attack.
#[tokio::test]
async fn calls_that_are_given_up_before_they_are_seen_end_no_other() {
    let worker = TestWorker::start(1);
    let link = connect(&worker.name).await;
    let mut held = link.call(FETCH, &ENDLESS.question()).await.unwrap();
    for _ in 0..1_000 {
        assert!(link.call(FETCH, &FEW.question()).now_or_never().is_none());
    }
    is_read_on(&mut held).await;
}

/// A node is not at fault either if its answers are canceled faster than it learns of it.
#[tokio::test]
async fn answers_that_are_given_up_end_no_other() {
    let worker = TestWorker::start(1);
    let options = impatient().for_nodes(64, 4 << 20).for_each_answer();
    let link = Link::connect(worker.name.clone(), &options).await.unwrap();
    let mut held = link.call(FETCH, &ENDLESS.question()).await.unwrap();
    for _ in 0..40 {
        let mut given_up = Vec::new();
        for _ in 0..80 {
            given_up.push(link.call(FETCH, &ENDLESS.question()).await.unwrap());
        }
        for answer in &mut given_up {
            answer.piece().await.unwrap();
        }
        drop(given_up);
        is_read_on(&mut held).await;
    }
}

#[tokio::test]
async fn an_answer_of_two_messages_is_not_gathered() {
    let worker = TestWorker::start(1);
    let link = connect(&worker.name).await;
    let answer = link.call(FETCH, &ENDLESS.question()).await.unwrap();
    let error = answer.message().await.unwrap_err();
    assert_eq!(error.state(), SqlState::PROTOCOL_VIOLATION);
    assert!(error.message().contains(&worker.name.to_string()), "{error}");
}

#[tokio::test]
async fn what_is_not_read_is_not_made() {
    let worker = TestWorker::start(1);
    let options = LinkOptions { stream_window_bytes: 100_000, ..impatient() };
    let link = Link::connect(worker.name.clone(), &options).await.unwrap();
    let mut answer = link.call(FETCH, &ENDLESS.question()).await.unwrap();
    let mut read_bytes = 0;
    while read_bytes < 10 << 20 {
        read_bytes += answer.piece().await.unwrap().unwrap().len() as u64;
    }
    // Meanwhile, other calls of the same link go on, and pings are answered.
    for _ in 0..3 {
        read(link.call(FETCH, &FEW.question()).await.unwrap()).await.unwrap();
    }
    let written = worker.counters.written_bytes.load(Ordering::Relaxed);
    let ahead = written.saturating_sub(read_bytes);
    assert!(ahead < 3 << 20, "{ahead} bytes were made that nobody wanted");
}

#[test]
fn what_may_lie_unread_is_divided_among_the_nodes() {
    let windows = |nodes| {
        let options = LinkOptions::default().for_nodes(nodes, 4 << 20);
        (options.stream_window_bytes, options.connection_window_bytes)
    };
    for few in [0, 1, 4] {
        assert_eq!(windows(few), (1 << 20, 4 << 20), "{few} nodes");
    }
    assert_eq!(windows(16), (256 << 10, 1 << 20));
    // HTTP/2 has no smaller window for connections.
    assert_eq!(windows(2_160), (65_535, 65_535));
    let apart = LinkOptions::default().for_nodes(2_160, 4 << 20).for_each_answer();
    assert_eq!(apart.stream_window_bytes, 65_535);
    assert_eq!(apart.connection_window_bytes, i32::MAX as u32);
}

#[tokio::test]
async fn nobody_there_is_said_with_the_name() {
    let worker = TestWorker::start(7);
    let name = worker.name.clone();
    worker.end().await;
    let error = Link::connect(name.clone(), &impatient()).await.err().unwrap();
    assert_eq!(error.state(), SqlState::CONNECTION_FAILURE);
    assert!(error.message().starts_with(&format!("worker 7 at {}", name.address)), "{error}");
}

#[tokio::test]
async fn a_worker_that_goes_dead_is_given_up() {
    let worker = TestWorker::start(7);
    let wire = Wire::to(&worker.name).await;
    let link = connect(&wire.name).await;
    let wanted = Wanted { end: End::Never, ..FEW };
    let mut answer = link.call(FETCH, &wanted.question()).await.unwrap();
    assert!(answer.piece().await.unwrap().is_some());
    wire.set(WireState::Dead);
    let error = answer.piece().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.message().contains("worker 7"), "{error}");
    assert!(error.message().contains("silent for 400 ms"), "{error}");
    until("the link knows", || link.is_closed()).await;
}

#[tokio::test]
async fn a_worker_that_is_slow_is_waited_for() {
    let worker = TestWorker::start(7);
    let link = connect(&worker.name).await;
    let wanted = Wanted { end: End::Never, ..FEW };
    let mut answer = link.call(FETCH, &wanted.question()).await.unwrap();
    answer.piece().await.unwrap();
    let silence = impatient().silence;
    let waited = thalweg_runtime::timeout(3 * silence, answer.piece()).await;
    assert!(waited.is_err(), "it answers pings, and has nothing to say");
}

#[tokio::test]
async fn a_worker_that_was_restarted_is_used_again() {
    let worker = TestWorker::start(7);
    let address = worker.name.address;
    let kept = ReconnectingLink::new(worker.name.clone(), Arc::new(impatient()));
    for _ in 0..2 {
        read(kept.call(FETCH, &FEW.question()).await.unwrap()).await.unwrap();
    }
    worker.end().await;
    assert_eq!(kept.call(FETCH, b"").await.err().unwrap().kind(), ErrorKind::Unavailable);
    let again = TestWorker::at(7, address, ServeOptions::default());
    let found = read(kept.call(FETCH, &FEW.question()).await.unwrap()).await.unwrap();
    assert_eq!((found.len(), again.counters.asked.load(Ordering::Relaxed)), (3, 1));
}

#[tokio::test]
async fn a_connection_that_was_cut_is_made_anew() {
    let worker = TestWorker::start(7);
    let wire = Wire::to(&worker.name).await;
    let kept = ReconnectingLink::new(wire.name.clone(), Arc::new(impatient()));
    let wanted = Wanted { end: End::Never, ..FEW };
    let mut answer = kept.call(FETCH, &wanted.question()).await.unwrap();
    answer.piece().await.unwrap();
    wire.set(WireState::Cut);
    let error = answer.piece().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    wire.set(WireState::Working);
    read(kept.call(FETCH, &FEW.question()).await.unwrap()).await.unwrap();
}
