//! Joins of all kinds.

use super::super::expressions::aggregate;
use super::super::marks::{list, optional};
use super::super::peers::Statement;
use super::super::random::Random;
use super::super::tables::{Table, Tables, Type};
use super::{aliased, ordered, unordered};

/// Names that two tables have in common and that have an equality.
fn common(one: &Table, other: &Table) -> Vec<&'static str> {
    let names = one.columns.iter().filter(|column| other.columns.contains(column));
    names.filter(|(_, of)| *of != Type::Json).map(|(name, _)| *name).collect()
}

fn kind(random: &mut Random) -> &'static str {
    random.of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
}

pub fn joins(random: &mut Random, tables: &Tables) -> Statement {
    let (left, of_left) = aliased(random, tables, "l");
    let (right, of_right) = aliased(random, tables, "o");
    let both = of_left.and(&of_right);
    let kind = kind(random);
    let filter = optional(&format!(" WHERE {}", both.condition(random, 1)));
    let names = common(left, right);
    let using = names[..1 + random.below(names.len().min(2))].join(", ");
    let (left, right) = (left.name, right.name);
    match random.below(10) {
        0 => unordered(format!("SELECT * FROM {left} l {kind} {right} o USING ({using}){filter}")),
        1 => unordered(format!(
            "SELECT {using}, l.id, o.id FROM {left} l {kind} {right} o USING ({using})"
        )),
        2 => unordered(format!("SELECT a, b, l.a, o.b FROM {left} l NATURAL {kind} {right} o")),
        3 => ordered(format!(
            "SELECT a, l.id, o.id FROM {left} l {kind} {right} o USING (a) \
             ORDER BY a NULLS FIRST, l.id, o.id DESC{}",
            optional(" LIMIT 4")
        )),
        4 => unordered(format!(
            "SELECT a, count(*), count(o.id) FROM {left} l {kind} {right} o USING (a) GROUP BY a"
        )),
        5 => unordered(format!(
            "SELECT l.id, o.id, p.id FROM {left} l {kind} {right} o ON l.a = o.b {} {right} p \
             ON p.a = o.a{}{filter}",
            self::kind(random),
            optional(" AND p.id = l.id")
        )),
        6 => unordered(format!("SELECT l.id, o.id FROM {left} l CROSS JOIN {right} o{filter}")),
        7 => unordered(format!(
            "SELECT a, p.id FROM {left} l {kind} {right} o USING (a) {} t p USING (a){}",
            self::kind(random),
            optional(" WHERE a > 0")
        )),
        8 => unordered(format!(
            "SELECT {} FROM {left} l {kind} {right} o ON l.a = o.a",
            aggregate(random, &both)
        )),
        _ => {
            let inequality = match kind {
                "FULL JOIN" => String::new(),
                _ => optional(&format!(" AND {}", both.condition(random, 1))),
            };
            let values: Vec<String> = (0..2).map(|_| both.any_sortable(random).0).collect();
            unordered(format!(
                "SELECT {}, l.id FROM {left} l {kind} {right} o ON l.a = o.a{inequality}{filter}",
                list(&values)
            ))
        }
    }
}

pub fn lateral(random: &mut Random, tables: &Tables) -> Statement {
    let (left, of_left) = aliased(random, tables, "l");
    let (inner, of_inner) = aliased(random, tables, "i");
    let both = of_left.and(&of_inner);
    let condition = match random.below(3) {
        0 => both.condition(random, 1),
        1 => "i.a = l.b".to_owned(),
        _ => format!("i.a > l.a{}", optional(" AND i.id <> l.id")),
    };
    let from = format!("FROM {} i WHERE {condition}", inner.name);
    let query = match random.below(6) {
        0 => format!("SELECT i.id AS v {from} ORDER BY i.id LIMIT {}", 1 + random.below(2)),
        1 => format!("SELECT {} AS v {from}", aggregate(random, &of_inner)),
        2 => format!("SELECT i.a AS v {from} GROUP BY i.a"),
        3 => format!("SELECT row_number() OVER (ORDER BY i.id) AS v {from}"),
        4 => format!("SELECT i.id + l.id AS v {from}"),
        _ => format!("SELECT DISTINCT i.b AS v {from}"),
    };
    let (kind, end) = match random.below(4) {
        0 => ("CROSS JOIN", ""),
        1 => ("JOIN", " ON true"),
        _ => ("LEFT JOIN", " ON true"),
    };
    let end = match (kind, random.one_in(4)) {
        ("LEFT JOIN", true) => " ON l.id > 1",
        _ => end,
    };
    unordered(format!("SELECT l.id, x.v FROM {} l {kind} LATERAL ({query}) x{end}", left.name))
}
