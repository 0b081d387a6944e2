//! A server that is killed at any moment, with as many rows under way as its clients can send.
//!
//! Several streams write at once, each in its own way, and keep their own account of what was
//! acknowledged. Whenever the server is opened again, each stream's rows are there without a gap
//! from its first on, at least as far as was acknowledged; groups are there whole or not at all;
//! and what was there after one death is there after all others.
//!
//! `THALWEG_CASES` sets how often the server is killed, `THALWEG_SEED` the moments.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;

use thalweg_client::v1::{Operation, Rows, Table, WriteRequest, WriteResponse};
use thalweg_client::{Client, RowWriter};
use thalweg_env::SeededRandom;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::records::serve;
use crate::run::{sql_on, text, thalweg};

/// How often the server is killed, unless that is set.
const KILLS: u64 = 4;
/// The server is killed after fewer acknowledged rows than 2 to the power of this.
const ROWS_BITS: u64 = 19;
/// Rows of one stream that may be under way: a million for all of them.
const UNDER_WAY: u64 = 250_000;
/// Of so many creations, the last one is of a row that is there.
const CREATIONS: u64 = 97;
/// Numbers that are written whole or not at all, in two tables each.
const GROUP: u64 = 10;
/// Keys that are written again and again.
const KEYS: u64 = 1_000;

/// How a stream writes. Its rows are numbered from 0 on, and have the keys from
/// [`first_key`] on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Each row is new.
    Upserts,
    /// Some rows are refused.
    Creates,
    /// Messages are written whole or not at all.
    Groups,
    /// Row `n` has the key `n % KEYS`.
    Rewrites,
}

const KINDS: [Kind; 4] = [Kind::Upserts, Kind::Creates, Kind::Groups, Kind::Rewrites];

/// A stream, and what became of it.
struct Account {
    kind: Kind,
    stream: u64,
    /// How many rows of it are acknowledged, and were sent at most.
    durable: u64,
    sent: u64,
    /// What the tables had of it after its server's death.
    found: Option<Found>,
}

/// What a stream's rows in a table are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    rows: u64,
    first_key: u64,
    last_key: u64,
    least_value: u64,
    greatest_value: u64,
    /// Rows whose value is not the one of their key, and not one of a key that is written again.
    with_other_value: u64,
    with_other_key: u64,
}

fn first_key(stream: u64) -> u64 {
    stream << 40
}

impl Kind {
    /// How many numbers the first rows of a stream have that are not refused.
    fn numbers(self, rows: u64) -> u64 {
        match self {
            Kind::Upserts | Kind::Rewrites => rows,
            Kind::Creates => rows - rows / CREATIONS,
            Kind::Groups => rows / (2 * GROUP) * GROUP,
        }
    }

    /// A message of rows from this one on, and how many they are.
    fn message(self, stream: u64, first: u64, size: u64) -> (WriteRequest, u64) {
        let of = |table, operation: Operation, packed: Vec<Vec<u8>>| {
            let packed = packed.into_iter().map(Into::into).collect();
            Rows { table, operation: operation.into(), packed, ..Rows::default() }
        };
        let row = |number| row(stream, number, (first_key(stream) + number) * 3 + 1);
        let all = first..first + size;
        let rows = match self {
            Kind::Upserts => vec![of(0, Operation::Upsert, all.map(row).collect())],
            Kind::Creates => {
                let number = |row: u64| match row % CREATIONS {
                    // It is there since the stream's first message, or was sent right before.
                    refused if refused == CREATIONS - 1 => 0,
                    _ => row - row / CREATIONS,
                };
                vec![of(0, Operation::Create, all.map(number).map(row).collect())]
            }
            Kind::Groups => {
                let number = self.numbers(first);
                let rows: Vec<_> = (number..number + GROUP).map(row).collect();
                let twins = of(1, Operation::Create, rows.clone());
                let rows = vec![of(0, Operation::Upsert, rows), twins];
                return (WriteRequest { rows, atomic: true, ..Default::default() }, 2 * GROUP);
            }
            Kind::Rewrites => {
                let row = |number| self::row(stream, number % KEYS, number);
                vec![of(0, Operation::Upsert, all.map(row).collect())]
            }
        };
        (WriteRequest { rows, ..WriteRequest::default() }, size)
    }
}

