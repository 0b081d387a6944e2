//! Names that mean different things at different places, and functions that give rows.

use super::super::marks::optional;
use super::super::peers::Statement;
use super::super::random::Random;
use super::super::tables::Tables;
use super::{aliased, ordered, table, unordered};

/// Aliases that hide columns, columns with the names of tables, and subqueries that see both.
pub fn names(random: &mut Random, tables: &Tables) -> Statement {
    let (outer, inner) = (table(random, tables).name, table(random, tables).name);
    let other = random.pick(&["r", "s", "t"]);
    let direction = random.pick(&["", " DESC", " NULLS FIRST"]);
    match random.below(18) {
        0 => ordered(format!("SELECT -a AS a, id FROM {outer} ORDER BY a{direction}, id")),
        1 => ordered(format!("SELECT -a AS a, id FROM {outer} ORDER BY a + 0{direction}, id")),
        2 => ordered(format!("SELECT b AS a, a AS b, id FROM {outer} ORDER BY b{direction}, 3")),
        3 => unordered(format!("SELECT a % 2 AS a, count(*) FROM {outer} GROUP BY a")),
        4 => unordered(format!("SELECT a % 2 AS k, count(*) FROM {outer} GROUP BY k")),
        5 => unordered(format!(
            "SELECT (SELECT count(*) FROM {inner} x(id, {outer}) WHERE x.{outer} = {outer}.a) \
             FROM {outer}"
        )),
        6 => unordered(format!(
            "SELECT q.id, (SELECT count(*) FROM (SELECT a AS q FROM {inner}) i WHERE i.q = q.a) \
             FROM {outer} q"
        )),
        7 => unordered(format!(
            "SELECT q.id, EXISTS (SELECT 1 FROM (SELECT a AS q, b FROM {inner}) i \
             WHERE i.q = q.a{}) FROM {outer} q",
            optional(" AND i.b <> q.b")
        )),
        8 => unordered(format!(
            "SELECT q.id FROM {outer} q WHERE a IN (SELECT a FROM {inner} WHERE b = q.b)"
        )),
        9 => unordered(format!(
            "SELECT q.id FROM {outer} q WHERE q.a IN (SELECT b FROM {inner} q WHERE q.a > 0)"
        )),
        10 => unordered(format!("SELECT count({other}.*) FROM {outer} {other}")),
        11 => ordered(format!("SELECT DISTINCT a AS x FROM {outer} ORDER BY x{direction}")),
        12 => ordered(format!(
            "SELECT a AS x, count(*) AS a FROM {outer} GROUP BY x ORDER BY a{direction}, x"
        )),
        13 => {
            unordered(format!("SELECT q.x FROM (SELECT a AS x, b AS a FROM {outer}) q WHERE a > 0"))
        }
        14 => ordered(format!(
            "SELECT a FROM {outer} UNION SELECT b FROM {inner} ORDER BY a{direction}"
        )),
        15 => unordered(format!(
            "SELECT * FROM (SELECT -a AS a, id FROM {outer} ORDER BY a + 0{direction}, id \
             LIMIT 2) q"
        )),
        16 => ordered(format!(
            "SELECT b AS a, q.id FROM {outer} q ORDER BY q.{}{direction}, q.id",
            random.pick(&["a", "b", "id"])
        )),
        _ => unordered(format!(
            "SELECT a, a AS y, b, count(*) FROM {outer} GROUP BY a, b, ROLLUP (y{})",
            optional(", b")
        )),
    }
}

