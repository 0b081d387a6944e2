//! Conditions whose operands fail for some rows, each beside one that guards it.
//!
//! Every answer is known: the same condition is computed here, row by row, and looks at a guarded
//! operand only where its guard lets it. Whatever order an engine chooses, no question may fail.

use thalweg_query::{Database, Session};

use super::database::rows_of_query;
use super::number_from;
use super::random::Random;

const ROWS: i64 = 40;
const QUESTIONS: usize = 30;

/// A row's two numbers and its text.
struct Row {
    id: i64,
    x: Option<i64>,
    y: Option<i64>,
    s: Option<String>,
}

/// True, false or NULL for a row.
type Answer = Box<dyn Fn(&Row) -> Option<bool>>;

/// A condition as SQL has it, and what it is for a row; `None` is NULL.
struct Condition {
    sql: String,
    answer: Answer,
}

fn condition(sql: String, answer: impl Fn(&Row) -> Option<bool> + 'static) -> Condition {
    Condition { sql, answer: Box::new(answer) }
}

fn plain(random: &mut Random) -> Condition {
    let least = random.below(7) as i64 - 3;
    match random.below(3) {
        0 => condition(format!("x > {least}"), move |row| Some(row.x? > least)),
        1 => condition(format!("y <= {least}"), move |row| Some(row.y? <= least)),
        _ => condition("s IS NULL".to_owned(), |row| Some(row.s.is_none())),
    }
}

/// A condition that fails for some rows, behind or before its guard.
fn guarded(random: &mut Random) -> Condition {
    let (number, least) = (random.below(20) as i64, random.below(9) as i64 - 4);
    let by_y = format!("{number} / y > {least}");
    let quotient = move |row: &Row| Some(number / row.y? > least);
    let is_zero = |row: &Row| row.y.map(|y| y == 0);
    let digits = "s ~ '^[0-9]+$'";
    let is_number = |row: &Row| {
        let text = row.s.as_ref()?;
        Some(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let number_of = |row: &Row| Some(row.s.as_ref()?.parse::<i64>().expect("it was asked for"));
    match random.below(5) {
        0 => condition(format!("(y <> 0 AND {by_y})"), move |row| match is_zero(row)? {
            true => Some(false),
            false => quotient(row),
        }),
        1 => condition(format!("(y = 0 OR {by_y})"), move |row| match is_zero(row)? {
            true => Some(true),
            false => quotient(row),
        }),
        2 => {
            let otherwise = random.one_in(2);
            let sql = format!("CASE WHEN y <> 0 THEN {by_y} ELSE {otherwise} END");
            condition(sql, move |row| match is_zero(row) {
                Some(false) => quotient(row),
                _ => Some(otherwise),
            })
        }
        3 => {
            condition(format!("({digits} AND s::integer > {least})"), move |row| {
                match is_number(row)? {
                    true => Some(number_of(row)? > least),
                    false => Some(false),
                }
            })
        }
        _ => condition(format!("(NOT {digits} OR {number} + s::integer > {least})"), move |row| {
            match is_number(row)? {
                true => Some(number + number_of(row)? > least),
                false => Some(true),
            }
        }),
    }
}

fn any(random: &mut Random, depth: usize) -> Condition {
    if depth == 0 || random.one_in(4) {
        return if random.one_in(3) { plain(random) } else { guarded(random) };
    }
    let (left, right) = (any(random, depth - 1), any(random, depth - 1));
    let (one, other) = (left.answer, right.answer);
    match random.below(3) {
        0 => condition(format!("({} AND {})", left.sql, right.sql), move |row| {
            match (one(row), other(row)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }
        }),
        1 => condition(format!("({} OR {})", left.sql, right.sql), move |row| {
            match (one(row), other(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }
        }),
        _ => condition(format!("NOT ({})", left.sql), move |row| one(row).map(|is| !is)),
    }
}

fn rows(random: &mut Random) -> Vec<Row> {
    let number = |random: &mut Random| match random.one_in(6) {
        true => None,
        false => Some(random.below(7) as i64 - 3),
    };
    let row = |id| Row {
        id,
        x: number(random),
        y: number(random),
        s: random.pick(&["12", "ab", "0", "-4", "", "7x", "NULL"]).to_owned().into(),
    };
    let rows = (0..ROWS).map(row);
    rows.map(|row| Row { s: row.s.filter(|text| text != "NULL"), ..row }).collect()
}

async fn fill(session: &mut Session, rows: &[Row]) {
    let number = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
    let values = rows.iter().map(|row| {
        let text = row.s.as_ref().map_or("NULL".to_owned(), |text| format!("'{text}'"));
        format!("({}, {}, {}, {text})", row.id, number(row.x), number(row.y))
    });
    let values = values.collect::<Vec<_>>().join(", ");
    let create = "CREATE TABLE guarded (id integer, x integer, y integer, s text)";
    for statement in [create, &format!("INSERT INTO guarded VALUES {values}")] {
        session.execute(statement).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_keep_what_may_fail_from_rows() {
    let seeds = match number_from("THALWEG_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("THALWEG_CASES").unwrap_or(12),
    };
    for seed in seeds {
        let mut random = Random::new(seed);
        let rows = rows(&mut random);
        let database = Database::builder().threads(2).open().unwrap();
        let mut session = database.session();
        fill(&mut session, &rows).await;
        for _ in 0..QUESTIONS {
            let Condition { sql, answer } = any(&mut random, 3);
            let passing: Vec<i64> =
                rows.iter().filter(|row| answer(row) == Some(true)).map(|row| row.id).collect();
            let list = passing.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
            let count = passing.len();
            let ids_where = |filter: &str| {
                format!("coalesce(string_agg(id::text, ',' ORDER BY id){filter}, '')")
            };
            let (ids, filtered) = (ids_where(""), ids_where(&format!(" FILTER (WHERE {sql})")));
            let questions = [
                (format!("SELECT {ids} FROM guarded WHERE {sql}"), list.clone()),
                (format!("SELECT {filtered} FROM guarded"), list.clone()),
                (format!("SELECT {ids} FROM (SELECT id, {sql} AS p FROM guarded) t WHERE p"), list),
                (format!("SELECT count(*) FROM guarded WHERE {sql}"), count.to_string()),
                (
                    format!("SELECT count(*) FROM guarded JOIN (VALUES (1)) v(one) ON {sql}"),
                    count.to_string(),
                ),
            ];
            for (question, wanted) in questions {
                let given = rows_of_query(&mut session, &question).await;
                let given =
                    given.unwrap_or_else(|error| panic!("seed {seed}: {question}\n{error}"));
                assert_eq!(given, [wanted], "seed {seed}: {question}");
            }
        }
    }
}
