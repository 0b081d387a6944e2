//! Conditions: those that guard others, and those with subqueries.

use super::super::expressions::{Scope, aggregate};
use super::super::marks::{instead, joined, optional};
use super::super::peers::Statement;
use super::super::random::Random;
use super::super::tables::{Tables, Type};
use super::{aliased, some, sortable_names, table, unordered};

/// A condition that fails for some rows, with the guard that keeps it from them.
fn guarded(random: &mut Random) -> (String, String) {
    let number = random.below(12);
    let compared = format!("{} {number}", random.pick(&[">", "<", "=", "<>"]));
    let division = random.pick(&["/", "%"]);
    let (guard, value) = match random.below(8) {
        0 => ("q.a <> 0", format!("12 {division} q.a")),
        1 => ("q.a <> 0 AND q.b > 0", format!("q.b {division} q.a")),
        2 => ("q.c ~ '^-?[0-9]+$'", "q.c::integer".to_owned()),
        3 => ("q.c IN ('12', '-4')", "q.c::integer + 1".to_owned()),
        4 => ("q.a > 0", "length(repeat('x', q.a)) / q.a".to_owned()),
        5 => ("q.a > 0", "ln(q.a)".to_owned()),
        6 => ("q.b IS NOT NULL AND q.b <> 2", "10 / (q.b - 2)".to_owned()),
        _ => ("q.a >= 0", "sqrt(q.a)".to_owned()),
    };
    (guard.to_owned(), format!("{value} {compared}"))
}

fn guarding(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.one_in(2) {
        let (one, other) = (guarding(random, depth - 1), guarding(random, depth - 1));
        let operator = random.pick(&["AND", "OR"]);
        return format!("({one}{})", optional(&format!(" {operator} {other}")));
    }
    let (guard, condition) = guarded(random);
    match random.below(6) {
        0 | 1 => format!("({guard} AND {condition})"),
        2 => format!("(NOT ({guard}) OR {condition})"),
        3 => format!("CASE WHEN {guard} THEN {condition} ELSE q.b > 1 END"),
        4 => format!("CASE WHEN NOT coalesce({guard}, false) THEN false ELSE {condition} END"),
        _ => format!("coalesce(CASE WHEN {guard} THEN {condition} END, true)"),
    }
}

pub fn guards(random: &mut Random, tables: &Tables) -> Statement {
    // The third column of the second table is not in every seed.
    let name = random.pick(&["r", "t"]);
    let condition = guarding(random, 2);
    let inner = table(random, tables).name;
    unordered(match random.below(9) {
        0 | 1 => format!("SELECT q.id FROM {name} q WHERE {condition}"),
        2 => format!("SELECT q.id, {condition} FROM {name} q"),
        3 => format!("SELECT count(*) FILTER (WHERE {condition}), count(*) FROM {name} q"),
        4 => format!("SELECT q.id FROM (SELECT q.*, {condition} AS p FROM {name} q) q WHERE q.p"),
        5 => {
            let other = table(random, tables).name;
            format!("SELECT q.id, o.id FROM {name} q JOIN {other} o ON q.b = o.a AND {condition}")
        }
        6 => {
            let (guard, failing) = guarded(random);
            format!(
                "SELECT q.id, CASE WHEN {guard} THEN (SELECT {failing}) ELSE NULL END FROM {name} q"
            )
        }
        7 => {
            let (guard, failing) = guarded(random);
            let rows = format!("(SELECT count(*) FROM {inner} i WHERE i.b > q.b OR {failing})");
            format!("SELECT q.id, CASE WHEN {guard} THEN {rows} END FROM {name} q")
        }
        _ => {
            let (guard, failing) = guarded(random);
            let rows = format!("EXISTS (SELECT 1 FROM {inner} i WHERE i.a <> q.b AND {failing})");
            format!("SELECT q.id FROM {name} q WHERE CASE WHEN {guard} THEN {rows} END")
        }
    })
}

pub fn not_in(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let (inner, of_inner) = aliased(random, tables, "i");
    let of = random.of(&[Type::Int4, Type::Int4, Type::Text, Type::Numeric]);
    let outer = match random.below(4) {
        0 => of.literal(random),
        1 => format!("nullif({}, {})", scope.leaf(random, of), scope.leaf(random, of)),
        _ => scope.leaf(random, of),
    };
    let correlated = match random.below(4) {
        0 => format!(" WHERE i.a = q.b{}", optional(" AND i.id > 1")),
        1 => format!(" WHERE {}", scope.and(&of_inner).condition(random, 1)),
        2 => format!(" WHERE {}", of_inner.condition(random, 0)),
        _ => String::new(),
    };
    let value = of_inner.leaf(random, of);
    let membership = format!(
        "{outer} {}IN (SELECT {value} FROM {} i{})",
        random.pick(&["NOT ", "NOT ", ""]),
        inner.name,
        optional(&correlated)
    );
    unordered(match random.below(5) {
        0 => format!("SELECT q.id, {membership} FROM {} q", table.name),
        1 => format!("SELECT q.id FROM {} q WHERE NOT ({membership})", table.name),
        2 => format!(
            "SELECT q.id FROM {} q WHERE {membership} OR {}",
            table.name,
            scope.condition(random, 0)
        ),
        3 => format!("SELECT count(*) FILTER (WHERE {membership}) FROM {} q", table.name),
        _ => format!("SELECT q.id FROM {} q WHERE {membership}", table.name),
    })
}

