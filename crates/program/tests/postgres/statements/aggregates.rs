//! Groups, products of grouping sets, and aggregates with orders, filters and distinct values.

use super::super::expressions::{Scope, aggregate, limit, order_by};
use super::super::marks::{joined, list, optional};
use super::super::peers::Statement;
use super::super::random::Random;
use super::super::tables::{Tables, Type};
use super::{aliased, some, sortable_names, unordered};

pub fn groups(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let keys = some(random, &sortable_names(&scope), 2);
    let calls = [aggregate(random, &scope), aggregate(random, &scope)];
    let having = match random.below(3) {
        0 => optional(&format!(" HAVING {} IS NOT NULL", aggregate(random, &scope))),
        1 => optional(" HAVING count(*) > 1"),
        _ => String::new(),
    };
    let filter = optional(&format!(" WHERE {}", scope.condition(random, 1)));
    let by = match random.below(4) {
        0 => (1..=keys.len()).map(|place| place.to_string()).collect::<Vec<_>>().join(", "),
        _ => keys.join(", "),
    };
    unordered(format!(
        "SELECT {}, {} FROM {} q{filter} GROUP BY {by}{having}",
        keys.join(", "),
        list(&calls),
        table.name
    ))
}

pub fn plain(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let calls: Vec<String> = (0..3).map(|_| aggregate(random, &scope)).collect();
    let filter = optional(&format!(" WHERE {}", scope.condition(random, 1)));
    let having = match random.below(4) {
        0 => optional(" HAVING count(*) > 2"),
        _ => String::new(),
    };
    unordered(format!("SELECT {} FROM {} q{filter}{having}", list(&calls), table.name))
}

/// An element of `GROUP BY`.
fn element(random: &mut Random, keys: &[String]) -> String {
    let some_keys = some(random, keys, 2).join(", ");
    match random.below(6) {
        0 => some_keys,
        1 => format!("ROLLUP ({some_keys})"),
        2 => format!("CUBE ({some_keys})"),
        3 => format!("GROUPING SETS (({some_keys}), ())"),
        4 => format!(
            "GROUPING SETS ({} ({some_keys}), {})",
            random.pick(&["CUBE", "ROLLUP"]),
            keys[random.below(keys.len())]
        ),
        _ => format!("ROLLUP (({some_keys}), {})", keys[random.below(keys.len())]),
    }
}

pub fn grouping_sets(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let mut keys = some(random, &sortable_names(&scope), 3);
    let by_alias = random.one_in(4);
    let mut shown: Vec<String> = keys.clone();
    if by_alias {
        shown.push(format!("{} AS y", keys[0]));
        keys.push("y".to_owned());
    }
    let mut elements: Vec<String> = Vec::new();
    for _ in 0..1 + random.below(3) {
        elements.push(element(random, &keys));
    }
    // Each key that is shown is grouped by.
    elements.insert(0, format!("ROLLUP ({})", keys.join(", ")));
    let grouping = match by_alias {
        true => String::new(),
        false => optional(&format!(", grouping({})", some(random, &keys, 3).join(", "))),
    };
    let filter = optional(&format!(" WHERE {}", scope.condition(random, 1)));
    unordered(format!(
        "SELECT {}, {}{grouping} FROM {} q{filter} GROUP BY {}{}",
        shown.join(", "),
        aggregate(random, &scope),
        table.name,
        joined(&elements, ", "),
        match random.one_in(4) {
            true => optional(" HAVING count(*) > 1"),
            false => String::new(),
        }
    ))
}

/// An aggregate whose order among its rows is total.
fn ordered_call(random: &mut Random, scope: &Scope) -> String {
    let (value, of) = scope.any_sortable(random);
    let mut keys = some(random, &sortable_names(scope), 1);
    keys.push("q.id".to_owned());
    let order = order_by(random, &keys);
    let own_order = order_by(random, std::slice::from_ref(&value));
    let is_array = matches!(of, Type::Ints | Type::Texts);
    let call = match random.below(10) {
        0 | 1 if !is_array => format!("array_agg({value} {order})"),
        2 if !is_array => {
            format!("array_agg(DISTINCT {value}{})", optional(&format!(" {own_order}")))
        }
        3 => format!("string_agg(q.c, '-' {order})"),
        4 => "string_agg(DISTINCT q.c, ',' ORDER BY q.c)".to_owned(),
        5 => {
            let function = random.pick(&["percentile_disc", "percentile_cont"]);
            format!("{function}({}) WITHIN GROUP (ORDER BY q.a)", random.pick(&["0.5", "0", "0.3"]))
        }
        6 => "mode() WITHIN GROUP (ORDER BY q.a)".to_owned(),
        7 => {
            let key = random.pick(&["q.a", "q.c"]);
            let direction = random.pick(&["", " DESC", " DESC NULLS LAST"]);
            format!("jsonb_agg(DISTINCT {key}{})", optional(&format!(" ORDER BY {key}{direction}")))
        }
        8 => format!("(array_agg(q.id {order}))[1]"),
        _ => format!("json_agg(q.a {order})"),
    };
    match random.one_in(4) {
        true if !call.starts_with('(') => {
            call + &optional(&format!(" FILTER (WHERE {})", scope.condition(random, 0)))
        }
        _ => call,
    }
}

pub fn ordered(random: &mut Random, tables: &Tables) -> Statement {
    // The third column of the second table is not in every seed.
    let table = &tables.all[2 * random.below(2)];
    let scope = Scope::of(table, "q");
    let call = ordered_call(random, &scope);
    let plain = optional(&format!(", {}", aggregate(random, &scope)));
    let (key, _) = scope.any_sortable(random);
    let filter = optional(&format!(" WHERE {}", scope.condition(random, 1)));
    unordered(match random.one_in(2) {
        true => format!("SELECT {call}{plain} FROM {} q{filter}", table.name),
        false => {
            format!("SELECT {key}, {call}{plain} FROM {} q{filter} GROUP BY {key}", table.name)
        }
    })
}

pub fn array_of_query(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let (inner, of_inner) = aliased(random, tables, "i");
    let of = random.of(&[Type::Int4, Type::Text, Type::Numeric, Type::Date]);
    // A constant is no key of an order.
    let value = of_inner.column_of(random, of).unwrap_or_else(|| "i.a".to_owned());
    let condition = match random.below(3) {
        0 => optional(" WHERE i.a = q.a"),
        1 => optional(&format!(" WHERE {}", scope.and(&of_inner).condition(random, 1))),
        _ => String::new(),
    };
    let direction = random.pick(&["", " DESC", " DESC NULLS LAST", " NULLS FIRST"]);
    let query = match random.below(4) {
        0 => format!(
            "SELECT DISTINCT {value} FROM {} i{condition} ORDER BY 1{direction}",
            inner.name
        ),
        1 => format!(
            "SELECT {value} FROM {} i{condition} ORDER BY 1{direction}, i.id{}",
            inner.name,
            optional(&limit(random))
        ),
        2 => format!("SELECT generate_series(1, q.id) ORDER BY 1{direction}"),
        _ => format!(
            "SELECT i.id * 2 FROM {} i{condition} ORDER BY {value}{direction}, i.id DESC",
            inner.name
        ),
    };
    unordered(format!("SELECT q.id, ARRAY({query}) FROM {} q", table.name))
}
