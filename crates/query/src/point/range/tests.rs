//! Short ranges beside the same queries written out, which are planned: the same rows.

use std::collections::BTreeSet;

use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use futures::TryStreamExt;
use thalweg_store::Chunk;
use thalweg_txn::Transaction;

use crate::{Database, Outcome, Prepared, Session};

/// Most rows in a closed chunk, some in an open one, some dead; NULLs and equal values.
const SETUP: [&str; 10] = [
    "CREATE TABLE t (id int PRIMARY KEY, a smallint, b int, f float8, s text)",
    "INSERT INTO t SELECT i, CASE WHEN i % 11 > 0 THEN i * 7919 % 40 END, i * 31 % 1000, \
     CASE i % 16 WHEN 0 THEN 'NaN' WHEN 1 THEN NULL WHEN 2 THEN '-0' WHEN 3 THEN 'Infinity' \
     ELSE (i * 13 % 200) / 4.0 END, 'k' || i % 500 FROM generate_series(1, 20000) AS g(i)",
    "CREATE INDEX t_id ON t (id)",
    "CREATE INDEX t_a ON t (a, b)",
    "CREATE INDEX t_f ON t (f DESC NULLS LAST, id)",
    "CREATE INDEX t_s ON t (s)",
    "DELETE FROM t WHERE id % 10 = 3",
    "UPDATE t SET b = -1 WHERE id % 999 = 1",
    "INSERT INTO t SELECT i, i % 40, i % 1000, i % 9, 'k' || i % 700 \
     FROM generate_series(30001, 30700) AS g(i)",
    "DELETE FROM t WHERE id > 30000 AND id % 7 = 0",
];

async fn filled() -> (Database, Session) {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    for sql in SETUP {
        done(&mut session, sql).await;
    }
    (database, session)
}

async fn done(session: &mut Session, sql: &str) {
    session.execute(sql).await.unwrap();
}

type Row = Vec<String>;

async fn rows(outcome: Outcome) -> Vec<Row> {
    let batches: Vec<_> = outcome.rows.unwrap().try_collect().await.unwrap();
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter();
            rows.push(values.map(|column| array_value_to_string(column, row).unwrap()).collect());
        }
    }
    rows
}

async fn planned(session: &mut Session, sql: &str) -> Vec<Row> {
    rows(session.execute(sql).await.unwrap()).await
}

/// What the short way gives for a statement; `None` where it leaves it to the ordinary one.
fn short(database: &Database, prepared: &Prepared, values: &[ScalarValue]) -> Option<Outcome> {
    let mut transaction = Transaction::new(database.shared.engine.snapshot());
    let point = prepared.point().expect("a short range");
    point.run(&mut transaction, prepared.parameters(), values).unwrap()
}

/// The generator of Steele, Lea and Flood (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (value ^ (value >> 31)) % bound
    }
}

/// What a parameter is compared with.
#[derive(Clone, Copy)]
enum Of {
    Id,
    A,
    B,
    F,
    S,
    Limit,
}

impl Of {
    /// A value, and how it is written out.
    fn any(self, random: &mut Random) -> (ScalarValue, String) {
        let is_null = random.below(16) == 0;
        let whole = |value: i64| if is_null { "NULL".to_owned() } else { value.to_string() };
        match self {
            Of::Id => {
                let value = random.below(31_000) as i32 - 5;
                (ScalarValue::Int32((!is_null).then_some(value)), whole(value.into()))
            }
            Of::A => {
                let value = random.below(42) as i16 - 1;
                (ScalarValue::Int16((!is_null).then_some(value)), whole(value.into()))
            }
            Of::B => {
                let value = random.below(1_010) as i32 - 5;
                (ScalarValue::Int32((!is_null).then_some(value)), whole(value.into()))
            }
            Of::F => {
                const VALUES: [f64; 8] =
                    [0.0, -0.0, f64::NAN, f64::INFINITY, 1.25, 25.0, 49.75, 60.0];
                let value = VALUES[random.below(8) as usize];
                let written =
                    if value.is_infinite() { "Infinity".into() } else { value.to_string() };
                let written = if is_null { "NULL".to_owned() } else { format!("'{written}'") };
                let value = ScalarValue::Float64((!is_null).then_some(value));
                (value, format!("{written}::float8"))
            }
            Of::S => {
                let value = format!("k{}", random.below(720));
                let written = if is_null { "NULL::text".to_owned() } else { format!("'{value}'") };
                (ScalarValue::Utf8View((!is_null).then_some(value)), written)
            }
            Of::Limit => {
                let value = random.below(30) as i64;
                (ScalarValue::Int64(Some(value)), value.to_string())
            }
        }
    }
}

