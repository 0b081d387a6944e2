//! Statements of many kinds, each with one right answer.
//!
//! Orders that decide about rows end with a key. These are not generated:
//!
//! - What `docs/limits.md` lists: `sum(bigint)`, powers of `numeric`, its NaN, `char(n)`, session
//!   time zones, `jsonb` numbers of several spellings, `EXCLUDE` in frames.
//! - `GROUP BY DISTINCT` and `GROUPING SETS` inside others, which the parser refuses.
//! - Values of the wrong kind where PostgreSQL fails before it reads a row, and Thalweg at the
//!   first row: `lag(a, 1, 'x')`, a pattern of `LIKE` that ends with an escape.
//! - Elements of a `jsonb` scalar by number, which PostgreSQL takes for an array of one item.
//!
//! `varchar` and `text`, and numbers of several scales, are compared as one: see [`super::peers`].

mod aggregates;
mod conditions;
mod joins;
mod names;
mod sets;
mod values;
mod windows;
mod writes;

use super::expressions::Scope;
use super::peers::Statement;
use super::random::Random;
use super::tables::{Table, Tables};

type Kind = fn(&mut Random, &Tables) -> Statement;

pub const QUERIES: [(&str, Kind); 27] = [
    ("limits below a sort", sets::limits),
    ("distinct", sets::distinct),
    ("operations of sets", sets::operations),
    ("guards", conditions::guards),
    ("NOT IN", conditions::not_in),
    ("EXISTS", conditions::exists),
    ("quantified comparisons", conditions::quantified),
    ("correlated aggregates", conditions::correlated),
    ("operators", values::operators),
    ("casts", values::casts),
    ("regular expressions", values::regular_expressions),
    ("time", values::time),
    ("JSON", values::json),
    ("arrays", values::arrays),
    ("expressions", values::expressions),
    ("groups", aggregates::groups),
    ("grouping sets", aggregates::grouping_sets),
    ("aggregates", aggregates::plain),
    ("ordered aggregates", aggregates::ordered),
    ("arrays of queries", aggregates::array_of_query),
    ("windows", windows::windows),
    ("lag and lead", windows::neighbours),
    ("names", names::names),
    ("common table expressions", names::common),
    ("functions that give rows", names::series),
    ("joins", joins::joins),
    ("LATERAL", joins::lateral),
];

pub use writes::write;

fn ordered(marked: String) -> Statement {
    Statement { marked, is_ordered: true }
}

fn unordered(marked: String) -> Statement {
    Statement { marked, is_ordered: false }
}

fn table<'a>(random: &mut Random, tables: &'a Tables) -> &'a Table {
    &tables.all[random.below(tables.all.len())]
}

/// A table under an alias, with the scope of its columns.
fn aliased<'a>(random: &mut Random, tables: &'a Tables, alias: &str) -> (&'a Table, Scope) {
    let table = table(random, tables);
    (table, Scope::of(table, alias))
}

/// Some of the columns, each once, in any order.
fn some(random: &mut Random, names: &[String], most: usize) -> Vec<String> {
    let mut some: Vec<String> = Vec::new();
    for _ in 0..1 + random.below(most) {
        let name = &names[random.below(names.len())];
        if !some.contains(name) {
            some.push(name.clone());
        }
    }
    some
}

fn sortable_names(scope: &Scope) -> Vec<String> {
    scope.sortable().into_iter().map(|(name, _)| name).collect()
}

/// Keys of an order that ends with the key of a table.
fn total_order(random: &mut Random, scope: &Scope, key: &str) -> String {
    let mut keys = some(random, &sortable_names(scope), 2);
    keys.retain(|name| name != key);
    keys.push(key.to_owned());
    super::expressions::order_by(random, &keys)
}