fn row(stream: u64, key: u64, value: u64) -> Vec<u8> {
    let [id, of, value] = [first_key(stream) + key, stream, value].map(u64::cast_signed);
    RowWriter::new(3, false).int8(id).int8(of).int8(value).finish()
}

/// Sends until nobody takes any more; returns how many rows may have been.
async fn send(
    account: (Kind, u64),
    random: SeededRandom,
    requests: mpsc::Sender<WriteRequest>,
    mut durable: watch::Receiver<u64>,
) -> u64 {
    let table = |number, name: &str| Table { number, name: name.to_owned(), columns: Vec::new() };
    let tables = vec![table(0, "entry"), table(1, "twin")];
    let mut request = WriteRequest { tables, ..WriteRequest::default() };
    let (mut sent, mut rows) = (0, 0);
    let (kind, stream) = account;
    while requests.send(request).await.is_ok() {
        sent += rows;
        if durable.wait_for(|durable| sent - durable < UNDER_WAY).await.is_err() {
            break;
        }
        (request, rows) = kind.message(stream, sent, 1 + random.below(1_000));
    }
    sent + rows
}

/// Takes acknowledgements until the server dies; returns how many rows they are of.
async fn listen(
    kind: Kind,
    mut replies: Streaming<WriteResponse>,
    durable: watch::Sender<u64>,
    all: Arc<watch::Sender<u64>>,
) -> u64 {
    let (mut rows, mut refused) = (0, 0);
    while let Ok(Some(reply)) = replies.message().await {
        for failure in &reply.failures {
            assert_eq!(failure.sqlstate, "23505", "{failure:?}");
            assert_eq!((kind, failure.index % CREATIONS), (Kind::Creates, CREATIONS - 1));
        }
        refused += reply.failures.len() as u64;
        assert!(reply.durable >= rows, "what is acknowledged stays so");
        all.send_modify(|all| *all += reply.durable - rows);
        rows = reply.durable;
        let wanted = if kind == Kind::Creates { rows / CREATIONS } else { 0 };
        assert_eq!(refused, wanted, "each failure is told once, with its acknowledgement");
        durable.send_replace(rows);
    }
    rows
}

async fn write(
    client: Client,
    (kind, stream): (Kind, u64),
    random: SeededRandom,
    all: Arc<watch::Sender<u64>>,
) -> Account {
    let (sender, requests) = mpsc::channel(64);
    let Ok(replies) = client.records().write(ReceiverStream::new(requests)).await else {
        // The server died before.
        return Account { kind, stream, durable: 0, sent: 0, found: None };
    };
    let (telling, told) = watch::channel(0);
    let sending = tokio::spawn(send((kind, stream), random, sender, told));
    let durable = listen(kind, replies.into_inner(), telling, all).await;
    let sent = sending.await.unwrap();
    Account { kind, stream, durable, sent, found: None }
}

/// A server that does not outlive a test that fails.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes all kinds of streams at once, and kills the server at some moment.
async fn write_and_kill(data: &Path, round: u64, random: &SeededRandom) -> Vec<Account> {
    let (server, address) = serve(data);
    let server = Server(server);
    let rows = random.below(1 << random.below(ROWS_BITS + 1));
    let (all, mut acknowledged) = watch::channel(0);
    let all = Arc::new(all);
    let mut clients = Vec::new();
    for kind in KINDS {
        clients.push((kind, Client::connect(&address).await.unwrap()));
    }
    let mut streams = Vec::new();
    for (stream, (kind, client)) in (round * KINDS.len() as u64..).zip(clients) {
        let random = SeededRandom::new(random.below(u64::MAX));
        streams.push(tokio::spawn(write(client, (kind, stream), random, Arc::clone(&all))));
    }
    drop(all);
    // Streams that fail end before, and are asked why below.
    let _ = acknowledged.wait_for(|acknowledged| *acknowledged >= rows).await;
    drop(server);
    let mut accounts = Vec::new();
    for stream in streams {
        accounts.push(stream.await.unwrap());
    }
    accounts
}

