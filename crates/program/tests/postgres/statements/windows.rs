//! Windows: places, neighbours with defaults, and aggregates over frames.

use super::super::expressions::{Scope, aggregate};
use super::super::marks::optional;
use super::super::peers::Statement;
use super::super::random::Random;
use super::super::tables::{Tables, Type};
use super::{aliased, some, sortable_names, total_order, unordered};

fn partition(random: &mut Random, scope: &Scope) -> String {
    match random.one_in(3) {
        true => String::new(),
        false => optional(&format!("PARTITION BY {} ", some(random, &sortable_names(scope), 1)[0])),
    }
}

const BOUNDS: [&str; 7] = [
    "UNBOUNDED PRECEDING",
    "2 PRECEDING",
    "1 PRECEDING",
    "CURRENT ROW",
    "1 FOLLOWING",
    "2 FOLLOWING",
    "UNBOUNDED FOLLOWING",
];

fn frame(random: &mut Random) -> String {
    let start = random.below(6);
    let end = (start + random.below(7 - start)).max(1);
    format!("BETWEEN {} AND {}", BOUNDS[start], BOUNDS[end])
}

/// `OVER` with an order in which rows may be equal where the frame says which of them count.
fn over(random: &mut Random, scope: &Scope) -> String {
    let parts = partition(random, scope);
    match random.below(5) {
        0 => format!("OVER ({parts})"),
        1 => {
            let names = some(random, &sortable_names(scope), 2);
            format!("OVER ({parts}ORDER BY {})", names.join(", "))
        }
        2 => {
            // Distances are measured in the one key.
            let key = random.pick(&["q.a", "q.b", "q.id DESC", "q.a DESC NULLS LAST"]);
            format!("OVER ({parts}ORDER BY {key} RANGE {})", frame(random))
        }
        3 => {
            let names = some(random, &sortable_names(scope), 1);
            format!("OVER ({parts}ORDER BY {} GROUPS {})", names[0], frame(random))
        }
        _ => {
            let order = total_order(random, scope, "q.id");
            format!("OVER ({parts}{order} ROWS {})", frame(random))
        }
    }
}

fn call(random: &mut Random, scope: &Scope) -> String {
    let parts = partition(random, scope);
    let order = total_order(random, scope, "q.id");
    match random.below(10) {
        0 => {
            let function = random.pick(&["rank", "dense_rank", "percent_rank", "cume_dist"]);
            let names = some(random, &sortable_names(scope), 2);
            format!("{function}() OVER ({parts}ORDER BY {})", names.join(", "))
        }
        1 => format!("row_number() OVER ({parts}{order})"),
        2 => format!("ntile({}) OVER ({parts}{order})", 1 + random.below(4)),
        3 => {
            let function = random.pick(&["first_value", "last_value"]);
            let value = scope.any_sortable(random).0;
            format!("{function}({value}) OVER ({parts}{order} ROWS {})", frame(random))
        }
        4 => {
            let value = scope.any_sortable(random).0;
            let place = 1 + random.below(3);
            format!("nth_value({value}, {place}) OVER ({parts}{order} ROWS {})", frame(random))
        }
        5 => {
            let (number, over) = (scope.leaf(random, Type::Float8), over(random, scope));
            format!("{}({number}) {over}", random.pick(&["sum", "avg", "min", "max", "count"]))
        }
        6 => {
            let (number, over) = (scope.leaf(random, Type::Numeric), over(random, scope));
            format!("{}({number}) {over}", random.pick(&["sum", "avg", "min", "max"]))
        }
        _ => {
            let call = aggregate(random, scope).replace("(DISTINCT ", "(");
            format!("{call} {}", over(random, scope))
        }
    }
}

pub fn windows(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let first = call(random, &scope);
    let second = optional(&format!(", {}", call(random, &scope)));
    let filter = optional(&format!(" WHERE {}", scope.condition(random, 1)));
    unordered(match random.below(4) {
        0 => {
            let key = scope.any_sortable(random).0;
            let over_groups = random.pick(&[
                "max(count(*)) OVER ()",
                "rank() OVER (ORDER BY count(*))",
                "max(sum(q.a)) OVER ()",
                "count(*) OVER (ORDER BY max(q.id))",
            ]);
            format!(
                "SELECT {key}, {over_groups}, count(*) FROM {} q{filter} GROUP BY {key}",
                table.name
            )
        }
        1 => {
            let named = "w AS (PARTITION BY q.a ORDER BY q.id)";
            let sum = "sum(q.b) OVER w, lag(q.id) OVER w";
            format!("SELECT q.id, {sum}{second} FROM {} q{filter} WINDOW {named}", table.name)
        }
        _ => format!("SELECT q.id, {first}{second} FROM {} q{filter}", table.name),
    })
}

pub fn neighbours(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let function = random.pick(&["lag", "lead"]);
    let of =
        random.of(&[Type::Int4, Type::Text, Type::Numeric, Type::Date, Type::Float8, Type::Bool]);
    let value = scope.value(random, of, 1);
    let distance = random.pick(&["1", "2", "0", "-1", "NULL", "3"]);
    let default = match random.below(5) {
        0 => scope.value(random, of, 1),
        1 => of.cell(random),
        2 => random.pick(&["0", "0.5", "NULL", "'2024-01-01'", "true"]).to_owned(),
        _ => of.literal(random),
    };
    let arguments = match random.below(4) {
        0 => value,
        1 => format!("{value}, {distance}"),
        _ => format!("{value}, {distance}, {default}"),
    };
    let parts = partition(random, &scope);
    let order = total_order(random, &scope, "q.id");
    unordered(format!(
        "SELECT q.id, {function}({arguments}) OVER ({parts}{order}) FROM {} q",
        table.name
    ))
}