/// `WITH`, whose names hide tables and each other.
pub fn common(random: &mut Random, tables: &Tables) -> Statement {
    let (one, other) = (table(random, tables).name, table(random, tables).name);
    let materialized = random.pick(&["", "MATERIALIZED ", "NOT MATERIALIZED "]);
    let (outer, scope) = aliased(random, tables, "q");
    let condition = scope.condition(random, 1);
    unordered(match random.below(9) {
        0 => format!(
            "WITH {one} AS {materialized}(SELECT a, b FROM {one} WHERE a > 0) \
             SELECT * FROM {one}{}",
            optional(&format!(", (WITH {one} AS (SELECT 1 AS z) SELECT * FROM {one}) i"))
        ),
        1 => format!(
            "WITH x AS {materialized}(SELECT a FROM {one}), y AS (SELECT a FROM x WHERE a > 0) \
             SELECT (SELECT count(*) FROM x), (SELECT count(*) FROM y), \
             (WITH x AS (SELECT a FROM {other} LIMIT 0) SELECT count(*) FROM x)"
        ),
        2 => format!(
            "SELECT q.id FROM {} q WHERE q.a IN (WITH i AS (SELECT q.b) SELECT b FROM {one} \
             WHERE b IN (SELECT b FROM i))",
            outer.name
        ),
        3 => format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) \
             SELECT n.i, q.id FROM n LEFT JOIN {} q ON q.a = n.i AND {condition}",
            outer.name
        ),
        4 => format!(
            "WITH x AS {materialized}(SELECT q.id, q.a FROM {} q WHERE {condition}) \
             SELECT l.id, r.a FROM x l JOIN x r ON l.a = r.a{}",
            outer.name,
            optional(" WHERE EXISTS (SELECT 1 FROM x WHERE x.id > l.id)")
        ),
        5 => {
            format!("WITH x(a, b) AS (SELECT b, a FROM {one}) SELECT a, count(b) FROM x GROUP BY a")
        }
        6 => format!(
            "SELECT q.id, (WITH x AS (SELECT a FROM {one} WHERE a = q.a) SELECT count(*) FROM x) \
             FROM {} q",
            outer.name
        ),
        7 => format!(
            "WITH RECURSIVE w(id, a, depth) AS (SELECT id, a, 0 FROM {one} UNION \
             SELECT o.id, o.b, depth + 1 FROM w JOIN {other} o ON o.a = w.a WHERE depth < 2) \
             SELECT * FROM w"
        ),
        _ => format!(
            "WITH c AS {materialized}(SELECT id AS x FROM {one} ORDER BY x LIMIT 3) \
             SELECT DISTINCT x FROM (SELECT x FROM c UNION ALL SELECT x FROM c) i"
        ),
    })
}

pub fn series(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let step = random.pick(&["", ", 2", ", -1"]);
    let (from, to) = (random.pick(&["1", "q.a", "0"]), random.pick(&["3", "q.id", "q.b", "0"]));
    let series = format!("generate_series({from}, {to}{step})");
    let condition = optional(&format!(" WHERE {}", scope.condition(random, 1)));
    let name = table.name;
    match random.below(13) {
        0 => unordered(format!("SELECT q.id, {series} FROM {name} q{condition}")),
        1 => ordered(format!(
            "SELECT q.id, {series} AS g FROM {name} q{condition} ORDER BY q.id, g DESC LIMIT 5"
        )),
        2 => ordered(format!("SELECT q.id, {series} FROM {name} q ORDER BY 1 DESC, {series} DESC")),
        3 => unordered(format!(
            "SELECT q.id, {series}, unnest(ARRAY[q.a, NULL, 7]) FROM {name} q{condition}"
        )),
        4 => unordered(format!("SELECT q.id, g FROM {name} q, {series} g{condition}")),
        5 => unordered(format!(
            "SELECT q.id, u.x, u.n FROM {name} q, unnest(ARRAY[q.b, q.a]) WITH ORDINALITY u(x, n)"
        )),
        6 => unordered(format!(
            "SELECT q.id, g FROM {name} q LEFT JOIN LATERAL {series} g ON g <> q.b"
        )),
        7 => {
            unordered(format!("SELECT count(*) FROM (SELECT {series} FROM {name} q{condition}) x"))
        }
        8 => unordered(
            "SELECT x.a, x.b FROM unnest(ARRAY[1, 2, NULL], ARRAY['a', 'b']) AS x(a, b)".to_owned(),
        ),
        9 => unordered(format!("SELECT DISTINCT {series} % 2 FROM {name} q{condition}")),
        10 => unordered(format!(
            "SELECT q.id, (SELECT sum(g) FROM {series} g) FROM {name} q{condition}"
        )),
        11 => unordered(format!(
            "SELECT q.id, regexp_split_to_table(q.a || 'xax', 'x') FROM {name} q"
        )),
        _ => unordered(format!(
            "SELECT q.a, count(*), sum(g) FROM {name} q, {series} g GROUP BY q.a"
        )),
    }
}
