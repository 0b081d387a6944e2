//! `UNION`, `INTERSECT`, `EXCEPT`, and rows that have a name.

use super::super::expressions::Scope;
use super::super::random::Random;
use super::super::tables::{Tables, Type};
use super::joins::{KINDS, on};
use super::{Question, filter, limited, listed, types, values};

const OPERATIONS: [&str; 6] =
    ["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"];

/// Values of one table.
fn one_side(random: &mut Random, tables: &Tables, types: &[Type]) -> String {
    let table = if random.one_in(2) { &tables.left } else { &tables.right };
    let scope = Scope::of(&[table]);
    let list = listed(&values(random, &scope, types, 1));
    format!("SELECT {list} FROM {} {}", table.name, filter(random, &scope, 1))
}

fn combined(random: &mut Random, tables: &Tables, types: &[Type], depth: usize) -> String {
    let side = |random: &mut Random| match depth > 0 && random.one_in(2) {
        true => combined(random, tables, types, depth - 1),
        false => one_side(random, tables, types),
    };
    format!("({}) {} ({})", side(random), random.pick(&OPERATIONS), side(random))
}

pub fn operations(random: &mut Random, tables: &Tables) -> Question {
    let types = types(random, 1, 3);
    let sql = combined(random, tables, &types, 1);
    match random.one_in(2) {
        true => limited(random, &sql, &types),
        false => Question::of_any_order(sql),
    }
}

/// Rows with a name, joined with themselves.
pub fn common(random: &mut Random, tables: &Tables) -> Question {
    let types = types(random, 2, 2);
    let body = match random.one_in(2) {
        true => one_side(random, tables, &types),
        false => combined(random, tables, &types, 0),
    };
    let order: Vec<String> = (1..=types.len()).map(|place| place.to_string()).collect();
    let body =
        format!("SELECT DISTINCT * FROM ({body}) AS x ORDER BY {} LIMIT 40", order.join(", "));
    let under = |name: &str| {
        let columns = types.iter().enumerate();
        Scope::with(columns.map(|(place, of)| (format!("{name}.v{place}"), *of)).collect())
    };
    let (one, other) = (under("p"), under("q"));
    let both = one.and(&other);
    let (kind, condition) = (random.pick(&KINDS), on(random, &one, &other));
    let filter = filter(random, &both, 2);
    Question::of_any_order(format!(
        "WITH w AS ({body}) SELECT {} FROM w AS p {kind} w AS q ON {condition} {filter}",
        listed(&both.names())
    ))
}
