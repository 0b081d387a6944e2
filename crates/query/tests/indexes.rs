//! Indexes and keys: a table that has some answers as one that has none, and plans say which one
//! they use.

use arrow::util::pretty::pretty_format_batches;
use datafusion::common::ScalarValue;
use futures::StreamExt;
use thalweg_query::{Database, Outcome, Session};
use thalweg_types::Result;

const ROWS: usize = 60_000;

/// `plain` and `indexed` with the same rows: most in closed chunks, some in an open one, some dead.
async fn database() -> (Database, Session) {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for (table, key) in [("plain", "NOT NULL"), ("indexed", "PRIMARY KEY")] {
        let columns = "kind text, at timestamp, price float8, size smallint";
        done(&mut session, &format!("CREATE TABLE {table} (id int {key}, {columns})")).await;
        done(
            &mut session,
            &format!(
                "INSERT INTO {table} SELECT i, 'kind ' || (i * 7919 % 500), \
                 timestamp '2024-01-01' + \
                 (i::bigint * 104729 % {ROWS})::int * interval '1 minute', \
                 CASE WHEN i % 11 > 0 THEN (i * 31 % 1000) / 8.0 WHEN i % 2 = 0 THEN 'NaN' END, \
                 i * 13 % 300 FROM generate_series(1, {ROWS}) AS g(i)"
            ),
        )
        .await;
    }
    for index in [
        "indexed_by_id ON indexed (id)",
        "indexed_by_kind ON indexed (kind, at DESC)",
        "indexed_by_at ON indexed (at)",
        "indexed_by_price ON indexed (price DESC NULLS LAST, size)",
        "indexed_by_size ON indexed (size, id)",
    ] {
        done(&mut session, &format!("CREATE INDEX {index}")).await;
    }
    for table in ["plain", "indexed"] {
        done(&mut session, &format!("DELETE FROM {table} WHERE id % 10 = 3")).await;
        done(&mut session, &format!("UPDATE {table} SET size = 77 WHERE id % 999 = 1")).await;
        let more = format!(
            "INSERT INTO {table} SELECT 100000 + i, 'new', timestamp '2025-01-01' + \
             i * interval '1 minute', i, i FROM generate_series(1, 3000) AS g(i)"
        );
        done(&mut session, &more).await;
    }
    (database, session)
}

async fn done(session: &mut Session, sql: &str) {
    session.execute(sql).await.unwrap();
}

async fn shown(outcome: Result<Outcome>) -> Vec<String> {
    let mut rows = outcome.unwrap().rows.expect("a query gives rows");
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch.unwrap());
    }
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let rows = table.lines().skip(3).filter(|line| !line.starts_with('+'));
    rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

async fn asked(session: &mut Session, sql: &str) -> Vec<String> {
    shown(session.execute(sql).await).await
}