/// What a table has of each stream.
fn find(data: &Path, table: &str) -> BTreeMap<u64, Found> {
    let sql = format!(
        "COPY (SELECT stream, count(*), min(id), max(id), min(value), max(value), \
         count(*) FILTER (WHERE value <> id * 3 + 1), \
         count(*) FILTER (WHERE value % {KEYS} <> id - stream * 1099511627776) \
         FROM {table} GROUP BY stream) TO STDOUT (FORMAT csv)"
    );
    let found = sql_on(data, &sql);
    let found = found.lines().map(|line| {
        let numbers: Vec<u64> = line.split(',').map(|number| number.parse().unwrap()).collect();
        let [stream, rows, first_key, last_key, least_value, greatest_value, value, key] =
            numbers[..]
        else {
            panic!("{line}")
        };
        let (with_other_value, with_other_key) = (value, key);
        let found = Found {
            rows,
            first_key,
            last_key,
            least_value,
            greatest_value,
            with_other_value,
            with_other_key,
        };
        (stream, found)
    });
    found.collect()
}

impl Account {
    fn check(&mut self, entries: &BTreeMap<u64, Found>, twins: &BTreeMap<u64, Found>) {
        let found = entries.get(&self.stream).cloned().unwrap_or_default();
        let twin = twins.get(&self.stream).cloned().unwrap_or_default();
        let told = format!("{:?} {}: {found:?} {twin:?}", self.kind, self.stream);
        if let Some(before) = &self.found {
            assert_eq!(&found, before, "{told}");
            return;
        }
        let written = match self.kind {
            Kind::Rewrites if found.rows > 0 => found.greatest_value + 1,
            _ => found.rows,
        };
        let (least, most) = (self.kind.numbers(self.durable), self.kind.numbers(self.sent));
        assert!((least..=most).contains(&written), "{told}: {least} to {most}");
        if written > 0 {
            let first = first_key(self.stream);
            let last = first + found.rows - 1;
            assert_eq!((found.first_key, found.last_key), (first, last), "{told}");
        }
        match self.kind {
            // The last rows of all that were written, one for each key.
            Kind::Rewrites => {
                assert_eq!((found.rows, found.with_other_key), (written.min(KEYS), 0), "{told}");
                assert_eq!(found.least_value, written.saturating_sub(KEYS), "{told}");
            }
            Kind::Groups => {
                assert_eq!((found.rows % GROUP, found.with_other_value), (0, 0), "{told}");
                assert_eq!(found, twin, "{told}");
            }
            Kind::Upserts | Kind::Creates => assert_eq!(found.with_other_value, 0, "{told}"),
        }
        self.found = Some(found);
    }
}

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_done() {
    let seed = number_from("THALWEG_SEED").unwrap_or(1);
    let kills = number_from("THALWEG_CASES").map_or(KILLS, |cases| cases.div_ceil(50));
    println!("THALWEG_SEED={seed}");
    let random = SeededRandom::new(seed);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let columns = "(id bigint PRIMARY KEY, stream bigint NOT NULL, value bigint NOT NULL)";
    sql_on(&data, &format!("CREATE TABLE entry {columns}; CREATE TABLE twin {columns}"));
    let mut accounts = Vec::new();
    for round in 0..kills {
        accounts.extend(runtime.block_on(write_and_kill(&data, round, &random)));
        let (entries, twins) = (find(&data, "entry"), find(&data, "twin"));
        accounts.iter_mut().for_each(|account| account.check(&entries, &twins));
    }
    assert!(accounts.iter().any(|account| account.durable > 0), "some rows were acknowledged");
    thalweg(&["check", text(&data)]).success();
}
