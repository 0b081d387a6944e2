//! Aggregates, and groups by several sets of keys.

use super::super::expressions::Scope;
use super::super::random::Random;
use super::super::tables::{TYPES, Tables, Type};
use super::{Question, filter, listed, order_by, some_names, types, values};

/// An aggregate whose value depends on no order, and is exact.
pub fn aggregate(random: &mut Random, scope: &Scope) -> String {
    let of = random.of(&TYPES);
    let value = scope.value(random, of, 1);
    let distinct = random.pick(&["", "DISTINCT "]);
    let call = match (random.below(5), of) {
        (0, _) => return "count(*)".to_owned(),
        (1, _) => format!("count({distinct}{value})"),
        (2, Type::Int2 | Type::Int4) => format!("sum({distinct}{value})"),
        (2, Type::Numeric | Type::Float8) => format!("sum({value})"),
        (2, Type::Bool) => format!("bool_and({value})"),
        (2, Type::Text) => {
            let order = order_by(random, std::slice::from_ref(&value));
            format!("string_agg({value}, ',' {order})")
        }
        (3, Type::Int2 | Type::Int4) => format!("avg({value}::double precision)"),
        (_, Type::Bool) => format!("bool_or({value})"),
        _ => format!("{}({value})", random.pick(&["min", "max"])),
    };
    match random.one_in(4) {
        true => format!("{call} FILTER (WHERE {})", scope.condition(random, 1)),
        false => call,
    }
}

pub fn groups(random: &mut Random, tables: &Tables) -> Question {
    let table = &tables.left;
    let scope = Scope::of(&[table]);
    let of_sets = random.one_in(2);
    let (mut list, grouping) = match of_sets {
        true => by_sets(random, &scope),
        false => by_values(random, &scope),
    };
    for _ in 0..1 + random.below(3) {
        list.push(aggregate(random, &scope));
    }
    let filter = filter(random, &scope, 2);
    // What names no aggregate is known to be asked of rows, also where a group has none.
    let having = match !of_sets && random.one_in(3) {
        true => {
            let scope = Scope::with(vec![("count(*)".to_owned(), Type::Int8)]);
            format!("HAVING {}", scope.condition(random, 1))
        }
        false => String::new(),
    };
    Question::of_any_order(format!(
        "SELECT {} FROM {} {filter} GROUP BY {grouping} {having}",
        listed(&list),
        table.name
    ))
}

fn by_values(random: &mut Random, scope: &Scope) -> (Vec<String>, String) {
    let types = types(random, 1, 3);
    let keys = values(random, scope, &types, 1);
    let places: Vec<String> = (1..=keys.len()).map(|place| place.to_string()).collect();
    (keys, places.join(", "))
}

fn by_sets(random: &mut Random, scope: &Scope) -> (Vec<String>, String) {
    let keys = some_names(random, scope, 3);
    let all = keys.join(", ");
    let grouping = match random.below(3) {
        0 => format!("ROLLUP ({all})"),
        1 => format!("CUBE ({all})"),
        _ => format!("GROUPING SETS (({all}), (), ({}))", keys[0]),
    };
    (keys, grouping)
}