/// What a query is, and the index that it uses: none where the chunks' zones and dictionaries leave
/// few rows, or no more than an index would.
const QUERIES: &[(&str, Option<&str>)] = &[
    ("SELECT * FROM t WHERE id = 4711", Some("indexed_pkey")),
    ("SELECT count(*), sum(size) FROM t WHERE id = 4711 AND price > 0", Some("indexed_pkey")),
    ("SELECT * FROM t WHERE id = 4713", Some("indexed_pkey")),
    ("SELECT * FROM t WHERE id BETWEEN 500 AND 600 ORDER BY id", Some("indexed_by_id")),
    ("SELECT * FROM t WHERE id IN (5, 6, 7, 8, 9, 13, 100001) ORDER BY id", Some("indexed_pkey")),
    ("SELECT * FROM t WHERE id = 5 OR id = 9 OR id = 5 ORDER BY id", Some("indexed_pkey")),
    ("SELECT * FROM t WHERE id IN (5, 60000, 7) ORDER BY id LIMIT 2", Some("indexed_pkey")),
    ("SELECT * FROM t WHERE id > 102990 AND size % 2 = 0 ORDER BY id", None),
    ("SELECT * FROM t WHERE id < 0", None),
    ("SELECT * FROM t WHERE id > 5000000000", None),
    ("SELECT count(*), sum(size) FROM t WHERE id BETWEEN 500 AND 600", Some("indexed_by_id")),
    ("SELECT count(*) FROM t WHERE id > 500", None),
    ("SELECT count(*) FROM t WHERE kind = 'kind 17'", Some("indexed_by_kind")),
    (
        "SELECT * FROM t WHERE kind = 'kind 17' AND at < '2024-01-09' ORDER BY id",
        Some("indexed_by_kind"),
    ),
    (
        "SELECT * FROM t WHERE kind IN ('kind 1', 'kind 2', 'nothing') AND at >= '2024-02-05' \
      ORDER BY id",
        Some("indexed_by_kind"),
    ),
    (
        "SELECT id FROM t WHERE at >= '2024-01-05' AND at < '2024-01-05 02:00' ORDER BY id",
        Some("indexed_by_at"),
    ),
    (
        "SELECT * FROM t WHERE price > 124.5 AND price < 'NaN' AND size = 3 ORDER BY id",
        Some("indexed_by_size"),
    ),
    ("SELECT id FROM t WHERE size = 77 AND id < 9000 ORDER BY id", Some("indexed_by_size")),
    ("SELECT id, price FROM t WHERE price = 100 ORDER BY id", Some("indexed_by_price")),
    ("SELECT count(*) FROM t WHERE price IS NULL AND size = 5", Some("indexed_by_price")),
    ("SELECT * FROM t ORDER BY id DESC LIMIT 5", Some("indexed_by_id")),
    ("SELECT id AS other FROM t ORDER BY other LIMIT 5 OFFSET 20", Some("indexed_by_id")),
    ("SELECT id, at FROM t ORDER BY at DESC NULLS LAST LIMIT 5", None),
    ("SELECT id, at FROM t ORDER BY at DESC LIMIT 5", Some("indexed_by_at")),
    ("SELECT id, at FROM t WHERE size > 150 ORDER BY at LIMIT 20", Some("indexed_by_at")),
    (
        "SELECT id, at FROM t WHERE kind = 'kind 3' ORDER BY at DESC LIMIT 3",
        Some("indexed_by_kind"),
    ),
    ("SELECT id, size FROM t ORDER BY size, id LIMIT 7", Some("indexed_by_size")),
    ("SELECT id, size FROM t ORDER BY size DESC, id DESC LIMIT 7", Some("indexed_by_size")),
    ("SELECT id, size FROM t ORDER BY size, id DESC LIMIT 7", None),
    (
        "SELECT price, size FROM t ORDER BY price DESC NULLS LAST, size LIMIT 9",
        Some("indexed_by_price"),
    ),
    (
        "SELECT price, size FROM t ORDER BY price NULLS FIRST, size DESC LIMIT 9",
        Some("indexed_by_price"),
    ),
    ("SELECT id FROM t WHERE kind = 'none such' ORDER BY id LIMIT 5", None),
];

