//! What is large: orders of many chunks, tables of a thousand columns, statements of a megabyte.

use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use futures::StreamExt;
use thalweg_query::{Database, Session};

fn session(threads: usize) -> Session {
    Database::builder().threads(threads).open().unwrap().session()
}

async fn done(session: &mut Session, sql: &str) {
    session.execute(sql).await.unwrap();
}

/// The rows of a query whose columns are whole numbers.
async fn numbers(session: &mut Session, sql: &str) -> Vec<Vec<Option<i64>>> {
    let mut batches = session.execute(sql).await.unwrap().rows.expect("a query gives rows");
    let mut rows = Vec::new();
    while let Some(batch) = batches.next().await {
        let batch = batch.unwrap();
        let columns = batch.columns().iter().map(|column| cast(column, &DataType::Int64).unwrap());
        let columns: Vec<_> = columns.collect();
        let value = |column: &dyn Array, row: usize| {
            let column = column.as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        rows.extend((0..batch.num_rows()).map(|row| {
            columns.iter().map(|column| value(column.as_ref(), row)).collect::<Vec<_>>()
        }));
    }
    rows
}

mod orders {
    use std::cmp::{Ordering, Reverse};

    use super::*;

    const ROWS: i64 = 300_000;

    /// Many rows have one key, and some have none.
    fn key(id: i64) -> Option<i64> {
        (id % 13 != 0).then_some(id * 7_919 % 1_000)
    }

    async fn filled() -> Session {
        let mut session = session(4);
        done(&mut session, "CREATE TABLE keyed (id bigint, k bigint)").await;
        let rows = format!(
            "INSERT INTO keyed SELECT i, CASE WHEN i % 13 <> 0 THEN i * 7919 % 1000 END \
             FROM generate_series(1::bigint, {ROWS}::bigint) AS g(i)"
        );
        done(&mut session, &rows).await;
        session
    }

    /// Keys in an order, which NULLs come before or behind.
    fn ordered(left: Option<i64>, right: Option<i64>, down: bool, nulls_first: bool) -> Ordering {
        match (left, right) {
            (Some(left), Some(right)) if down => right.cmp(&left),
            (Some(left), Some(right)) => left.cmp(&right),
            // `None` is less than all.
            (left, right) if nulls_first => left.cmp(&right),
            (left, right) => right.cmp(&left),
        }
    }

    #[tokio::test]
    async fn of_several_threads_are_merged_in_their_order() {
        let mut session = filled().await;
        let mut plan = String::new();
        let explain = "EXPLAIN SELECT id, k FROM keyed ORDER BY k, id";
        let mut error_text = session.execute(explain).await.unwrap().rows.unwrap();
        while let Some(batch) = error_text.next().await {
            plan += &format!("{:?}", batch.unwrap());
        }
        assert!(plan.contains("SortPreservingMergeExec"), "{plan}");
        for (by, down, nulls_first) in [
            ("k", false, false),
            ("k NULLS FIRST", false, true),
            ("k DESC", true, true),
            ("k DESC NULLS LAST", true, false),
        ] {
            let mut expected: Vec<(i64, Option<i64>)> =
                (1..=ROWS).map(|id| (id, key(id))).collect();
            expected.sort_by(|left, right| {
                ordered(left.1, right.1, down, nulls_first).then(right.0.cmp(&left.0))
            });
            let expected: Vec<Vec<Option<i64>>> =
                expected.into_iter().map(|(id, key)| vec![Some(id), key]).collect();
            let sql = format!("SELECT id, k FROM keyed ORDER BY {by}, id DESC");
            let found = numbers(&mut session, &sql).await;
            assert!(found == expected, "{by}: all rows");
            let some = numbers(&mut session, &format!("{sql} LIMIT 500 OFFSET 70000")).await;
            assert!(some == expected[70_000..70_500], "{by}: some rows");
        }
    }

    /// Rows of one key come in any order, and each once.
    #[tokio::test]
    async fn with_ties_have_every_row() {
        let mut session = filled().await;
        let mut found = numbers(&mut session, "SELECT k, id FROM keyed ORDER BY k DESC").await;
        assert!(found.is_sorted_by_key(|row| Reverse(row[0].unwrap_or(i64::MAX))));
        found.sort();
        let mut expected: Vec<_> = (1..=ROWS).map(|id| vec![key(id), Some(id)]).collect();
        expected.sort();
        assert!(found == expected);
    }
}

mod a_thousand_columns {
    use super::*;

    const COLUMNS: i64 = 1_000;
    const ROWS: i64 = 400;

    fn value(row: i64, column: i64) -> Option<i64> {
        let mixed = row * 31 + column;
        (mixed % 11 != 0).then_some(mixed % 7)
    }

    fn list(of: impl Fn(i64) -> String) -> String {
        (0..COLUMNS).map(of).collect::<Vec<_>>().join(", ")
    }

    async fn filled() -> Session {
        let mut session = session(2);
        let columns = list(|c| format!("c{c} integer"));
        let create = format!("CREATE TABLE wide (id integer PRIMARY KEY, {columns})");
        done(&mut session, &create).await;
        let values =
            list(|c| format!("CASE WHEN (i * 31 + {c}) % 11 <> 0 THEN (i * 31 + {c}) % 7 END"));
        let series = format!("generate_series(0, {}) AS g(i)", ROWS - 1);
        done(&mut session, &format!("INSERT INTO wide SELECT i, {values} FROM {series}")).await;
        session
    }

    fn sum(values: impl Iterator<Item = Option<i64>>) -> Option<i64> {
        values.flatten().reduce(|total, value| total + value)
    }

    #[tokio::test]
    async fn are_filled_read_and_changed() {
        let mut session = filled().await;
        let whole = numbers(&mut session, "SELECT * FROM wide WHERE id = 17").await;
        let mut row = vec![Some(17)];
        row.extend((0..COLUMNS).map(|column| value(17, column)));
        assert_eq!(whole, [row]);
        done(&mut session, "UPDATE wide SET c999 = c0 + 100 WHERE id = 18").await;
        let changed = numbers(&mut session, "SELECT c998, c999 FROM wide WHERE id = 18").await;
        assert_eq!(changed, [[value(18, 998), value(18, 0).map(|value| value + 100)]]);
    }

    #[tokio::test]
    async fn are_filtered_and_grouped() {
        let mut session = filled().await;
        let filtered = "SELECT count(*), sum(id) FROM wide WHERE c0 = 3 AND c999 IS NULL";
        let ids = (0..ROWS).filter(|row| value(*row, 0) == Some(3) && value(*row, 999).is_none());
        let ids: Vec<i64> = ids.collect();
        let expected = [Some(ids.len() as i64), sum(ids.into_iter().map(Some))];
        assert_eq!(numbers(&mut session, filtered).await, [expected]);

        let sums = format!("SELECT {} FROM wide", list(|c| format!("sum(c{c})")));
        let expected = (0..COLUMNS).map(|c| sum((0..ROWS).map(|row| value(row, c))));
        assert_eq!(numbers(&mut session, &sums).await, [expected.collect::<Vec<_>>()]);

        let grouped = "SELECT c998, count(*), sum(c2) FROM wide GROUP BY c998 ORDER BY c998";
        let groups = (0..7).map(Some).chain([None]).map(|key| {
            let rows = || (0..ROWS).filter(move |row| value(*row, 998) == key);
            vec![key, Some(rows().count() as i64), sum(rows().map(|row| value(row, 2)))]
        });
        assert_eq!(numbers(&mut session, grouped).await, groups.collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn are_joined() {
        let mut session = filled().await;
        let joined =
            "SELECT count(*), sum(a.c999), sum(b.c1) FROM wide a JOIN wide b ON b.c5 = a.id";
        let pairs = (0..ROWS).filter_map(|row| Some((value(row, 5)?, row)));
        let pairs: Vec<(i64, i64)> = pairs.collect();
        let expected = vec![
            Some(pairs.len() as i64),
            sum(pairs.iter().map(|(id, _)| value(*id, 999))),
            sum(pairs.iter().map(|(_, row)| value(*row, 1))),
        ];
        assert_eq!(numbers(&mut session, joined).await, [expected]);
    }
}

mod statements_of_a_megabyte {
    use super::*;

    const BYTES: usize = 1 << 20;

    /// So many items that a list of them takes a megabyte.
    fn list(of: impl Fn(i64) -> String) -> (i64, String) {
        let mut text = of(0);
        let mut items = 1;
        while text.len() < BYTES {
            text.push(',');
            text.push_str(&of(items));
            items += 1;
        }
        (items, text)
    }

    #[tokio::test]
    async fn may_ask_for_the_rows_of_a_long_list() {
        let mut session = session(2);
        done(&mut session, "CREATE TABLE t (id bigint)").await;
        let rows = "INSERT INTO t SELECT i FROM generate_series(1000000, 1499999) AS g(i)";
        done(&mut session, rows).await;
        let (items, list) = list(|item| (1_000_000 + item * 3).to_string());
        let (first, last) = (1_000_000, 1_000_000 + (items - 1) * 3);
        let inside = [Some(items), Some((first + last) * items / 2)];
        let sql = format!("SELECT count(*), sum(id) FROM t WHERE id IN ({list})");
        assert_eq!(numbers(&mut session, &sql).await, [inside]);
        done(&mut session, "CREATE INDEX ON t (id)").await;
        assert_eq!(numbers(&mut session, &sql).await, [inside], "an index is asked first");
        let outside = format!("SELECT count(*) FROM t WHERE id NOT IN ({list})");
        assert_eq!(numbers(&mut session, &outside).await, [[Some(500_000 - items)]]);
        let rows = format!("SELECT id FROM t WHERE id IN ({list}) ORDER BY id DESC LIMIT 1");
        assert_eq!(numbers(&mut session, &rows).await, [[Some(last)]]);
    }

    #[tokio::test]
    async fn may_give_many_rows() {
        let mut session = session(2);
        done(&mut session, "CREATE TABLE t (id bigint PRIMARY KEY, name text)").await;
        let (items, rows) = list(|item| format!("({item}, 'name {item}')"));
        done(&mut session, &format!("INSERT INTO t VALUES {rows}")).await;
        let error_text =
            "SELECT count(*), sum(id), sum(length(name)) - sum(length(id::text)) FROM t";
        let expected = [Some(items), Some(items * (items - 1) / 2), Some(items * 5)];
        assert_eq!(numbers(&mut session, error_text).await, [expected]);
        let (items, rows) = list(|item| format!("({item})"));
        let error_text = format!("SELECT count(*), sum(n) FROM (VALUES {rows}) AS v(n)");
        let expected = [Some(items), Some(items * (items - 1) / 2)];
        assert_eq!(numbers(&mut session, &error_text).await, [expected]);
    }
}
