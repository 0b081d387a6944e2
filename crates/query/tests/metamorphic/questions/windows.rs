//! Windows: places in an order, neighbours, and aggregates over frames.

use super::super::expressions::Scope;
use super::super::random::Random;
use super::super::tables::{TYPES, Table, Tables, Type};
use super::{
    Question, and_all_others, filter, listed, order_by, rows_of, some_names, sort_key, sort_keys,
    types, values,
};

const STARTS: [&str; 4] = ["UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW"];
const ENDS: [&str; 4] = ["CURRENT ROW", "1 FOLLOWING", "3 FOLLOWING", "UNBOUNDED FOLLOWING"];
const RANGES: [&str; 4] = [
    "UNBOUNDED PRECEDING AND CURRENT ROW",
    "CURRENT ROW AND UNBOUNDED FOLLOWING",
    "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "CURRENT ROW AND CURRENT ROW",
];

pub fn windows(random: &mut Random, tables: &Tables) -> Question {
    let table = &tables.left;
    let scope = Scope::of(&[table]);
    let mut list = table.names();
    let windows = 1 + random.below(3);
    for _ in 0..windows {
        list.push(window(random, &scope, table));
    }
    // Which values of several windows rows that are equal have together, nobody says.
    let rows = match windows {
        1 => rows_of(random, table),
        _ => format!("(SELECT DISTINCT {1} FROM {0}) AS {0}", table.name, table.names().join(", ")),
    };
    let filter = filter(random, &scope, 1);
    Question::of_any_order(format!("SELECT {} FROM {rows} {filter}", listed(&list)))
}

fn window(random: &mut Random, scope: &Scope, table: &Table) -> String {
    let parts = partitions(random, scope);
    let some = some_names(random, scope, 2);
    // Rows that are equal in all columns may change places.
    let all = and_all_others(random, &some, table);
    let some = order_by(random, &sort_keys(scope, &some));
    let all = order_by(random, &sort_keys(scope, &all));
    let of = random.of(&TYPES);
    let value = scope.value(random, of, 1);
    match random.below(7) {
        0 => {
            let function = random.pick(&["rank", "dense_rank"]);
            format!("{function}() OVER ({parts}{some})")
        }
        1 => format!("row_number() OVER ({parts}{all})"),
        2 => {
            let function = random.pick(&["lag", "lead"]);
            let mut distance = random.pick(&["", ", 1", ", 2", ", 3"]).to_owned();
            if !distance.is_empty() && random.one_in(2) {
                distance += &format!(", {}", of.literal(random));
            }
            format!("{function}({value}{distance}) OVER ({parts}{all})")
        }
        3 => {
            let function = random.pick(&["first_value", "last_value"]);
            let (frame, _) = rows(random);
            format!("{function}({value}) OVER ({parts}{all} {frame})")
        }
        _ => {
            let (frame, only_grows) = match random.below(4) {
                0 => {
                    let (frame, only_grows) = rows(random);
                    (format!("{all} {frame}"), only_grows)
                }
                1 => (format!("{some} RANGE BETWEEN {}", random.pick(&RANGES)), false),
                2 => (some, true),
                _ => (String::new(), true),
            };
            let aggregate = aggregate(random, scope, (value, of), only_grows);
            format!("{aggregate} OVER ({parts}{frame})")
        }
    }
}

fn partitions(random: &mut Random, scope: &Scope) -> String {
    if random.one_in(3) {
        return String::new();
    }
    let types = types(random, 1, 2);
    let values = values(random, scope, &types, 1);
    let keys = types.iter().zip(&values).map(|(of, value)| sort_key(*of, value));
    format!("PARTITION BY {} ", keys.collect::<Vec<String>>().join(", "))
}

/// A frame of rows, and whether nothing ever leaves it.
fn rows(random: &mut Random) -> (String, bool) {
    let (start, end) = (random.pick(&STARTS), random.pick(&ENDS));
    (format!("ROWS BETWEEN {start} AND {end}"), start == STARTS[0])
}

fn aggregate(
    random: &mut Random,
    scope: &Scope,
    (value, of): (String, Type),
    only_grows: bool,
) -> String {
    let call = match (random.below(4), of) {
        (0, _) if random.one_in(2) => "count(*)".to_owned(),
        (0, _) => format!("count({value})"),
        (1, Type::Int2 | Type::Int4 | Type::Numeric) => format!("sum({value})"),
        // What leaves a frame is subtracted, which infinity and NaN do not take.
        (1, Type::Float8) if only_grows => format!("sum({value})"),
        // Frames that rows leave are refused.
        (_, Type::Bool) if !only_grows => format!("count({value})"),
        (1, Type::Bool) => format!("bool_and({value})"),
        (2, Type::Int2 | Type::Int4) => format!("avg({value}::double precision)"),
        (_, Type::Bool) => format!("bool_or({value})"),
        _ => format!("{}({value})", random.pick(&["min", "max"])),
    };
    match random.one_in(6) {
        true => format!("{call} FILTER (WHERE {})", scope.condition(random, 1)),
        false => call,
    }
}
