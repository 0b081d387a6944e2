//! Each shape of aggregate that is fused says what DataFusion's operators say of the same rows.

use thalweg_query::{Database, Session};

use super::{answer, done, plan, refused};

/// The rows of several chunks: NULLs, NaN, both zeros, infinities and dead rows among them.
const ROWS: &str = "INSERT INTO facts SELECT i, \
    CASE WHEN i % 11 = 3 THEN NULL ELSE 'tag_' || (i % 7) || CASE WHEN i % 2 = 0 THEN '%' \
        ELSE 'x' END END, \
    'name ' || (i * 7919 % 5000), \
    CASE WHEN i % 13 = 5 THEN NULL ELSE (i * 31 % 1000)::integer - 300 END, \
    (i % 90)::smallint, i * 1000003 % 777777 - 300000, \
    CASE i % 97 WHEN 2 THEN NULL WHEN 3 THEN 'NaN' WHEN 4 THEN 'Infinity' WHEN 5 THEN '-0' \
        ELSE (i % 1000) / 8.0 END, \
    (i % 8) / 4.0, \
    CASE WHEN i % 19 = 1 THEN NULL ELSE ((i * 37 % 100000) / 100.0)::numeric(15,2) END, \
    CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN true ELSE false END, \
    date '1969-06-01' + (i % 400)::integer, \
    CASE WHEN i % 23 = 7 THEN NULL \
        ELSE timestamp '1969-12-30 22:15:07.25' + (i * 977 % 600000) * interval '1 second' END, \
    timestamptz '2024-02-28 23:59:00+00' + (i * 13 % 7200) * interval '1 minute' \
    FROM generate_series(1::bigint, 140000::bigint) AS g(i)";

/// The same rows behind a limit, which aggregates are not fused across.
const BEHIND_A_LIMIT: &str = "(SELECT * FROM facts LIMIT 1000000000) AS facts";

async fn session() -> Session {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    done(
        &mut session,
        "CREATE TABLE facts (id bigint, tag text, name text, small integer, tiny smallint, \
         large bigint, float double precision, rate real, amount numeric(15,2), flag boolean, \
         day date, moment timestamp, instant timestamptz)",
    )
    .await;
    done(&mut session, ROWS).await;
    done(&mut session, "DELETE FROM facts WHERE id % 29 = 4").await;
    session
}

/// Asks about the rows both ways, of all of them, of some and of none.
async fn compare(select_lists: &[&str], groupings: &[&str]) {
    let mut session = session().await;
    for list in select_lists {
        for grouping in groupings {
            for filter in ["", "WHERE id % 3 = 1", "WHERE id < 0"] {
                let asked = |rows: &str| {
                    let keys = grouping.strip_prefix("GROUP BY ").map(|keys| format!("{keys}, "));
                    let keys = keys.unwrap_or_default();
                    format!("SELECT {keys}{list} FROM {rows} {filter} {grouping}")
                };
                let (fused, apart) = (asked("facts"), asked(BEHIND_A_LIMIT));
                let explained = plan(&mut session, &format!("EXPLAIN {fused}")).await;
                assert!(explained.contains("FusedAggregate"), "{fused}: {explained}");
                assert!(!explained.contains("ShardScan"), "{fused}: {explained}");
                let explained = plan(&mut session, &format!("EXPLAIN {apart}")).await;
                assert!(!explained.contains("FusedAggregate"), "{apart}: {explained}");
                let (found, expected) =
                    (sorted(&mut session, &fused).await, sorted(&mut session, &apart).await);
                assert_eq!(found, expected, "{fused}");
            }
        }
    }
}