/// Queries, what their parameters are compared with, and the columns that order their rows.
const QUERIES: [(&str, &[Of], &[usize]); 16] = [
    ("SELECT * FROM t WHERE id BETWEEN $1 AND $2", &[Of::Id, Of::Id], &[]),
    ("SELECT * FROM t WHERE id >= $1 AND id < $2 ORDER BY id DESC", &[Of::Id, Of::Id], &[0]),
    ("SELECT * FROM t WHERE id > $1 ORDER BY id LIMIT 10", &[Of::Id], &[0]),
    ("SELECT * FROM t WHERE (id <= $1) ORDER BY id DESC LIMIT $2", &[Of::Id, Of::Limit], &[0]),
    ("SELECT * FROM t WHERE a = $1", &[Of::A], &[]),
    ("SELECT * FROM t WHERE a = 7 LIMIT $1", &[Of::Limit], &[]),
    ("SELECT * FROM t WHERE a = $1 AND b >= $2 ORDER BY b LIMIT 20", &[Of::A, Of::B], &[2]),
    (
        "SELECT * FROM t WHERE b BETWEEN $2 AND $3 AND a = $1 ORDER BY a, b DESC LIMIT $4",
        &[Of::A, Of::B, Of::B, Of::Limit],
        &[2],
    ),
    ("SELECT * FROM t WHERE a = $1 AND b = $2", &[Of::A, Of::B], &[]),
    ("SELECT * FROM t WHERE a > $1 ORDER BY a, b LIMIT 7", &[Of::A], &[1, 2]),
    ("SELECT * FROM t WHERE f = $1 ORDER BY id", &[Of::F], &[0]),
    ("SELECT * FROM t WHERE f >= $1 ORDER BY f DESC NULLS LAST, id LIMIT 15", &[Of::F], &[3]),
    ("SELECT * FROM t WHERE f < $1 ORDER BY f NULLS FIRST, id DESC LIMIT 15", &[Of::F], &[3]),
    ("SELECT * FROM t WHERE s = $1 LIMIT 3", &[Of::S], &[]),
    ("SELECT * FROM t WHERE s >= $1 AND s <= $2 ORDER BY s", &[Of::S, Of::S], &[4]),
    ("SELECT * FROM t ORDER BY f NULLS FIRST, id DESC LIMIT $1", &[Of::Limit], &[3]),
];

#[tokio::test]
async fn short_ranges_are_what_is_planned() {
    let (database, mut session) = filled().await;
    let mut random = Random(1);
    for (sql, of, order) in QUERIES {
        let prepared = session.prepare(sql, &[]).await.unwrap();
        let mut taken = 0;
        for _ in 0..12 {
            let (values, written): (Vec<_>, Vec<_>) =
                of.iter().map(|of| of.any(&mut random)).unzip();
            let Some(outcome) = short(&database, &prepared, &values) else { continue };
            taken += 1;
            let found = rows(outcome).await;
            let mut text = sql.to_owned();
            for (place, written) in written.iter().enumerate() {
                text = text.replace(&format!("${}", place + 1), written);
            }
            let expected = planned(&mut session, &text).await;
            assert_eq!(found.len(), expected.len(), "{text}");
            // A planner has -0 before 0, where PostgreSQL has them in either order.
            let keys = |rows: &[Row]| -> Vec<Row> {
                let row =
                    |row: &Row| order.iter().map(|at| row[*at].replace("-0.0", "0.0")).collect();
                rows.iter().map(row).collect()
            };
            assert_eq!(keys(&found), keys(&expected), "{text}");
            let all = text.split(" LIMIT ").next().unwrap();
            let all: BTreeSet<Row> = planned(&mut session, all).await.into_iter().collect();
            let distinct: BTreeSet<Row> = found.iter().cloned().collect();
            assert_eq!(distinct.len(), found.len(), "{text}");
            assert!(distinct.is_subset(&all), "{text}");
        }
        assert!(taken > 0, "no range was short: {sql}");
    }
}

#[tokio::test]
async fn the_table_has_chunks_of_both_kinds() {
    let (database, mut session) = filled().await;
    let prepared = session.prepare("SELECT * FROM t WHERE a = $1", &[]).await.unwrap();
    let mut transaction = Transaction::new(database.shared.engine.snapshot());
    let state = transaction.state(prepared.point().unwrap().table.id).unwrap();
    assert!(state.chunks().any(|chunk| matches!(chunk.chunk(), Chunk::Open(_))));
    assert!(state.chunks().any(|chunk| matches!(chunk.chunk(), Chunk::Closed(_))));
    assert!(state.chunks().any(|chunk| chunk.dead().is_some()));
}

