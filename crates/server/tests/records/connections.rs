//! Connections that are lost: what is asked and sent again, and what is not.

use std::time::Duration;

use futures::{StreamExt, stream};
use thalweg_client::{Client, Error, Operation, Range, Retries, Writer};
use thalweg_protocol::WRITER_HEADER;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request};

use crate::streaming::{WIDE, WIDE_ROWS, key};
use crate::support::{World, account, announce, codes, id, packed};
use crate::wire::{Condition, Wire};

async fn world_and_wire() -> (World, Wire) {
    let world = World::new().await;
    let wire = Wire::to(world.server.addresses().grpc).await;
    (world, wire)
}

/// A client that tries again at once, and long enough.
async fn client(wire: &Wire) -> Client {
    let wait = Duration::from_millis(1);
    let retries = Retries { count: 60_000, wait, wait_max: wait };
    Client::builder().retries(retries).connect(&wire.url).await.unwrap()
}

async fn resending(wire: &Wire) -> Writer {
    client(wire).await.resending_writer().await.unwrap()
}

/// Waits until the database says so.
async fn until(world: &World, sql: &str, answer: &str) {
    while world.sql(sql).await != [answer] {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn look_ups_are_asked_again() {
    let (world, wire) = world_and_wire().await;
    world.sql("INSERT INTO account SELECT i, i, 'a' FROM generate_series(1, 9) AS s(i)").await;
    let client = client(&wire).await;
    let mut searcher = client.searcher().await.unwrap();
    for round in 0..5 {
        // Each stream is told of all tables that were announced until then.
        let table = searcher.table("account", &["id"]);
        assert_eq!(table, round);
        let found = searcher.look_up(table, vec![id(7), id(10)]).await.unwrap();
        assert_eq!(
            (&found[0].as_ref().unwrap().packed[..], found[1].is_none()),
            (&id(7)[..], true)
        );
        wire.cut();
        let range = Range { table: 0, ..Range::default() };
        assert_eq!(searcher.range(range).await.unwrap().len(), 9);
        wire.cut();
        assert_eq!(client.describe("account").await.unwrap().key, ["id"]);
    }
    // What is under way is asked again as well.
    wire.set(Condition::Deaf);
    let (found, ()) = tokio::join!(searcher.look_up(0, vec![id(3)]), async { wire.cut() });
    assert!(found.unwrap()[0].is_some());
}

#[tokio::test]
async fn ranges_are_asked_again_until_a_row_was_handed_on() {
    let (world, wire) = world_and_wire().await;
    world.sql(WIDE).await;
    let mut searcher = client(&wire).await.searcher().await.unwrap();
    let table = searcher.table("account", &[]);
    wire.set(Condition::Deaf);
    let mut rows = searcher.stream_range(Range { table, ..Range::default() });
    let (first, ()) = tokio::join!(rows.next(), async { wire.cut() });
    assert_eq!(key(&first.unwrap().unwrap()), 1);
    wire.cut();
    let rest: Vec<_> = rows.collect().await;
    let (lost, found) = rest.split_last().unwrap();
    assert!(lost.as_ref().unwrap_err().is_lost_connection());
    let keys: Vec<i32> = found.iter().map(|row| key(row.as_ref().unwrap())).collect();
    assert_eq!(keys, (2..).take(keys.len()).collect::<Vec<_>>());
    assert!(keys.len() + 1 < WIDE_ROWS as usize);
    assert_eq!(searcher.range(Range { table, ..Range::default() }).await.unwrap().len(), 150);
}

#[tokio::test]
async fn streamed_keys_go_on_behind_the_rows_that_were_handed_on() {
    let (world, wire) = world_and_wire().await;
    world.sql(WIDE).await;
    let mut searcher = client(&wire).await.searcher().await.unwrap();
    let table = searcher.table("account", &[]);
    // Every other one is of no row.
    let keys = (1..=WIDE_ROWS).flat_map(|n| [id(-n), id(n)]).collect();
    let mut rows = searcher.stream_look_up(table, keys);
    wire.cut();
    for n in 1..=WIDE_ROWS {
        assert!(rows.next().await.unwrap().unwrap().is_none());
        assert_eq!(key(&rows.next().await.unwrap().unwrap().unwrap().packed), n);
        if n % 50 == 1 {
            wire.cut();
        }
    }
    assert!(rows.next().await.is_none());
}

#[tokio::test]
async fn look_ups_under_way_are_asked_again() {
    let (world, wire) = world_and_wire().await;
    world.sql("INSERT INTO account SELECT i, i, 'a' FROM generate_series(1, 500) AS s(i)").await;
    let searcher = client(&wire).await.pipelined_searcher().await.unwrap();
    for round in 0..6 {
        let table = searcher.table("account", &["id"]);
        if round % 2 == 1 {
            wire.set(Condition::Deaf);
        }
        let mut answers = Vec::new();
        for n in 1..=500 {
            answers.push(searcher.look_up(table, vec![id(n), id(-n)]).await.unwrap());
            tokio::task::yield_now().await;
            if n == 250 {
                wire.cut();
            }
        }
        let range = searcher.range(Range { table, ..Range::default() }).await.unwrap();
        wire.cut();
        for (n, answer) in (1..).zip(answers) {
            let found = answer.await.unwrap();
            assert_eq!(found[0].as_ref().unwrap().packed, id(n));
            assert!(found[1].is_none());
        }
        assert_eq!(range.await.unwrap().len(), 500);
    }
}

#[tokio::test]
async fn look_ups_that_are_not_asked_again_are_told_of_the_loss() {
    let (world, wire) = world_and_wire().await;
    world.sql("INSERT INTO account VALUES (1, 1, 'a')").await;
    let builder = Client::builder().retries(Retries::NEVER);
    let searcher = builder.connect(&wire.url).await.unwrap().pipelined_searcher().await.unwrap();
    let table = searcher.table("account", &[]);
    wire.set(Condition::Torn);
    let lost = searcher.look_up(table, vec![id(1)]).await.unwrap();
    let lost = lost.await.unwrap_err();
    assert!(lost.is_lost_connection(), "{lost}");
    wire.set(Condition::Whole);
    // It goes on with the next one that finds the server there.
    loop {
        match searcher.look_up(table, vec![id(1)]).await.unwrap().await {
            Ok(found) => {
                assert!(found[0].is_some());
                break;
            }
            Err(error) => assert!(error.is_lost_connection(), "{error}"),
        }
    }
}

#[tokio::test]
async fn rows_come_in_their_order_however_often_the_connection_breaks() {
    const KEYS: i32 = 100;
    const ROWS: i32 = 50_000;
    let (world, wire) = world_and_wire().await;
    let mut writer = resending(&wire).await;
    let table = writer.table("account", &[]).await.unwrap();
    let mut sent_ahead = None;
    for number in 0..ROWS {
        let key = number % KEYS;
        // Odd keys are there and gone in turns, and there at the end.
        if key % 2 == 1 && number / KEYS % 2 == 1 {
            writer.remove(table, id(key)).await.unwrap();
        }
        let written = writer.upsert(table, account(key, number, "a")).await.unwrap();
        let group = [1, 2].map(|of| table.change(Operation::Upsert, account(-of, number, "two")));
        writer.atomic(group.into()).await.unwrap();
        match number % 5_000 {
            0 => sent_ahead = Some(written),
            500 => {
                sent_ahead.take().unwrap().await.unwrap();
                wire.cut();
            }
            _ => {}
        }
    }
    writer.flush().await.unwrap();
    let summary = "SELECT count(*), min(amount), max(amount) FROM account WHERE id >= 0";
    let (least, most) = (ROWS - KEYS, ROWS - 1);
    assert_eq!(world.sql(summary).await, [format!("{KEYS}|{least}|{most}")]);
    let wrong = format!("SELECT * FROM account WHERE id >= 0 AND amount % {KEYS} <> id");
    assert!(world.sql(&wrong).await.is_empty());
    let pairs = "SELECT count(*), min(amount), max(amount) FROM account WHERE id < 0";
    assert_eq!(world.sql(pairs).await, [format!("2|{most}|{most}")]);
}

#[tokio::test]
async fn rows_whose_acknowledgement_was_lost_count_once() {
    let (world, wire) = world_and_wire().await;
    world.sql("INSERT INTO account VALUES (1, 1, 'a'), (2, 2, 'b')").await;
    let mut writer = resending(&wire).await;
    let table = writer.table("account", &[]).await.unwrap();
    let before = writer.remove(table, id(9)).await.unwrap();
    assert_eq!(before.await.unwrap_err().sqlstate(), Some("P0002"));
    wire.set(Condition::Deaf);
    let removed = writer.remove(table, id(1)).await.unwrap();
    let upserted = writer.upsert(table, account(2, 3, "c")).await.unwrap();
    until(&world, "SELECT id, amount FROM account", "2|3").await;
    wire.cut();
    removed.await.unwrap();
    upserted.await.unwrap();
    assert_eq!(writer.acknowledged(), 3);
    let gone = writer.remove(table, id(1)).await.unwrap();
    assert_eq!(gone.await.unwrap_err().sqlstate(), Some("P0002"));
}

#[tokio::test]
async fn what_may_not_be_done_twice_is_not_sent_twice() {
    let (world, wire) = world_and_wire().await;
    world.sql("INSERT INTO account VALUES (1, 0, 'a')").await;
    for done in 1..=3 {
        wire.set(Condition::Whole);
        let mut writer = resending(&wire).await;
        let table = writer.table("account", &[]).await.unwrap();
        writer.upsert(table, account(9, done, "first")).await.unwrap().await.unwrap();
        wire.set(Condition::Deaf);
        let change = match done {
            1 => table.change(Operation::Create, account(2, 1, "b")),
            2 => table.change(Operation::Update, account(1, 1, "b")),
            _ => table.change(Operation::Upsert, account(3, 1, "c")).expecting(0),
        };
        let written = writer.change(change).await.unwrap();
        let all = "SELECT count(*) FROM account WHERE amount = 1 AND id < 9";
        until(&world, all, &done.to_string()).await;
        wire.cut();
        let lost = written.await.unwrap_err();
        assert!(lost.is_lost_connection(), "{lost}");
        let behind = writer.upsert(table, account(8, 8, "behind")).await;
        assert!(behind.is_err() || behind.unwrap().await.is_err());
        assert_eq!(writer.acknowledged(), 1);
    }
    assert!(world.sql("SELECT * FROM account WHERE id = 8").await.is_empty());
}

#[tokio::test]
async fn what_never_left_is_sent_whatever_it_is() {
    let (world, mut wire) = world_and_wire().await;
    let mut writer = resending(&wire).await;
    let table = writer.table("account", &[]).await.unwrap();
    writer.upsert(table, account(1, 1, "a")).await.unwrap().await.unwrap();
    wire.tear().await;
    let created = writer.create(table, account(2, 2, "b")).await.unwrap();
    let absent = table.change(Operation::Upsert, account(3, 3, "c")).expecting(0);
    let group = writer.atomic(vec![absent]).await.unwrap();
    wire.set(Condition::Whole);
    created.await.unwrap();
    group.await.unwrap();
    assert_eq!(world.sql("SELECT id FROM account ORDER BY id").await, ["1", "2", "3"]);
}

#[tokio::test]
async fn others_end_with_their_connection() {
    let (_world, mut wire) = world_and_wire().await;
    let mut writer = client(&wire).await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    writer.upsert(table, account(1, 1, "a")).await.unwrap().await.unwrap();
    wire.set(Condition::Deaf);
    let lost = writer.upsert(table, account(2, 2, "b")).await.unwrap();
    wire.cut();
    assert!(lost.await.unwrap_err().is_lost_connection());
    assert_eq!(writer.acknowledged(), 1);
    // Tries come to an end.
    let retries = Retries { count: 3, wait: Duration::ZERO, wait_max: Duration::ZERO };
    let builder = Client::builder().retries(retries);
    let impatient = builder.connect(&wire.url).await.unwrap();
    let mut searcher = impatient.searcher().await.unwrap();
    let mut writer = impatient.resending_writer().await.unwrap();
    wire.tear().await;
    let account_table = searcher.table("account", &[]);
    let lost = searcher.look_up(account_table, vec![id(1)]).await.unwrap_err();
    assert!(lost.is_lost_connection(), "{lost}");
    let table = writer.table("account", &[]).await;
    let ended = match table {
        Ok(table) => match writer.upsert(table, account(3, 3, "c")).await {
            Ok(written) => written.await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    assert!(ended.unwrap_err().is_lost_connection());
}

#[tokio::test]
async fn a_deadline_ends_what_is_waited_for() {
    let (_world, wire) = world_and_wire().await;
    let builder = Client::builder().deadline(Duration::from_secs(1));
    let client = builder.connect(&wire.url).await.unwrap();
    let mut searcher = client.searcher().await.unwrap();
    let pipelined = client.pipelined_searcher().await.unwrap();
    let mut writers = [client.writer().await.unwrap(), client.resending_writer().await.unwrap()];
    wire.set(Condition::Deaf);
    let table = searcher.table("account", &[]);
    let mut late = vec![searcher.look_up(table, vec![id(1)]).await.unwrap_err()];
    let mut rows = searcher.stream_range(Range { table, ..Range::default() });
    late.push(rows.next().await.unwrap().unwrap_err());
    let table = pipelined.table("account", &[]);
    late.push(pipelined.look_up(table, vec![id(1)]).await.unwrap().await.unwrap_err());
    for writer in &mut writers {
        let table = writer.table("account", &[]).await;
        late.push(match table {
            Ok(table) => match writer.upsert(table, account(1, 1, "a")).await {
                Ok(written) => written.await.unwrap_err(),
                Err(error) => error,
            },
            Err(error) => error,
        });
    }
    for error in late {
        match error {
            Error::Ended(status) => assert_eq!(status.code(), Code::DeadlineExceeded, "{status}"),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_writers_next_stream_ends_the_one_before() {
    let world = World::new().await;
    let mut records = world.client().await.records();
    let (sender, requests) = mpsc::channel(8);
    let mut first = Request::new(ReceiverStream::new(requests));
    first.metadata_mut().insert(WRITER_HEADER, "one".parse().unwrap());
    let mut replies = records.write(first).await.unwrap().into_inner();
    sender.send(announce("account")).await.unwrap();
    sender.send(packed([account(1, 1, "a")])).await.unwrap();
    assert_eq!(replies.message().await.unwrap().unwrap().durable, 1);

    let requests = [announce("account"), packed([account(2, 2, "b")])];
    let mut next = Request::new(stream::iter(requests));
    next.metadata_mut().insert(WRITER_HEADER, "one".parse().unwrap());
    let mut others = records.write(next).await.unwrap().into_inner();
    assert_eq!(others.message().await.unwrap().unwrap().durable, 1);
    let ended = replies.message().await.unwrap_err();
    assert_eq!(codes(&ended), (Code::Cancelled, "57014".to_owned()));
    assert!(others.message().await.unwrap().is_none());

    let mut endless = Request::new(stream::iter([announce("account")]));
    endless.metadata_mut().insert(WRITER_HEADER, "x".repeat(65).parse().unwrap());
    let refused = records.write(endless).await.unwrap_err();
    assert_eq!(codes(&refused), (Code::InvalidArgument, "08P01".to_owned()));
}