async fn sorted(session: &mut Session, select: &str) -> Vec<String> {
    let mut lines: Vec<String> = answer(session, select).await.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

const GROUPINGS: [&str; 3] = ["", "GROUP BY tag", "GROUP BY small, flag"];

#[tokio::test]
async fn filters_of_single_aggregates() {
    compare(
        &[
            "count(*) FILTER (WHERE flag) AS a, sum(small) FILTER (WHERE large > 0) AS b, \
             avg(amount) FILTER (WHERE NOT flag) AS c, max(name) FILTER (WHERE tiny = 3) AS d",
            "sum(1000 / (tiny + 1)) FILTER (WHERE tiny <> 7 AND small > 9) AS a, count(*) AS b, \
             min(float) FILTER (WHERE flag IS NULL) AS c, sum(small) AS d",
        ],
        &["", "GROUP BY tag", "GROUP BY large"],
    )
    .await;
}

#[tokio::test]
async fn variances_and_deviations() {
    compare(
        &[
            "round(stddev(small)::numeric, 6) AS a, round(var_pop(amount)::numeric, 4) AS b, \
             round(stddev_pop(large)::numeric, 3) AS c, round(variance(tiny)::numeric, 6) AS d",
            "round(var_samp(rate)::numeric, 6) AS a, \
             round(stddev_samp(float) FILTER (WHERE float < 500)::numeric, 6) AS b, \
             stddev(float) FILTER (WHERE float > 1e300::float8) AS c",
        ],
        &GROUPINGS,
    )
    .await;
}

#[tokio::test]
async fn distinct_values() {
    compare(
        &[
            "count(DISTINCT small) AS a, count(DISTINCT tag) AS b, count(DISTINCT float) AS c",
            "count(DISTINCT name) AS a, count(*) AS b, \
             count(DISTINCT day) FILTER (WHERE flag) AS c",
            "count(DISTINCT moment) AS a, count(DISTINCT flag) AS b, \
             count(DISTINCT small % 7) AS c",
        ],
        &GROUPINGS,
    )
    .await;
}

/// In orders in which no two rows are alike that may come first.
#[tokio::test]
async fn first_and_last_rows() {
    compare(
        &[
            "first_value(name ORDER BY id) AS a, last_value(tag ORDER BY large DESC) AS b, \
             first_value(float ORDER BY id::float8 DESC) AS c, last_value(rate ORDER BY -id) AS d",
            "first_value(id ORDER BY moment) AS a, last_value(name ORDER BY moment DESC) AS b, \
             first_value(amount ORDER BY moment DESC NULLS LAST) AS c, \
             last_value(flag ORDER BY moment NULLS FIRST) AS d, sum(small) AS e",
            "first_value(amount ORDER BY id) IGNORE NULLS AS a, \
             last_value(tag ORDER BY id) IGNORE NULLS AS b, \
             first_value(tiny * 3 ORDER BY id) FILTER (WHERE flag) AS c, \
             last_value(day ORDER BY id) FILTER (WHERE large > 0) AS d, \
             last_value(instant ORDER BY id) AS e",
        ],
        &["", "GROUP BY tag", "GROUP BY small, flag", "GROUP BY id / 50"],
    )
    .await;
}

/// The first one of several lies first in the table, and the last one last.
#[tokio::test]
async fn rows_that_are_alike_in_an_order_come_as_they_lie() {
    let mut session = Database::builder().threads(2).open().unwrap().session();
    let table = "CREATE TABLE alike (id bigint, g bigint, n bigint, f double precision)";
    done(&mut session, table).await;
    let rows = "INSERT INTO alike VALUES (1, 1, 5, 0), (2, 2, 5, 1), (3, 1, 5, '-0'), \
        (4, 2, 4, NULL), (5, 1, NULL, NULL), (6, 1, NULL, 1)";
    done(&mut session, rows).await;
    let select = "SELECT g, first_value(id ORDER BY n) AS a, \
        last_value(id ORDER BY n NULLS FIRST) AS b, last_value(id ORDER BY n) AS c, \
        first_value(id ORDER BY n DESC) AS d, first_value(id ORDER BY f) AS e, \
        last_value(id ORDER BY f DESC) AS f FROM alike GROUP BY g";
    let explained = plan(&mut session, &format!("EXPLAIN {select}")).await;
    assert!(explained.contains("FusedAggregate"), "{explained}");
    let found = answer(&mut session, select).await;
    for group in ["| 1 | 1 | 3 | 6 | 5 | 1 | 3 |", "| 2 | 4 | 2 | 2 | 2 | 2 | 2 |"] {
        assert!(found.contains(group), "{found}");
    }
}

#[tokio::test]
async fn bits_and_truth() {
    compare(
        &[
            "bit_and(small) AS a, bit_or(large) AS b, bit_xor(tiny) AS c",
            "bool_and(flag) AS a, bool_or(flag) AS b, every(small > -301) AS c, \
             bool_or(tag LIKE '%9%') AS d",
        ],
        &GROUPINGS,
    )
    .await;
}

#[tokio::test]
async fn quotients_rests_and_casts() {
    compare(
        &[
            "sum(small / 7) AS a, sum(large / -3) AS b, sum(small % 7) AS c, min(large % -9) AS d",
            "sum(float / 4) FILTER (WHERE float < 900) AS a, max(-float) AS b, min(-amount) AS c, \
             sum(-small) AS d",
            "max(small::float8 / 4) AS a, max(amount::float8) AS b, sum(rate::float8) AS c, \
             sum(large::integer) AS d",
            "sum((small / 2.5::float8)::integer) AS a, sum(flag::integer) AS b, \
             max(rate::bigint) AS c, sum(tiny::smallint) AS d",
        ],
        &GROUPINGS,
    )
    .await;
}

#[tokio::test]
async fn cases() {
    compare(
        &[
            "sum(CASE WHEN small > 100 THEN small ELSE 0 END) AS a, \
             sum(CASE WHEN flag THEN amount END) AS b, \
             count(CASE tag WHEN 'tag_1x' THEN 1 WHEN 'tag_2%' THEN NULL ELSE 3 END) AS c",
            "max(CASE WHEN small = 0 THEN NULL WHEN small > 0 THEN 1000 / small ELSE small END) \
             AS a, min(CASE WHEN float = 'NaN' THEN -1.5 ELSE float END) AS b, \
             sum(coalesce(small, 0)) AS c",
            "count(small > 3) AS a, count((small > 3 AND flag) IS NOT TRUE OR NULL) AS b, \
             sum(CASE WHEN small IS DISTINCT FROM 7 THEN 1 ELSE 2 END) AS c, \
             sum(CASE WHEN (small + 1) IS NULL THEN 1 ELSE 0 END) AS d",
        ],
        &GROUPINGS,
    )
    .await;
}

#[tokio::test]
async fn keys_that_are_computed_or_long() {
    compare(
        &["count(*) AS n, sum(small) AS s"],
        &[
            "GROUP BY date_trunc('hour', moment)",
            "GROUP BY date_trunc('week', moment), date_trunc('day', instant)",
            "GROUP BY date_bin('15 minutes', instant)",
            "GROUP BY date_bin('2 days', moment, timestamp '2001-01-01')",
            "GROUP BY moment::date, flag",
            "GROUP BY small % 10, large / 100000",
            "GROUP BY small > 100, tag LIKE 'tag%1%', float IS NULL",
            "GROUP BY CASE WHEN small < 0 THEN 1 WHEN small < 300 THEN 2 END",
            "GROUP BY tag, name, small, tiny, amount, large, day, flag",
            "GROUP BY amount, moment, instant, id, large, name, small",
        ],
    )
    .await;
}

#[tokio::test]
async fn filters_of_rows() {
    let mut session = session().await;
    for filter in [
        "tag LIKE 'tag%'",
        "tag NOT LIKE '%x'",
        "name LIKE '%1%2%'",
        r"tag LIKE '%\%'",
        "(small > 100) IS TRUE",
        "(small > 100) IS NOT TRUE",
        "(small > 100 OR flag) IS FALSE",
        "(small > 100) IS NOT FALSE",
        "(small > 100) IS UNKNOWN",
        "(small + tiny) IS NULL",
        r"NOT (tag LIKE 'tag\_1%' OR small IS NULL)",
        "small IS NOT DISTINCT FROM tiny",
        "small / 10 = 7 AND small % 10 > 3",
        "float = 0",
        "float > 120",
        "float <> 'NaN'",
        "float IN (0, 1.5)",
        "CASE WHEN flag THEN small > 0 ELSE tiny > 50 END",
        "date_trunc('hour', moment) = '1970-01-01 05:00:00'",
        "instant::date = '2024-02-29'",
    ] {
        let asked = |rows: &str| {
            format!("SELECT count(*), sum(small), min(id), max(id) FROM {rows} WHERE {filter}")
        };
        let explained = plan(&mut session, &format!("EXPLAIN {}", asked("facts"))).await;
        assert!(explained.contains("FusedAggregate"), "{filter}: {explained}");
        let found = answer(&mut session, &asked("facts")).await;
        assert_eq!(found, answer(&mut session, &asked(BEHIND_A_LIMIT)).await, "{filter}");
    }
}

#[tokio::test]
async fn what_cannot_be_computed_is_refused_alike() {
    let mut session = session().await;
    for list in [
        "sum(1 / small)",
        "sum(float / (tiny - 3))",
        "sum(small % (tiny - 3))",
        "sum((large * 10)::smallint)",
        "max(float::integer)",
        "sum(large * 9223372036854775807)",
        "sum(CASE WHEN tiny = 3 THEN large * 9223372036854775807 ELSE 0 END)",
        "sum(small) FILTER (WHERE 10 / (tiny - 3) > 0)",
        "sum((tiny * 30000::smallint))",
    ] {
        let asked = |rows: &str| format!("SELECT {list} FROM {rows}");
        let explained = plan(&mut session, &format!("EXPLAIN {}", asked("facts"))).await;
        assert!(explained.contains("FusedAggregate"), "{list}: {explained}");
        let fused = refused(&mut session, &asked("facts")).await;
        let apart = refused(&mut session, &asked(BEHIND_A_LIMIT)).await;
        assert_eq!(fused.message(), apart.message(), "{list}");
        assert_eq!(fused.state(), apart.state(), "{list}");
    }
}

#[tokio::test]
async fn little_memory_gives_the_same_answers() {
    let small = Database::builder().threads(2).memory_limit(8 << 20).open().unwrap();
    let mut small = small.session();
    let mut large = Database::builder().threads(2).open().unwrap().session();
    for session in [&mut small, &mut large] {
        done(session, "CREATE TABLE facts (id bigint, part integer, value bigint)").await;
        done(
            session,
            "INSERT INTO facts SELECT i, (i % 1000)::integer, i * 7919 % 60000 \
             FROM generate_series(1::bigint, 250000::bigint) AS g(i)",
        )
        .await;
    }
    for inner in [
        "SELECT id, round(coalesce(stddev(value), 0)::numeric, 3) AS a, \
         sum(value) FILTER (WHERE part > 500) AS b FROM facts GROUP BY id",
        "SELECT part, count(DISTINCT value) AS a, bit_xor(value) AS b, count(*) AS n \
         FROM facts GROUP BY part",
    ] {
        let select = format!("SELECT count(*), sum(a), sum(b) FROM ({inner}) AS x");
        assert_eq!(answer(&mut small, &select).await, answer(&mut large, &select).await);
    }
}
