//! Pairs of questions that have one answer.

use super::database::{Pair, Reading};
use super::expressions::Scope;
use super::random::Random;
use super::tables::{TYPES, Table, Tables, Type};

type Oracle = fn(&mut Random, &Tables) -> Pair;

pub const ORACLES: [(&str, Oracle); 11] = [
    ("NoREC of a filter", norec),
    ("NoREC of a join", norec_of_join),
    ("TLP of rows", rows),
    ("TLP of distinct rows", distinct_rows),
    ("TLP of aggregates", aggregates),
    ("TLP of groups", groups),
    ("TLP of HAVING", having),
    ("TLP of a join's condition", join_condition),
    ("TLP over a join", over_join),
    ("a fused aggregate and another", fused),
    ("filters of an aggregate and of rows", filters),
];

const DEPTH: usize = 3;

/// The three parts of a condition's rows.
fn parts(condition: &str) -> [String; 3] {
    [condition.to_owned(), format!("NOT {condition}"), format!("{condition} IS NULL")]
}

fn pair(one: String, other: String) -> Pair {
    Pair { one, other, reading: Reading::Rows }
}

/// The answers to one question about each of the parts, together.
fn together(condition: &str, between: &str, question: impl Fn(&str) -> String) -> String {
    parts(condition).map(|part| question(&part)).join(&format!(" {between} "))
}

fn norec(random: &mut Random, tables: &Tables) -> Pair {
    let table = &tables.left;
    let condition = Scope::of(&[table]).condition(random, DEPTH);
    Pair {
        one: format!("SELECT count(*) FROM {} WHERE {condition}", table.name),
        other: format!("SELECT {condition} FROM {}", table.name),
        reading: Reading::CountOfTrue,
    }
}

