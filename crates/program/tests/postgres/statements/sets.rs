//! Limits, distinct rows and operations of sets.

use super::super::expressions::{Scope, aggregate, limit, order_by};
use super::super::marks::{list, optional};
use super::super::peers::Statement;
use super::super::random::Random;
use super::super::tables::{Tables, Type};
use super::{aliased, ordered, some, sortable_names, total_order, unordered};

/// First rows, and then something that must not change which they are.
pub fn limits(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let (order, first) = (total_order(random, &scope, "q.id"), limit(random));
    let filter = optional(&format!(" WHERE {}", scope.condition(random, 1)));
    let first_rows = format!("(SELECT q.* FROM {} q{filter} {order}{first}) AS q", table.name);
    let above = total_order(random, &scope, "q.id");
    match random.below(7) {
        0 => ordered(format!("SELECT * FROM {first_rows} {above}{}", optional(&limit(random)))),
        1 => unordered(format!("SELECT q.id, row_number() OVER ({above}) FROM {first_rows}")),
        2 => unordered(format!("SELECT {} FROM {first_rows}", aggregate(random, &scope))),
        3 => {
            let names = some(random, &sortable_names(&scope), 3);
            unordered(format!("SELECT DISTINCT {} FROM {first_rows}", list(&names)))
        }
        4 => unordered(format!("SELECT * FROM {first_rows} WHERE {}", scope.condition(random, 1))),
        5 => {
            let (other, of_other) = aliased(random, tables, "o");
            let both = scope.and(&of_other);
            unordered(format!(
                "SELECT q.id, o.id FROM {first_rows} {} JOIN {} o ON {}",
                random.pick(&["", "LEFT", "RIGHT", "FULL"]),
                other.name,
                match random.one_in(2) {
                    true => "q.a = o.b".to_owned(),
                    // Full joins are on equalities.
                    false => {
                        format!(
                            "q.a = o.a{}",
                            optional(&format!(" AND {}", both.leaf(random, Type::Bool)))
                        )
                    }
                }
            ))
        }
        _ => {
            let (key, _) = scope.any_sortable(random);
            unordered(format!("SELECT {key}, count(*) FROM {first_rows} GROUP BY {key}"))
        }
    }
}

pub fn distinct(random: &mut Random, tables: &Tables) -> Statement {
    let (table, scope) = aliased(random, tables, "q");
    let filter = optional(&format!(" WHERE {}", scope.condition(random, 1)));
    let names = some(random, &sortable_names(&scope), 3);
    match random.below(4) {
        0 => {
            let order = order_by(random, &names);
            ordered(format!(
                "SELECT DISTINCT {} FROM {} q{filter} {order}{}",
                names.join(", "),
                table.name,
                optional(&limit(random))
            ))
        }
        1 => {
            let mut keys = names.clone();
            keys.retain(|name| name != "q.id");
            keys.push("q.id".to_owned());
            let on = &keys[..keys.len().min(1 + random.below(2))];
            let order = order_by(random, &keys);
            ordered(format!(
                "SELECT DISTINCT ON ({}) q.*{} FROM {} q{filter} {order}{}",
                on.join(", "),
                optional(", (SELECT count(*) FROM r)"),
                table.name,
                optional(&limit(random))
            ))
        }
        2 => {
            let window = format!("count(*) OVER (PARTITION BY {})", names[0]);
            unordered(format!(
                "SELECT DISTINCT {}, {window} FROM {} q{filter}",
                names.join(", "),
                table.name
            ))
        }
        _ => unordered(format!(
            "SELECT DISTINCT {}, {} FROM {} q{filter} GROUP BY {}",
            names[0],
            aggregate(random, &scope),
            table.name,
            names.join(", ")
        )),
    }
}

/// A query of columns of some types.
fn part(random: &mut Random, tables: &Tables, types: &[Type], depth: usize) -> String {
    if depth > 0 && random.one_in(2) {
        let operation = random.pick(&[
            "UNION",
            "UNION ALL",
            "INTERSECT",
            "INTERSECT ALL",
            "EXCEPT",
            "EXCEPT ALL",
        ]);
        let (one, other) =
            (part(random, tables, types, depth - 1), part(random, tables, types, depth - 1));
        return match random.below(3) {
            0 => format!("({one} {operation} {other})"),
            _ => format!("{one}{}", optional(&format!(" {operation} {other}"))),
        };
    }
    if random.one_in(6) {
        let row = |random: &mut Random| {
            let cells = types.iter().map(|of| match random.one_in(3) {
                true => format!("NULL::{}", of.name()),
                false => of.literal(random),
            });
            format!("({})", cells.collect::<Vec<_>>().join(", "))
        };
        let rows = [row(random), row(random)];
        return format!("VALUES {}", list(&rows));
    }
    let (table, scope) = aliased(random, tables, "q");
    let values: Vec<String> = types.iter().map(|of| scope.value(random, *of, 1)).collect();
    let filter = optional(&format!(" WHERE {}", scope.condition(random, 0)));
    format!("SELECT {} FROM {} q{filter}", values.join(", "), table.name)
}

pub fn operations(random: &mut Random, tables: &Tables) -> Statement {
    let all = super::super::tables::SCALARS;
    let types: Vec<Type> = (0..1 + random.below(2)).map(|_| random.of(&all)).collect();
    let query = part(random, tables, &types, 3);
    let columns: Vec<String> = (0..types.len()).map(|place| format!("v{place}")).collect();
    let rows = format!("({query}) AS x({})", columns.join(", "));
    let columns_scope = columns.iter().map(|name| format!("x.{name}")).zip(types.iter().copied());
    let scope = Scope::with(columns_scope.collect());
    match random.below(4) {
        0 => unordered(query),
        1 => unordered(format!("SELECT {} FROM {rows}", aggregate(random, &scope))),
        2 => unordered(format!("SELECT * FROM {rows} WHERE {}", scope.condition(random, 1))),
        _ => {
            let order = order_by(random, &columns);
            ordered(format!("SELECT * FROM {rows} {order}{}", optional(&limit(random))))
        }
    }
}
