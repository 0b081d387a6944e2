//! Questions that DuckDB is asked as well, of the shapes that pairs of questions leave out.
//!
//! Each has one answer in both dialects: where NULL comes in an order is said, orders that decide
//! about rows have all columns, and floating point numbers are not subtracted from sums again.

mod groups;
mod joins;
mod sets;
mod subqueries;
mod windows;

use super::expressions::Scope;
use super::random::Random;
use super::tables::{TYPES, Table, Tables, Type};

pub struct Question {
    pub sql: String,
    /// Whether its rows come in one order.
    pub is_ordered: bool,
}

impl Question {
    pub fn of_any_order(sql: String) -> Question {
        Question { sql, is_ordered: false }
    }
}

type Shape = fn(&mut Random, &Tables) -> Question;

pub const SHAPES: [(&str, Shape); 10] = [
    ("a join", joins::rows),
    ("a join with groups", joins::with_groups),
    ("a condition of a subquery", subqueries::condition),
    ("a subquery's value", subqueries::value),
    ("groups", groups::groups),
    ("windows", windows::windows),
    ("operations of sets", sets::operations),
    ("rows in an order", in_order),
    ("first rows of groups", firsts),
    ("a common table expression", sets::common),
];

/// Values as a list of columns `v0`, `v1` and so on.
fn listed(values: &[String]) -> String {
    let named = values.iter().enumerate().map(|(place, value)| format!("{value} AS v{place}"));
    named.collect::<Vec<String>>().join(", ")
}

fn types(random: &mut Random, least: usize, choices: usize) -> Vec<Type> {
    (0..least + random.below(choices)).map(|_| random.of(&TYPES)).collect()
}

fn values(random: &mut Random, scope: &Scope, types: &[Type], depth: usize) -> Vec<String> {
    types.iter().map(|of| scope.value(random, *of, depth)).collect()
}

/// A table, or its first rows.
fn rows_of(random: &mut Random, table: &Table) -> String {
    match random.one_in(2) {
        true => table.few(),
        false => table.name.to_owned(),
    }
}

/// A filter, or none.
fn filter(random: &mut Random, scope: &Scope, depth: usize) -> String {
    match random.one_in(2) {
        true => format!("WHERE {}", scope.condition(random, depth)),
        false => String::new(),
    }
}

/// Some columns, each once, in any order.
fn some_names(random: &mut Random, scope: &Scope, most: usize) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for _ in 0..1 + random.below(most) {
        let (name, _) = scope.any_column(random);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The same columns and behind them all others of a table, in any order.
fn and_all_others(random: &mut Random, names: &[String], table: &Table) -> Vec<String> {
    let all = table.names();
    let others = shuffled(random, all.len()).into_iter().map(|place| all[place].clone());
    names.iter().cloned().chain(others.filter(|name| !names.contains(name))).collect()
}

/// The numbers below a bound, in any order.
fn shuffled(random: &mut Random, bound: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..bound).collect();
    for last in (1..bound).rev() {
        numbers.swap(last, random.below(last + 1));
    }
    numbers
}

/// A value as a key of an order. Both zeros are one value, and known to be told apart by sorts
/// unless they are made one.
fn sort_key(of: Type, value: &str) -> String {
    match of {
        Type::Float8 => format!("({value} + 0)"),
        _ => value.to_owned(),
    }
}

/// Columns as keys of an order.
fn sort_keys(scope: &Scope, names: &[String]) -> Vec<String> {
    let floats = scope.columns_of(Type::Float8);
    let of = |name: &String| match floats.contains(&name.as_str()) {
        true => Type::Float8,
        false => Type::Text,
    };
    names.iter().map(|name| sort_key(of(name), name)).collect()
}

fn order_by(random: &mut Random, keys: &[String]) -> String {
    let direction = |random: &mut Random| {
        format!("{} NULLS {}", random.pick(&["ASC", "DESC"]), random.pick(&["FIRST", "LAST"]))
    };
    let keys: Vec<String> = keys.iter().map(|key| format!("{key} {}", direction(random))).collect();
    format!("ORDER BY {}", keys.join(", "))
}

/// The rows of a query in an order of all its columns, and often those behind an offset or up to a
/// limit alone.
fn limited(random: &mut Random, query: &str, types: &[Type]) -> Question {
    let columns = types.iter().enumerate();
    let scope = Scope::with(columns.map(|(place, of)| (format!("x.v{place}"), *of)).collect());
    let names = scope.names();
    let names: Vec<String> =
        shuffled(random, names.len()).into_iter().map(|place| names[place].clone()).collect();
    let mut order = order_by(random, &sort_keys(&scope, &names));
    if random.one_in(2) {
        order += &format!(" LIMIT {}", random.pick(&["0", "1", "3", "10", "100"]));
    }
    if random.one_in(3) {
        order += &format!(" OFFSET {}", random.pick(&["0", "1", "5", "50"]));
    }
    Question { sql: format!("SELECT * FROM ({query}) AS x {order}"), is_ordered: true }
}

fn in_order(random: &mut Random, tables: &Tables) -> Question {
    let table = &tables.left;
    let scope = Scope::of(&[table]);
    let types = types(random, 1, 4);
    let distinct = random.pick(&["", "DISTINCT "]);
    let list = listed(&values(random, &scope, &types, 2));
    let filter = filter(random, &scope, 2);
    let query = format!("SELECT {distinct}{list} FROM {} {filter}", table.name);
    limited(random, &query, &types)
}

fn firsts(random: &mut Random, tables: &Tables) -> Question {
    let table = &tables.left;
    let scope = Scope::of(&[table]);
    let keys = some_names(random, &scope, 2);
    let ordered = and_all_others(random, &keys, table);
    let (list, filter) = (listed(&table.names()), filter(random, &scope, 2));
    let order = order_by(random, &sort_keys(&scope, &ordered));
    Question::of_any_order(format!(
        "SELECT DISTINCT ON ({}) {list} FROM {} {filter} {order}",
        sort_keys(&scope, &keys).join(", "),
        table.name
    ))
}
