//! Statements to cancel, each with nearly all of its time in one operator.

use std::path::Path;

pub(super) struct Statement {
    pub name: &'static str,
    /// A setting that the statement needs, reset afterwards; empty if it needs none.
    pub setting: &'static str,
    /// The text, with `{file}` for a file's path and `{list}` for many numbers.
    sql: &'static str,
    /// The statement that undoes it if it completes; empty if nothing needs to be undone.
    pub undo: &'static str,
}

/// Numbers of the list that a column is compared with.
const LISTED: u64 = 100_000;

pub(super) const TABLES: &str = "\
    CREATE TABLE numbers (id bigint NOT NULL, key bigint NOT NULL, name text NOT NULL); \
    CREATE TABLE copied (id bigint, key bigint, name text)";
pub(super) const FILL: &str = "INSERT INTO numbers \
     SELECT i, i::bigint * 7919 % 10000019, 'name-' || (i::bigint * 104729 % 9999991) \
     FROM generate_series(1, 10000000) AS g(i)";

impl Statement {
    pub(super) fn sql(&self, directory: &Path) -> String {
        let file = directory.join("copied");
        let sql = self.sql.replace("{file}", &file.display().to_string());
        match sql.contains("{list}") {
            true => {
                let list: Vec<String> =
                    (0..LISTED).map(|number| (number * 3).to_string()).collect();
                sql.replace("{list}", &list.join(", "))
            }
            false => sql,
        }
    }
}

const fn query(name: &'static str, sql: &'static str) -> Statement {
    Statement { name, setting: "", sql, undo: "" }
}

const fn change(name: &'static str, sql: &'static str, undo: &'static str) -> Statement {
    Statement { name, setting: "", sql, undo }
}

pub(super) const STATEMENTS: [Statement; 25] = [
    query(
        "aggregate of ten million groups",
        "SELECT count(*) FROM (SELECT id, sum(key) AS s FROM numbers GROUP BY id) AS g WHERE s > 0",
    ),
    Statement {
        name: "ten million groups by way of the disk",
        setting: "query_memory_limit = '256MB'",
        sql: "SELECT count(*) FROM (SELECT name, sum(key) AS s FROM numbers GROUP BY name) AS g \
              WHERE s > 0",
        undo: "",
    },
    query(
        "hash join",
        "SELECT count(*) FROM numbers AS a JOIN numbers AS b ON a.id = b.key WHERE a.name < b.name",
    ),
    query(
        "nested-loop join",
        "SELECT count(*) FROM numbers AS a JOIN numbers AS b ON a.id < b.key",
    ),
    query("cross join", "SELECT sum(a.id - b.key) FROM numbers AS a CROSS JOIN numbers AS b"),
    query("sort", "SELECT id, name FROM numbers ORDER BY name, id OFFSET 9999990"),
    query(
        "window over one partition",
        "SELECT max(r) FROM (SELECT sum(key) OVER (ORDER BY name, id) AS r FROM numbers) AS w",
    ),
    query(
        "window over all rows",
        "SELECT max(r) FROM (SELECT key - avg(key) OVER () AS r FROM numbers) AS w",
    ),
    query(
        "recursive query of many turns",
        "WITH RECURSIVE c(n) AS (SELECT 1::bigint UNION ALL SELECT n + 1 FROM c \
         WHERE n < 1000000000) SELECT count(*) FROM c",
    ),
    query(
        "recursive query of many rows",
        "WITH RECURSIVE c(n, k) AS (SELECT id, 0 FROM numbers UNION ALL SELECT n, k + 1 FROM c \
         WHERE k < 1000) SELECT count(*) FROM c",
    ),
    query("DISTINCT", "SELECT count(*) FROM (SELECT DISTINCT key, name FROM numbers) AS d"),
    query("count(DISTINCT)", "SELECT count(DISTINCT name) FROM numbers"),
    query("string_agg", "SELECT length(string_agg(name, ',')) FROM numbers"),
    query("array_agg", "SELECT cardinality(array_agg(name)) FROM numbers"),
    query("generate_series", "SELECT sum(i) FROM generate_series(1, 100000000000) AS g(i)"),
    query("IN of 100,000 values", "SELECT count(*) FROM numbers WHERE id IN ({list})"),
    query(
        "EXCEPT",
        "SELECT count(*) FROM (SELECT id, name FROM numbers EXCEPT SELECT key, name FROM numbers) \
         AS e",
    ),
    query("COPY to CSV", "COPY numbers TO '{file}' (FORMAT csv)"),
    query("COPY to Parquet", "COPY numbers TO '{file}' (FORMAT parquet)"),
    change("INSERT of a query", "INSERT INTO copied SELECT * FROM numbers", "TRUNCATE copied"),
    query("UPDATE of all rows", "UPDATE numbers SET key = key + 1"),
    change(
        "CREATE INDEX",
        "CREATE INDEX numbers_by_name ON numbers (name, key)",
        "DROP INDEX numbers_by_name",
    ),
    change(
        "primary key of a table with rows",
        "ALTER TABLE numbers ADD CONSTRAINT numbers_key PRIMARY KEY (id)",
        "ALTER TABLE numbers DROP CONSTRAINT numbers_key",
    ),
    change(
        "ALTER TABLE with a rewrite",
        "ALTER TABLE numbers ALTER COLUMN key TYPE text",
        "ALTER TABLE numbers ALTER COLUMN key TYPE bigint",
    ),
    // This comes last, because its threads may compute on for minutes.
    query("string_agg in order", "SELECT length(string_agg(name, ',' ORDER BY key)) FROM numbers"),
];
