//! Statements that change rows.

use super::super::expressions::Scope;
use super::super::marks::optional;
use super::super::peers::Statement;
use super::super::random::Random;
use super::super::tables::{Table, Tables};
use super::{aliased, unordered};

fn row(random: &mut Random, table: &Table, id: usize) -> String {
    let cells = table.columns.iter().map(|(_, of)| of.cell(random));
    format!("({id}, {})", cells.collect::<Vec<_>>().join(", "))
}

fn own_scope(table: &Table) -> Scope {
    Scope::of(table, table.name)
}

/// Values for columns of a table, some of them out of others.
fn assignments(random: &mut Random, table: &Table, scope: &Scope) -> String {
    let (name, of) = table.columns[random.below(table.columns.len())];
    let first = format!("{name} = {}", scope.value(random, of, 2));
    let others = ["a", "b"].into_iter().filter(|other| *other != name);
    let second = random.of(&others.collect::<Vec<_>>());
    let value = random.pick(&["DEFAULT", "NULL", "id", "1", "(SELECT max(a) FROM t)"]);
    first + &optional(&format!(", {second} = {value}"))
}

/// A statement that changes rows of a table, which both answer alike or both refuse.
pub fn write(random: &mut Random, tables: &Tables) -> Statement {
    let (table, _) = aliased(random, tables, "q");
    let (name, scope) = (table.name, own_scope(table));
    let (other, of_other) = aliased(random, tables, "o");
    // A subquery over the changed table itself is refused.
    let read = if name == "s" { "t" } else { "s" };
    let returning = match random.below(3) {
        0 => " RETURNING *".to_owned(),
        1 => format!(" RETURNING id, a + 1 AS next, (SELECT count(*) FROM {read})"),
        _ => String::new(),
    };
    let condition = scope.condition(random, 1);
    let joined = scope.and(&of_other).condition(random, 0);
    unordered(match random.below(10) {
        0 => {
            let rows = [random.below(20), 20 + random.below(3)].map(|id| row(random, table, id));
            format!(
                "INSERT INTO {name} VALUES {}{}{returning}",
                rows[0],
                optional(&format!(", {}", rows[1]))
            )
        }
        1 | 2 => {
            let id = random.below(16);
            let row = row(random, table, id);
            let action = match random.below(3) {
                0 => "NOTHING".to_owned(),
                1 => format!("UPDATE SET a = excluded.a, b = {name}.b + 1"),
                _ => format!(
                    "UPDATE SET b = coalesce({name}.a, 0) + 1{}",
                    optional(&format!(" WHERE {condition}"))
                ),
            };
            format!("INSERT INTO {name} VALUES {row} ON CONFLICT (id) DO {action}{returning}")
        }
        3 => format!(
            "INSERT INTO {name} (id, a, b) SELECT o.id + 30, o.b, o.a FROM {} o WHERE {} \
             ON CONFLICT DO NOTHING{returning}",
            other.name,
            of_other.condition(random, 1)
        ),
        4 | 5 => {
            let values = assignments(random, table, &scope);
            format!(
                "UPDATE {name} SET {values}{}{returning}",
                optional(&format!(" WHERE {condition}"))
            )
        }
        6 => format!(
            "UPDATE {name} SET b = x.n FROM (SELECT a AS k, count(*) AS n FROM {} GROUP BY a) x \
             WHERE x.k = {name}.a{}",
            other.name,
            optional(&format!(" AND {condition}"))
        ),
        7 => format!("DELETE FROM {name} WHERE {condition} AND id > 4{returning}"),
        8 => format!(
            "DELETE FROM {name} USING {} o WHERE o.a = {name}.b AND {name}.id > 5{}",
            other.name,
            optional(&format!(" AND {joined}"))
        ),
        _ => format!(
            "DELETE FROM {name} WHERE id > 3 AND a NOT IN (SELECT o.b FROM {} o{}){returning}",
            other.name,
            optional(" WHERE o.b IS NOT NULL")
        ),
    })
}
