//! What subqueries say of another table: whether it has such rows, and values of it.

use super::super::expressions::Scope;
use super::super::random::Random;
use super::super::tables::{Table, Tables};
use super::groups::aggregate;
use super::joins::equality;
use super::{Question, filter, listed, rows_of};

/// A condition over rows of one scope that looks at another table.
fn looking(random: &mut Random, outer: &Scope, table: &Table) -> String {
    let name = table.name;
    let inner = Scope::of(&[table]);
    let both = outer.and(&inner);
    let not = random.pick(&["", "NOT "]);
    let (column, of) = outer.any_column(random);
    match random.below(6) {
        0 | 1 => {
            let mut parts: Vec<String> =
                (0..1 + random.below(2)).map(|_| equality(random, outer, &inner)).collect();
            if random.one_in(2) {
                parts.push(both.condition(random, 1));
            }
            format!("({not}EXISTS (SELECT 1 FROM {name} WHERE {}))", parts.join(" AND "))
        }
        2 => {
            let condition = both.condition(random, 1);
            format!("({not}EXISTS (SELECT 1 FROM {name} WHERE {condition}))")
        }
        3 => {
            let (value, filter) = (inner.value(random, of, 1), filter(random, &inner, 1));
            format!("({column} {not}IN (SELECT {value} FROM {name} {filter}))")
        }
        4 => {
            let (second, of_second) = outer.any_column(random);
            let values = [inner.leaf(random, of), inner.leaf(random, of_second)].join(", ");
            let filter = filter(random, &inner, 1);
            format!("(({column}, {second}) IN (SELECT {values} FROM {name} {filter}))")
        }
        _ => {
            let (value, condition) = (inner.leaf(random, of), equality(random, outer, &inner));
            format!("({column} {not}IN (SELECT {value} FROM {name} WHERE {condition}))")
        }
    }
}

/// An aggregate over all rows of another table, or over those that belong to an outer row.
fn one_value(random: &mut Random, outer: &Scope, table: &Table) -> String {
    let inner = Scope::of(&[table]);
    let aggregate = aggregate(random, &inner);
    let filter = match random.one_in(2) {
        true => filter(random, &inner, 1),
        false => format!("WHERE {}", equality(random, outer, &inner)),
    };
    format!("(SELECT {aggregate} FROM {} {filter})", table.name)
}

pub fn condition(random: &mut Random, tables: &Tables) -> Question {
    let Tables { left, right } = tables;
    let outer = Scope::of(&[left]);
    let mut condition = looking(random, &outer, right);
    if random.one_in(3) {
        let other = match random.one_in(2) {
            true => looking(random, &outer, right),
            false => outer.condition(random, 1),
        };
        condition = format!("({condition} {} {other})", random.pick(&["AND", "OR"]));
    }
    let mut list = left.names();
    if random.one_in(3) {
        list.push(one_value(random, &outer, right));
    }
    let rows = rows_of(random, left);
    Question::of_any_order(format!("SELECT {} FROM {rows} WHERE {condition}", listed(&list)))
}

pub fn value(random: &mut Random, tables: &Tables) -> Question {
    let Tables { left, right } = tables;
    let outer = Scope::of(&[left]);
    let mut list = left.names();
    for _ in 0..1 + random.below(2) {
        list.push(one_value(random, &outer, right));
    }
    let filter = filter(random, &outer, 2);
    let rows = rows_of(random, left);
    Question::of_any_order(format!("SELECT {} FROM {rows} {filter}", listed(&list)))
}