/// A join of both tables, of few rows of the left one.
fn join(random: &mut Random, tables: &Tables) -> String {
    let Tables { left, right } = tables;
    let condition = Scope::of(&[left, right]).condition(random, 1);
    let kind = random.pick(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    format!("{} {kind} {} ON {condition}", left.few(), right.name)
}

fn norec_of_join(random: &mut Random, tables: &Tables) -> Pair {
    let join = join(random, tables);
    let condition = Scope::of(&[&tables.left, &tables.right]).condition(random, 2);
    Pair {
        one: format!("SELECT count(*) FROM {join} WHERE {condition}"),
        other: format!("SELECT {condition} FROM {join}"),
        reading: Reading::CountOfTrue,
    }
}

fn rows(random: &mut Random, tables: &Tables) -> Pair {
    let table = &tables.left;
    let (scope, of) = (Scope::of(&[table]), random.of(&TYPES));
    let condition = scope.condition(random, DEPTH);
    let all = format!(
        "SELECT {}, {} AS v FROM {}",
        table.all('a'),
        scope.value(random, of, 2),
        table.name
    );
    let other = together(&condition, "UNION ALL", |part| format!("{all} WHERE {part}"));
    pair(all, other)
}

/// Some columns of a table.
fn some_columns(random: &mut Random, table: &Table) -> Vec<(String, Type)> {
    let count = 1 + random.below(3);
    let mut chosen: Vec<(String, Type)> = Vec::new();
    while chosen.len() < count {
        let place = random.below(table.columns.len());
        chosen.push((table.column(place), table.columns[place]));
    }
    chosen.sort_by(|one, other| one.0.cmp(&other.0));
    chosen.dedup();
    chosen
}

/// A list of columns as `k0`, `k1` and so on.
fn as_keys(columns: &[(String, Type)]) -> (String, String) {
    let named = columns.iter().enumerate().map(|(place, (name, _))| format!("{name} AS k{place}"));
    let names = columns.iter().map(|(name, _)| name.clone());
    (named.collect::<Vec<_>>().join(", "), names.collect::<Vec<_>>().join(", "))
}

fn distinct_rows(random: &mut Random, tables: &Tables) -> Pair {
    let table = &tables.left;
    let condition = Scope::of(&[table]).condition(random, DEPTH);
    let (keys, _) = as_keys(&some_columns(random, table));
    let all = format!("SELECT DISTINCT {keys} FROM {}", table.name);
    let other = together(&condition, "UNION", |part| format!("{all} WHERE {part}"));
    pair(all, other)
}

/// An aggregate of some rows, and the one that makes that of all of what was found in parts.
struct Measure {
    of_rows: String,
    of_parts: &'static str,
    returned: Type,
}

fn measure(random: &mut Random, scope: &Scope) -> Measure {
    let new = |of_rows, of_parts, returned| Measure { of_rows, of_parts, returned };
    let of = random.of(&TYPES);
    let value = scope.value(random, of, 1);
    match (random.below(4), of) {
        (0, _) => new("count(*)".to_owned(), "sum", Type::Int8),
        (1, _) => new(format!("count({value})"), "sum", Type::Int8),
        (2, Type::Int2 | Type::Int4) => new(format!("sum({value})"), "sum", Type::Int8),
        (2, Type::Float8) => new(format!("sum({value})"), "sum", Type::Float8),
        (2, Type::Numeric) => new(format!("sum({value})"), "sum", Type::Numeric),
        (2, Type::Bool) => new(format!("bool_and({value})"), "bool_and", Type::Bool),
        (_, Type::Bool) => new(format!("bool_or({value})"), "bool_or", Type::Bool),
        (2, Type::Int8) => new(format!("bit_xor({value})"), "bit_xor", Type::Int8),
        (2, _) => new(format!("max({value})"), "max", of),
        _ => new(format!("min({value})"), "min", of),
    }
}

fn some_measures(random: &mut Random, scope: &Scope) -> Vec<Measure> {
    (0..1 + random.below(3)).map(|_| measure(random, scope)).collect()
}

fn of_rows(measures: &[Measure]) -> String {
    let named = measures.iter().enumerate();
    let named = named.map(|(place, measure)| format!("{} AS m{place}", measure.of_rows));
    named.collect::<Vec<_>>().join(", ")
}

fn of_parts(measures: &[Measure]) -> String {
    let named = measures.iter().enumerate();
    let named = named.map(|(place, Measure { of_parts, .. })| format!("{of_parts}(m{place})"));
    named.collect::<Vec<_>>().join(", ")
}

fn aggregates(random: &mut Random, tables: &Tables) -> Pair {
    let table = &tables.left;
    let scope = Scope::of(&[table]);
    let condition = scope.condition(random, DEPTH);
    let measures = some_measures(random, &scope);
    let all = format!("SELECT {} FROM {}", of_rows(&measures), table.name);
    let parts = together(&condition, "UNION ALL", |part| format!("{all} WHERE {part}"));
    let other = format!("SELECT {} FROM ({parts}) AS parts", of_parts(&measures));
    pair(all, other)
}

fn groups(random: &mut Random, tables: &Tables) -> Pair {
    let table = &tables.left;
    let scope = Scope::of(&[table]);
    let condition = scope.condition(random, DEPTH);
    let measures = some_measures(random, &scope);
    let columns = some_columns(random, table);
    let (keys, names) = as_keys(&columns);
    let asked = |filter: &str| {
        let measures = of_rows(&measures);
        format!("SELECT {keys}, {measures} FROM {} {filter} GROUP BY {names}", table.name)
    };
    let parts = together(&condition, "UNION ALL", |part| asked(&format!("WHERE {part}")));
    let keys: Vec<String> = (0..columns.len()).map(|place| format!("k{place}")).collect();
    let (keys, measures) = (keys.join(", "), of_parts(&measures));
    let other = format!("SELECT {keys}, {measures} FROM ({parts}) AS parts GROUP BY {keys}");
    pair(asked(""), other)
}

fn having(random: &mut Random, tables: &Tables) -> Pair {
    let table = &tables.left;
    let measures = some_measures(random, &Scope::of(&[table]));
    let columns = some_columns(random, table);
    let (keys, names) = as_keys(&columns);
    let aggregates = measures.iter().map(|measure| (measure.of_rows.clone(), measure.returned));
    let scope = Scope::with(columns.iter().cloned().chain(aggregates).collect());
    let condition = scope.condition(random, 2);
    let all = format!("SELECT {keys}, {} FROM {} GROUP BY {names}", of_rows(&measures), table.name);
    let other = together(&condition, "UNION ALL", |part| format!("{all} HAVING {part}"));
    pair(all, other)
}

fn join_condition(random: &mut Random, tables: &Tables) -> Pair {
    let Tables { left, right } = tables;
    let condition = Scope::of(&[left, right]).condition(random, 2);
    let columns = format!("{}, {}", left.all('a'), right.all('b'));
    let all = format!("SELECT {columns} FROM {} CROSS JOIN {}", left.few(), right.name);
    let other = together(&condition, "UNION ALL", |part| {
        format!("SELECT {columns} FROM {} JOIN {} ON {part}", left.few(), right.name)
    });
    pair(all, other)
}

fn over_join(random: &mut Random, tables: &Tables) -> Pair {
    let Tables { left, right } = tables;
    let join = join(random, tables);
    let condition = Scope::of(&[left, right]).condition(random, 2);
    let all = format!("SELECT {}, {} FROM {join}", left.all('a'), right.all('b'));
    let other = together(&condition, "UNION ALL", |part| format!("{all} WHERE {part}"));
    pair(all, other)
}

/// A question about a table, and the same behind a limit, which keeps its aggregates from being
/// fused into the scan.
fn fused(random: &mut Random, tables: &Tables) -> Pair {
    let table = &tables.left;
    let scope = Scope::of(&[table]);
    let mut lists: Vec<String> = Vec::new();
    for measure in some_measures(random, &scope) {
        let filter = match random.one_in(3) {
            true => format!(" FILTER (WHERE {})", scope.condition(random, 2)),
            false => String::new(),
        };
        lists.push(format!("{}{filter}", measure.of_rows));
    }
    if random.one_in(3) {
        let (column, _) = scope.any_column(random);
        lists.push(format!("count(DISTINCT {column})"));
        lists.push("count(*)".to_owned());
    }
    let mut keys = Vec::new();
    for _ in 0..random.below(4) {
        let of = random.of(&TYPES);
        keys.push(scope.value(random, of, 2));
    }
    let named = keys.iter().enumerate().map(|(place, key)| format!("{key} AS k{place}"));
    let lists = lists.iter().enumerate().map(|(place, list)| format!("{list} AS m{place}"));
    let lists: Vec<String> = named.chain(lists).collect();
    let filter = match random.one_in(2) {
        true => format!("WHERE {}", scope.condition(random, DEPTH)),
        false => String::new(),
    };
    let places: Vec<String> = (1..=keys.len()).map(|place| place.to_string()).collect();
    let grouping = match places.is_empty() {
        true => String::new(),
        false => format!("GROUP BY {}", places.join(", ")),
    };
    let asked = |rows: &str| format!("SELECT {} FROM {rows} {filter} {grouping}", lists.join(", "));
    let name = table.name;
    pair(asked(name), asked(&format!("(SELECT * FROM {name} LIMIT 1000000000) AS {name}")))
}

/// `FILTER`, a CASE and `WHERE`.
fn filters(random: &mut Random, tables: &Tables) -> Pair {
    let table = &tables.left;
    let scope = Scope::of(&[table]);
    let condition = scope.condition(random, DEPTH);
    let of = random.of(&[Type::Int2, Type::Int4, Type::Float8, Type::Numeric]);
    let value = scope.value(random, of, 1);
    let name = table.name;
    let (one, other) = match random.one_in(2) {
        true => (
            format!("count({value}) FILTER (WHERE {condition})"),
            format!("sum({value}) FILTER (WHERE {condition})"),
        ),
        false => (
            format!("count(CASE WHEN {condition} THEN {value} END)"),
            format!("sum(CASE WHEN {condition} THEN {value} END)"),
        ),
    };
    pair(
        format!("SELECT {one} AS a, {other} AS b FROM {name}"),
        format!("SELECT count({value}) AS a, sum({value}) AS b FROM {name} WHERE {condition}"),
    )
}