#[tokio::test]
async fn what_is_no_short_range_is_planned() {
    let (database, mut session) = filled().await;
    for sql in [
        "SELECT * FROM t WHERE b = $1",
        "SELECT * FROM t WHERE a = $1 AND f > $2",
        "SELECT * FROM t WHERE a > $1 AND b = $2",
        "SELECT * FROM t WHERE a = $1 OR a = $2",
        "SELECT * FROM t WHERE a <> $1",
        "SELECT * FROM t WHERE a NOT BETWEEN $1 AND $2",
        "SELECT * FROM t WHERE id > $1 AND id > $2",
        "SELECT * FROM t WHERE id > $1 ORDER BY b LIMIT 5",
        "SELECT * FROM t WHERE a > $1 ORDER BY a, b DESC LIMIT 5",
        "SELECT * FROM t WHERE a > $1 ORDER BY a DESC NULLS LAST LIMIT 5",
        "SELECT * FROM t WHERE id > $1 ORDER BY id LIMIT 5 OFFSET 2",
        "SELECT * FROM t WHERE id > $1 FOR UPDATE",
        "SELECT DISTINCT a FROM t WHERE a > $1",
        "SELECT id + 1 FROM t WHERE id > $1",
        "SELECT id FROM t WHERE id > 1.5",
        "SELECT count(*) FROM t WHERE id > $1",
        "SELECT id FROM t AS x WHERE id > $1",
        "SELECT id FROM t ORDER BY id",
        "SELECT id FROM t LIMIT 5",
    ] {
        let prepared = session.prepare(sql, &[]).await.unwrap();
        assert!(prepared.point().is_none(), "{sql}");
    }
    let many = session.prepare("SELECT id FROM t WHERE id > $1", &[]).await.unwrap();
    assert!(short(&database, &many, &[ScalarValue::Int32(Some(5))]).is_none());
    assert!(short(&database, &many, &[ScalarValue::Int32(Some(30_600))]).is_some());
    // What is no whole number, and a limit that is none.
    assert!(short(&database, &many, &[ScalarValue::Float64(Some(30_600.5))]).is_none());
    let first = session.prepare("SELECT id FROM t ORDER BY id LIMIT $1", &[]).await.unwrap();
    for limit in [None, Some(-1), Some(10_000)] {
        assert!(short(&database, &first, &[ScalarValue::Int64(limit)]).is_none(), "{limit:?}");
    }
}

#[tokio::test]
async fn a_transaction_finds_what_it_wrote() {
    let (_database, mut session) = filled().await;
    let sql = "SELECT id FROM t WHERE id BETWEEN $1 AND $2 ORDER BY id";
    let prepared = session.prepare(sql, &[]).await.unwrap();
    let values = [ScalarValue::Int32(Some(100)), ScalarValue::Int32(Some(110))];
    let ids = async |session: &mut Session| -> Vec<String> {
        let found = session.execute_prepared(&prepared, &values).await.unwrap();
        rows(found).await.into_iter().flatten().collect()
    };
    let before = ids(&mut session).await;
    assert_eq!(before, ["100", "101", "102", "104", "105", "106", "107", "108", "109", "110"]);
    for sql in [
        "BEGIN",
        "DELETE FROM t WHERE id < 108",
        "INSERT INTO t (id) VALUES (103)",
        "UPDATE t SET id = 101 WHERE id = 109",
    ] {
        done(&mut session, sql).await;
    }
    assert_eq!(ids(&mut session).await, ["101", "103", "108", "110"]);
    done(&mut session, "ROLLBACK").await;
    assert_eq!(ids(&mut session).await, before);
    done(&mut session, "DROP INDEX t_id").await;
    assert_eq!(ids(&mut session).await, before);
    done(&mut session, "DELETE FROM t WHERE id = 100").await;
    assert_eq!(ids(&mut session).await, before[1..]);
}

#[tokio::test]
async fn roles_read_what_they_may() {
    let (database, mut owner) = filled().await;
    done(&mut owner, "CREATE USER teller").await;
    let mut teller = database.session_as("teller").unwrap();
    let prepared = owner.prepare("SELECT id FROM t WHERE id < $1 ORDER BY id", &[]).await;
    let prepared = prepared.unwrap();
    let values = [ScalarValue::Int32(Some(3))];
    let refused = teller.execute_prepared(&prepared, &values).await.err().unwrap();
    assert_eq!(refused.state().0, "42501");
    done(&mut owner, "GRANT SELECT ON t TO teller").await;
    let found = teller.execute_prepared(&prepared, &values).await.unwrap();
    assert_eq!(rows(found).await, [["1"], ["2"]]);
}