/// `EXISTS` with others inside it, about rows at any distance.
fn existence(random: &mut Random, tables: &Tables, scopes: &Scope, depth: usize) -> String {
    let alias = format!("x{depth}");
    let (table, own) = aliased(random, tables, &alias);
    let all = scopes.and(&own);
    let mut conditions = Vec::new();
    for _ in 0..1 + random.below(2) {
        let (one, other) = (own.leaf(random, Type::Int4), scopes.leaf(random, Type::Int4));
        let operator = random.pick(&["=", "=", "=", "<", "<>", ">=", "IS NOT DISTINCT FROM"]);
        conditions.push(format!("{one} {operator} {other}"));
    }
    if random.one_in(3) {
        conditions.push(all.condition(random, 1));
    }
    if depth > 0 {
        conditions.push(existence(random, tables, &all, depth - 1));
    }
    let not = random.pick(&["", "NOT "]);
    let list = random.pick(&["1", "*", "NULL"]);
    let conditions = joined(&conditions, random.pick(&[" AND ", " AND ", " OR "]));
    format!("{not}EXISTS (SELECT {list} FROM {} {alias} WHERE {conditions})", table.name)
}

pub fn exists(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let depth = random.below(3);
    let condition = existence(random, tables, &scope, depth);
    unordered(match random.below(4) {
        0 => format!("SELECT q.id, {condition} FROM {} q", table.name),
        1 => format!(
            "SELECT q.id FROM {} q WHERE {} OR {condition}",
            table.name,
            scope.condition(random, 0)
        ),
        _ => format!("SELECT q.id FROM {} q WHERE {condition}", table.name),
    })
}

pub fn quantified(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let (inner, of_inner) = aliased(random, tables, "i");
    let of = random.of(&[Type::Int4, Type::Int4, Type::Text, Type::Date]);
    let operator = random.pick(&["=", "<>", "<", ">", ">=", "<="]);
    let quantifier = random.pick(&["ANY", "ALL", "SOME"]);
    let value = of_inner.leaf(random, of);
    let filter = match random.below(3) {
        0 => optional(&format!(" WHERE {}", scope.and(&of_inner).condition(random, 1))),
        1 => optional(" WHERE i.a = q.a"),
        _ => String::new(),
    };
    let one = scope.leaf(random, of);
    let condition = match random.below(4) {
        0 => {
            let array = format!("ARRAY[{}, {}]", of.literal(random), of.cell(random));
            format!("{one} {operator} {quantifier} ({array})")
        }
        1 => {
            let operator = random.pick(&["IN", "NOT IN"]);
            format!("(q.a, q.b) {operator} (SELECT i.a, i.b FROM {} i{filter})", inner.name)
        }
        _ => {
            format!("{one} {operator} {quantifier} (SELECT {value} FROM {} i{filter})", inner.name)
        }
    };
    unordered(match random.below(2) {
        0 => format!("SELECT q.id, {condition} FROM {} q", table.name),
        _ => format!("SELECT q.id FROM {} q WHERE {condition}", table.name),
    })
}

/// Subqueries whose aggregates are over the rows of one outer row, often none.
pub fn correlated(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let (inner, of_inner) = aliased(random, tables, "i");
    let call = aggregate(random, &of_inner);
    let value = match random.below(5) {
        0 => format!("{call} IS NULL"),
        1 => "coalesce(sum(i.a), -1)".to_owned(),
        2 => format!("CASE WHEN count(*) > 0 THEN count(*) ELSE -{} END", random.below(3)),
        3 => "(count(i.b) + 1, 'x')::text".to_owned(),
        _ => call,
    };
    let value = instead(&value, "count(*)");
    let condition = match random.below(5) {
        0 => "i.a < q.b".to_owned(),
        1 => scope.and(&of_inner).condition(random, 1),
        2 => "i.a IS NOT DISTINCT FROM q.a".to_owned(),
        _ => format!("i.a = q.b{}", optional(" AND i.id <> q.id")),
    };
    let rest = match random.below(5) {
        0 => " HAVING count(*) > 1",
        1 => " GROUP BY i.a HAVING count(*) > 0 ORDER BY i.a LIMIT 1",
        2 => " GROUP BY ()",
        _ => "",
    };
    let rest = if rest.contains("i.a") && value.contains("'x'") { "" } else { rest };
    let subquery =
        format!("(SELECT {value} FROM {} i WHERE {condition}{})", inner.name, optional(rest));
    unordered(match random.below(5) {
        0 => format!("SELECT q.id FROM {} q WHERE {subquery} IS NULL", table.name),
        1 => {
            let keys = some(random, &sortable_names(&scope), 1);
            format!("SELECT {0}, count({subquery}) FROM {1} q GROUP BY {0}", keys[0], table.name)
        }
        2 => format!("SELECT q.id, coalesce({subquery}::text, 'none') FROM {} q", table.name),
        _ => format!("SELECT q.id, {subquery} FROM {} q", table.name),
    })
}
