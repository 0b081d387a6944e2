//! Joins: of two tables and of three, and with the groups of one.

use super::super::expressions::Scope;
use super::super::random::Random;
use super::super::tables::Tables;
use super::groups::aggregate;
use super::{Question, filter, listed, rows_of, types, values};

pub const KINDS: [&str; 4] = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"];

/// That values of two scopes are equal, of columns if these have any of one type.
pub fn equality(random: &mut Random, one: &Scope, other: &Scope) -> String {
    let (column, of) = one.any_column(random);
    if random.one_in(6) {
        return format!("{} = {}", one.value(random, of, 1), other.value(random, of, 1));
    }
    let columns = other.columns_of(of);
    let equal = match columns.is_empty() {
        true => other.leaf(random, of),
        false => random.pick(&columns).to_owned(),
    };
    format!("{column} = {equal}")
}

/// On what two scopes meet: keys, further conditions, or one without keys.
pub fn on(random: &mut Random, one: &Scope, other: &Scope) -> String {
    let both = one.and(other);
    if random.one_in(8) {
        return both.condition(random, 1);
    }
    let mut parts: Vec<String> =
        (0..1 + random.below(2)).map(|_| equality(random, one, other)).collect();
    if random.one_in(2) {
        parts.push(both.condition(random, 1));
    }
    parts.join(" AND ")
}

/// A join, and what may be named of it.
fn join(random: &mut Random, tables: &Tables) -> (String, Scope) {
    let Tables { left, right } = tables;
    let (one, other) = (Scope::of(&[left]), Scope::of(&[right]));
    let kind = random.pick(&KINDS);
    let condition = on(random, &one, &other);
    let scope = one.and(&other);
    if !random.one_in(3) {
        let join = format!("{} {kind} {} ON {condition}", rows_of(random, left), right.name);
        return (join, scope);
    }
    let join = format!("{} {kind} {} ON {condition}", left.few(), right.name);
    let again = left.called("s");
    let third = Scope::of(&[&again]);
    let kind = random.pick(&KINDS);
    let condition = on(random, &scope, &third);
    let rows = left.first_rows(20, again.name);
    (format!("{join} {kind} {rows} ON {condition}"), scope.and(&third))
}

pub fn rows(random: &mut Random, tables: &Tables) -> Question {
    let (join, scope) = join(random, tables);
    let filter = filter(random, &scope, 2);
    if random.one_in(3) {
        let (key, _) = scope.any_column(random);
        let list = listed(&[key, aggregate(random, &scope), aggregate(random, &scope)]);
        return Question::of_any_order(format!("SELECT {list} FROM {join} {filter} GROUP BY 1"));
    }
    let mut list = vec![scope.any_column(random).0, scope.any_column(random).0];
    let types = types(random, 2, 3);
    list.extend(values(random, &scope, &types, 1));
    Question::of_any_order(format!("SELECT {} FROM {join} {filter}", listed(&list)))
}

pub fn with_groups(random: &mut Random, tables: &Tables) -> Question {
    let Tables { left, right } = tables;
    let (one, other) = (Scope::of(&[left]), Scope::of(&[right]));
    let (key, of) = other.any_column(random);
    let groups = format!(
        "(SELECT {key} AS k, {} AS m FROM {} {} GROUP BY {key}) AS g",
        aggregate(random, &other),
        right.name,
        filter(random, &other, 1)
    );
    let mut list = left.names();
    list.extend(["g.k".to_owned(), "g.m".to_owned()]);
    let kind = random.pick(&KINDS);
    let condition = equality(random, &Scope::with(vec![("g.k".to_owned(), of)]), &one);
    Question::of_any_order(format!(
        "SELECT {} FROM {} {kind} {groups} ON {condition} {}",
        listed(&list),
        rows_of(random, left),
        filter(random, &one, 1)
    ))
}