/// The index that a query's plan names.
async fn used(session: &mut Session, sql: &str) -> Option<String> {
    let plan = asked(session, &format!("EXPLAIN {sql}")).await.join(" ");
    let (_, behind) = plan.split_once("index=")?;
    behind.split([' ', ',']).next().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_found_by_indexes_are_those_that_are_found_without() {
    let (_database, mut session) = database().await;
    let mut others = Vec::new();
    for (query, index) in QUERIES {
        let on = |table: &str| query.replace(" t ", &format!(" {table} "));
        let expected = asked(&mut session, &on("plain")).await;
        assert_eq!(asked(&mut session, &on("indexed")).await, expected, "{query}");
        let uses = used(&mut session, &on("indexed")).await;
        if uses.as_deref() != *index {
            others.push((query, uses));
        }
        assert_eq!(used(&mut session, &on("plain")).await, None);
    }
    assert!(others.is_empty(), "{others:#?}");
}

/// Queries about keys of several columns with values that are equal in more than one form.
const OF_KEYS: &[(&str, Option<&str>)] = &[
    ("SELECT n FROM t WHERE a = 0 AND b = 'b0'", Some("keyed_a_b_key")),
    ("SELECT n FROM t WHERE a = -0.0 AND b IN ('b0', 'b1', 'b7', 'none')", Some("keyed_a_b_key")),
    (
        "SELECT n FROM t WHERE a IN (0, 1, 2.5) AND b IN ('b0', 'b1') AND n > 3",
        Some("keyed_a_b_key"),
    ),
    ("SELECT n FROM t WHERE a = 'NaN' AND b = 'b2'", Some("keyed_a_b_key")),
    ("SELECT n FROM t WHERE a IS NULL AND b = 'b3'", None),
    ("SELECT n FROM t WHERE (a = 1 OR a IS NULL) AND b = 'b3'", None),
    ("SELECT n FROM t WHERE a = NULL AND b = 'b3'", None),
    ("SELECT n FROM t WHERE a = 1", None),
    ("SELECT n FROM t WHERE c = 12.5 AND d = '2024-01-13'", Some("keyed_pkey")),
    ("SELECT n FROM t WHERE d = date '2024-01-13' AND c IN (12.5, 12.50, 13)", Some("keyed_pkey")),
    ("SELECT n FROM t WHERE c = 12.5 OR d = '2024-01-13'", None),
];

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_keys_are_those_that_are_found_without() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    let columns = "n int, a float8, b text, c numeric(12, 2) NOT NULL, d date NOT NULL";
    done(&mut session, &format!("CREATE TABLE plain ({columns})")).await;
    let keys = "PRIMARY KEY (c, d), UNIQUE (a, b)";
    done(&mut session, &format!("CREATE TABLE keyed ({columns}, {keys})")).await;
    // The first ones of `a` are -0, NaN and NULL.
    for table in ["plain", "keyed"] {
        let rows = "SELECT i, CASE i / 10 WHEN 0 THEN -0.0 WHEN 1 THEN 'NaN' WHEN 2 THEN NULL \
                    ELSE i / 10 / 2.0 END, 'b' || i % 10, i + 0.5, date '2024-01-01' + i \
                    FROM generate_series(0, 19999) AS g(i)";
        done(&mut session, &format!("INSERT INTO {table} {rows}")).await;
    }
    let changes = [
        "DELETE FROM t WHERE n IN (0, 12, 22, 70)",
        "UPDATE t SET n = -n WHERE n % 7 = 5",
        "INSERT INTO t VALUES (-1, 0, 'b0', 12.5, '2030-01-13')",
        "UPDATE t SET b = 'none' WHERE a = 0 AND b = 'b1'",
    ];
    for (query, key) in OF_KEYS {
        let uses = used(&mut session, &query.replace(" t ", " keyed ")).await;
        assert_eq!(uses.as_deref(), *key, "{query}");
    }
    // While rows go, the keys' index does not always know.
    for ends in ["COMMIT", "ROLLBACK", "COMMIT"] {
        done(&mut session, "BEGIN").await;
        for change in std::iter::once("UPDATE t SET n = n + 1 WHERE n > 100").chain(changes) {
            for (query, _) in OF_KEYS {
                let on = |table: &str| query.replace(" t ", &format!(" {table} "));
                let (mut expected, mut found) = (
                    asked(&mut session, &on("plain")).await,
                    asked(&mut session, &on("keyed")).await,
                );
                expected.sort();
                found.sort();
                assert_eq!(found, expected, "{query}");
            }
            for table in ["plain", "keyed"] {
                done(&mut session, &change.replace(" t ", &format!(" {table} "))).await;
            }
        }
        done(&mut session, ends).await;
        if ends == "COMMIT" {
            for table in ["plain", "keyed"] {
                done(&mut session, &format!("DELETE FROM {table} WHERE d = '2030-01-13'")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_which_the_index_cannot_tell_are_not_looked_up() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    done(&mut session, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    done(&mut session, "INSERT INTO t SELECT i, i / 2 FROM generate_series(1, 20000) AS g(i)")
        .await;
    // A key that is being added is none yet.
    done(&mut session, "BEGIN").await;
    done(&mut session, "ALTER TABLE t ADD UNIQUE (v)").await;
    assert_eq!(asked(&mut session, "SELECT count(*) FROM t WHERE v = 5").await, ["| 2 |"]);
    done(&mut session, "ROLLBACK").await;
    // Whatever became of a write that was refused.
    assert!(session.execute("INSERT INTO t VALUES (30000, 1), (7, 1)").await.is_err());
    let ids = "SELECT id FROM t WHERE id IN (7, 30000, 12345, -1) ORDER BY id";
    assert_eq!(asked(&mut session, ids).await, ["| 7 |", "| 12345 |"]);
    // What an older snapshot sees after rows were moved.
    let mut old = database.session();
    done(&mut old, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    assert_eq!(asked(&mut old, ids).await.len(), 2);
    done(&mut session, "UPDATE t SET v = -1 WHERE id < 15000").await;
    done(&mut session, "DELETE FROM t WHERE id % 3 = 1").await;
    let seen = "SELECT id, v FROM t WHERE id IN (7, 30000, 12345, -1) ORDER BY id";
    assert_eq!(asked(&mut old, seen).await, ["| 7 | 3 |", "| 12345 | 6172 |"]);
    assert_eq!(asked(&mut session, seen).await, ["| 12345 | -1 |"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_that_are_kept_look_for_the_values_of_each_run() {
    let (database, mut session) = database().await;
    for (query, values) in [
        ("SELECT * FROM t WHERE id BETWEEN $1 AND $1 + 20 ORDER BY id", [7, 50_000, -100, 100_500]),
        ("SELECT id FROM t WHERE size = $1 AND id < 3000 ORDER BY id", [1, 2, 299, 500]),
        ("SELECT id FROM t WHERE size < $1 ORDER BY id LIMIT 9", [100, 2, 0, 299]),
        ("SELECT count(*), max(at) FROM t WHERE id > $1", [10, 102_000, 59_000, 102_999]),
        ("SELECT count(*), max(at) FROM t WHERE id = $1", [10, 13, -4, 102_999]),
        ("SELECT id, upper(kind) FROM t WHERE id IN ($1, $1 + 1) ORDER BY 1", [10, 2, 0, 102_999]),
    ] {
        let on = |table: &str| query.replace(" t ", &format!(" {table} "));
        let plain = session.prepare(&on("plain"), &[]).await.unwrap();
        let indexed = session.prepare(&on("indexed"), &[]).await.unwrap();
        for round in 0..3 {
            for value in values {
                let data_type = plain.parameters()[0].data_type();
                let value = [ScalarValue::from(value).cast_to(data_type).unwrap()];
                let expected = shown(session.execute_prepared(&plain, &value).await).await;
                let found = shown(session.execute_prepared(&indexed, &value).await).await;
                assert_eq!(found, expected, "{query} with {value:?} in round {round}");
            }
        }
    }
    assert!(database.plan_figures().runs > 0, "plans were kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_finds_what_it_wrote_and_what_it_began_with() {
    let (database, mut session) = database().await;
    let mut other = database.session();
    let range = "SELECT id FROM indexed WHERE id BETWEEN 58000 AND 58020 ORDER BY id";
    let before = asked(&mut session, range).await;
    for sql in
        ["BEGIN ISOLATION LEVEL REPEATABLE READ", range, "DELETE FROM indexed WHERE id = 58001"]
    {
        done(&mut session, sql).await;
    }
    done(&mut session, "UPDATE indexed SET id = 58003 WHERE id = 58002").await;
    done(&mut other, "DELETE FROM indexed WHERE id BETWEEN 58010 AND 58020").await;
    let own = asked(&mut session, range).await;
    let changed = before.iter().filter(|id| *id != "| 58001 |");
    let changed = changed.map(|id| if id == "| 58002 |" { "| 58003 |" } else { id });
    assert_eq!(own, changed.collect::<Vec<_>>());
    done(&mut session, "ROLLBACK").await;
    let after = asked(&mut session, range).await;
    assert_eq!(
        after,
        before.into_iter().filter(|id| id.as_str() < "| 58010 |").collect::<Vec<_>>()
    );
}
