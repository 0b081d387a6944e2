//! Scans that read the rest of a row where it passes the filter alone.

use super::{answer, done, figure, plan, session};

#[tokio::test]
async fn rows_are_those_that_the_filter_finds_in_all() {
    let mut session = session().await;
    done(&mut session, "DELETE FROM trades WHERE id % 100 = 7").await;
    done(&mut session, "INSERT INTO trades VALUES (-1, NULL, 500, NULL), (-2, 's1', 3, 9)").await;
    for condition in [
        "volume = 500",
        "symbol = 's1' AND volume < 20",
        "volume BETWEEN 3 AND 5 OR id % 1000 = 9",
        "symbol LIKE '%2' AND rate > 6",
        "symbol IS NULL",
        "volume < 900",
        "volume < 30 AND length(symbol) = 2",
    ] {
        let asked = |condition: &str| {
            format!(
                "SELECT id, symbol, rate, count(*) OVER () FROM trades WHERE {condition} \
                 ORDER BY id LIMIT 300"
            )
        };
        // What is not understood is not asked of rows before they are read.
        let plain = answer(&mut session, &asked(&format!("coalesce({condition}, false)"))).await;
        assert_eq!(answer(&mut session, &asked(condition)).await, plain, "{condition}");
    }
}

#[tokio::test]
async fn other_rows_are_not_read() {
    let mut session = session().await;
    let run = "EXPLAIN ANALYZE SELECT id, symbol FROM trades WHERE volume = 500";
    let run = plan(&mut session, run).await;
    let scan = run.lines().find(|line| line.contains("ShardScan")).unwrap();
    assert!(scan.contains("output_rows=250,"), "{run}");
    assert_eq!(figure(&run, "ShardScan", "rows_read"), "250", "{run}");
    // Of each row two numbers, a text of two letters and where it ends.
    assert!(figure(&run, "ShardScan", "output_bytes").starts_with("5."), "{run}");
    done(&mut session, "UPDATE trades SET rate = -1 WHERE volume = 502").await;
    done(&mut session, "DELETE FROM trades WHERE volume = 502 AND id < 100000").await;
    let left = answer(&mut session, "SELECT count(*) AS n FROM trades WHERE rate = -1").await;
    assert!(left.contains("| 150 |"), "{left}");
}

#[tokio::test]
async fn what_is_read_and_what_is_not_is_told() {
    let mut session = session().await;
    let run = plan(&mut session, "EXPLAIN ANALYZE SELECT id FROM trades").await;
    // Batches are slices of chunks: eight bytes a row, and perhaps a bit that it is no NULL.
    let bytes = figure(&run, "ShardScan", "output_bytes");
    assert!(bytes.starts_with("19") && bytes.ends_with(" KB"), "{run}");
    assert_eq!(figure(&run, "ShardScan", "chunks_pruned"), "0");
    let chunks = figure(&run, "ShardScan", "chunks_read");
    // The dictionaries of chunks know that there is no such text, their bounds do not.
    let none = "EXPLAIN ANALYZE SELECT id FROM trades WHERE symbol = 's1x'";
    let none = plan(&mut session, none).await;
    assert_eq!(figure(&none, "ShardScan", "chunks_pruned"), chunks, "{none}");
    assert_eq!(figure(&none, "ShardScan", "chunks_read"), "0", "{none}");
}
