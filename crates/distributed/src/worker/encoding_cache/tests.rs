use thalweg_env::SimulatedClock;
use thalweg_execution::scan::whole_chunks;
use thalweg_protocol::cluster::row_form::Kind;
use thalweg_query::{Database, Session, ShardRows, Shards};
use thalweg_types::{ColumnId, TableId};

use super::*;
use crate::rows;

/// A worker with two chunks, and its encoding cache.
struct Worker {
    session: Session,
    shards: Shards,
    table: TableId,
    /// Number of the first column. The text column has the next one.
    first: u32,
    clock: SimulatedClock,
    encodings: Arc<EncodingCache>,
    pool: Pool,
}

impl Worker {
    async fn new(budget_bytes: usize) -> Worker {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        for sql in [
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(1, 60000) AS s(n)",
            "INSERT INTO t SELECT n, 'value ' || n FROM generate_series(60001, 120000) AS s(n)",
        ] {
            session.execute(sql).await.unwrap();
        }
        let shards = database.shards();
        let sight = &shards.shard_statistics()[0];
        let (table, first) = (sight.table, sight.values[0].0.0);
        let (clock, pool) = (SimulatedClock::new(), Pool::new(4));
        let told_time: Arc<dyn Clock> = Arc::new(clock.clone());
        let encodings = Arc::new(EncodingCache::new(&told_time, budget_bytes));
        Worker { session, shards, table, first, clock, encodings, pool }
    }

    /// The pieces of the whole chunks' rows, with the first `columns` columns, and the number of
    /// chunks.
    fn read(&self, columns: usize, is_binary: bool) -> (Vec<Bytes>, usize) {
        let schema = self.shards.schema(self.table).unwrap();
        let wanted = ShardRows {
            is_cached: false,
            table: self.table,
            columns: (self.first..).take(columns).map(|id| Some(ColumnId(id))).collect(),
            table_columns: Vec::new(),
            place_base: 0,
            filter: None,
            limit: None,
            hidden: Vec::new(),
        };
        let places: Vec<usize> = (0..columns).collect();
        let told = Arc::new(schema.project(&places).unwrap());
        let (chunks, _) = whole_chunks(self.shards.scan(&wanted).unwrap()).unwrap();
        let form = wire::RowForm {
            kind: Some(Kind::DataRows(wire::DataRows { binary: vec![is_binary; columns] })),
            columns: rows::encode(&told, &[]).unwrap(),
        };
        let mut encoding = Encoding::new(told, Some(&form)).unwrap();
        let (count, mut out) = (chunks.len(), ChunkWriter::new(self.pool.clone()));
        let mut whole = WholeChunks::new(chunks, &form, &self.encodings, &self.pool);
        let mut pieces = Vec::new();
        while whole.write(&mut encoding, &mut out).unwrap() {
            pieces.extend(std::iter::from_fn(|| out.take_full()));
        }
        pieces.extend(std::iter::from_fn(|| out.take_any()));
        (pieces, count)
    }

    fn cached(&self) -> (usize, usize) {
        let cached = self.encodings.cached.lock();
        (cached.encodings.len(), cached.bytes)
    }
}

fn bytes(pieces: &[Bytes]) -> Vec<u8> {
    pieces.concat()
}

/// Addresses of the pieces that are large enough not to be copied.
fn places(pieces: &[Bytes]) -> Vec<*const u8> {
    pieces.iter().filter(|piece| piece.len() >= CHUNK_BYTES).map(|piece| piece.as_ptr()).collect()
}

#[tokio::test]
async fn a_chunk_is_encoded_once_for_each_form() {
    let worker = Worker::new(64 << 20).await;
    let (made, chunks) = worker.read(2, false);
    assert_eq!(chunks, 2);
    assert_eq!(worker.cached(), (2, bytes(&made).len()));
    let (cached, _) = worker.read(2, false);
    assert!(bytes(&made) == bytes(&cached));
    assert!(!places(&made).is_empty());
    assert_eq!(places(&made), places(&cached));
    for (columns, is_binary) in [(2, true), (1, false), (1, true)] {
        let (other, _) = worker.read(columns, is_binary);
        assert!(bytes(&other) != bytes(&made), "{columns} {is_binary}");
        assert!(bytes(&other) == bytes(&worker.read(columns, is_binary).0));
    }
    assert_eq!(worker.cached().0, 8);
}

#[tokio::test]
async fn a_chunk_that_lost_a_row_is_not_whole() {
    let mut worker = Worker::new(64 << 20).await;
    let (before, _) = worker.read(2, false);
    worker.session.execute("DELETE FROM t WHERE id = 5").await.unwrap();
    let (after, chunks) = worker.read(2, false);
    assert_eq!(chunks, 1);
    assert!(bytes(&before).ends_with(&bytes(&after)));
    // Encodings of a dropped chunk are evicted when there is no room.
    worker.session.execute("TRUNCATE t").await.unwrap();
    assert_eq!(worker.read(2, false).1, 0);
    worker.encodings.cached.lock().forget_unasked(worker.clock.monotonic());
    assert_eq!(worker.cached(), (0, 0));
}

#[tokio::test]
async fn what_finds_no_room_is_made_each_time() {
    let all = Worker::new(64 << 20).await.read(2, false).0;
    let chunk_bytes = bytes(&all).len() / 2;
    for budget_bytes in [0, 1, chunk_bytes / 2, chunk_bytes * 3 / 2] {
        let worker = Worker::new(budget_bytes).await;
        for _ in 0..3 {
            assert!(bytes(&worker.read(2, false).0) == bytes(&all));
            let (chunks, kept_bytes) = worker.cached();
            assert!(kept_bytes <= budget_bytes);
            assert_eq!(chunks, usize::from(budget_bytes > chunk_bytes));
        }
    }
}

#[tokio::test]
async fn what_nobody_asks_for_makes_place_for_others() {
    let all = Worker::new(64 << 20).await.read(2, false).0;
    let worker = Worker::new(bytes(&all).len()).await;
    worker.read(2, false);
    worker.clock.advance(KEPT_FOR / 2);
    // It was used lately.
    worker.read(2, true);
    assert!(places(&worker.read(2, false).0) == places(&worker.read(2, false).0));
    worker.clock.advance(KEPT_FOR);
    let (binary, _) = worker.read(2, true);
    assert_eq!(places(&binary), places(&worker.read(2, true).0));
    assert!(!places(&binary).is_empty());
    assert!(worker.cached().1 <= bytes(&all).len());
}

#[tokio::test]
async fn all_of_it_goes_where_memory_runs_out() {
    let worker = Worker::new(64 << 20).await;
    let (before, _) = worker.read(2, false);
    worker.encodings.let_go();
    assert_eq!(worker.cached(), (0, 0));
    assert!(bytes(&worker.read(2, false).0) == bytes(&before));
}
