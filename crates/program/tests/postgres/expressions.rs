//! Typed expressions over the columns of a scope.

use super::marks::{instead, optional};
use super::random::Random;
use super::tables::{SCALARS, Table, Type};

use Type::*;

/// Columns that an expression may name.
#[derive(Clone, Default)]
pub struct Scope {
    columns: Vec<(String, Type)>,
}

impl Scope {
    /// A table's columns, with its name or an alias before them.
    pub fn of(table: &Table, alias: &str) -> Scope {
        let columns = table.columns.iter().map(|(name, of)| (format!("{alias}.{name}"), *of));
        let key = (format!("{alias}.id"), Int4);
        Scope { columns: std::iter::once(key).chain(columns).collect() }
    }

    pub fn with(columns: Vec<(String, Type)>) -> Scope {
        Scope { columns }
    }

    pub fn and(&self, other: &Scope) -> Scope {
        Scope { columns: self.columns.iter().chain(&other.columns).cloned().collect() }
    }

    /// Those that can be sorted and grouped by.
    pub fn sortable(&self) -> Vec<(String, Type)> {
        let columns = self.columns.iter().filter(|(_, of)| *of != Json);
        columns.cloned().collect()
    }

    pub fn any_sortable(&self, random: &mut Random) -> (String, Type) {
        let columns = self.sortable();
        columns[random.below(columns.len())].clone()
    }

    pub fn column_of(&self, random: &mut Random, of: Type) -> Option<String> {
        let columns: Vec<&String> =
            self.columns.iter().filter(|(_, it)| *it == of).map(|(name, _)| name).collect();
        match columns.is_empty() {
            true => None,
            false => Some(columns[random.below(columns.len())].clone()),
        }
    }

    /// A column, or else a literal.
    pub fn leaf(&self, random: &mut Random, of: Type) -> String {
        match self.column_of(random, of) {
            Some(column) if !random.one_in(5) => column,
            _ => of.literal(random),
        }
    }

    /// A value of a type. A column or a literal is its simpler form.
    pub fn value(&self, random: &mut Random, of: Type, depth: usize) -> String {
        let leaf = self.leaf(random, of);
        if depth == 0 || random.one_in(4) {
            return leaf;
        }
        let value = match random.below(6) {
            0 => {
                let one = self.value(random, of, depth - 1);
                format!("coalesce({one}, {leaf})")
            }
            1 => {
                let condition = self.condition(random, depth - 1);
                let one = self.value(random, of, depth - 1);
                format!("CASE WHEN {condition} THEN {one} ELSE {leaf} END")
            }
            2 if of != Json => format!("nullif({leaf}, {})", self.leaf(random, of)),
            _ => self.own_value(random, of, depth - 1),
        };
        instead(&value, &leaf)
    }

    fn own_value(&self, random: &mut Random, of: Type, depth: usize) -> String {
        let mut value = |of| self.value(random, of, depth);
        let one = value(of);
        match of {
            Int4 => {
                let (other, text) = (value(Int4), value(Text));
                match random.below(6) {
                    0 => format!("({one} + {other})"),
                    1 => format!("({one} * {other})"),
                    2 => format!("(- {one})"),
                    3 => format!("length({text})"),
                    4 => format!("abs({one})"),
                    _ => format!("greatest({one}, {other})"),
                }
            }
            Int8 => format!("({one} + {})", value(Int4)),
            Float8 => format!("({one} {} {})", random.pick(&["+", "*"]), self.leaf(random, Float8)),
            Numeric => format!("round({one}, {})", random.below(3)),
            Text => match random.below(5) {
                0 => format!("({one} || {})", self.leaf(random, Text)),
                1 => format!("upper({one})"),
                2 => format!("left({one}, {})", random.below(4)),
                3 => format!("replace({one}, 'a', {})", self.leaf(random, Text)),
                _ => format!("concat({one}, {})", self.any_leaf(random)),
            },
            Varchar => format!("{one}::varchar(2)"),
            Bool => self.condition(random, depth),
            Date => format!("({one} + {})", random.below(40)),
            Timestamp | Timestamptz => {
                format!("({one} + {})", Interval.literal(random))
            }
            Interval => format!("({one} * {})", random.below(4)),
            Ints => match random.below(3) {
                0 => format!("array_append({one}, {})", self.leaf(random, Int4)),
                1 => format!("({one} || {})", self.leaf(random, Ints)),
                _ => format!("ARRAY[{}, {}]", self.leaf(random, Int4), self.leaf(random, Int4)),
            },
            Texts => match random.below(2) {
                0 => format!("array_remove({one}, {})", self.leaf(random, Text)),
                _ => format!("ARRAY[{}]", self.leaf(random, Text)),
            },
            Json => match random.below(2) {
                0 => format!("({one} -> 'a')"),
                _ => format!("to_jsonb({})", self.leaf(random, Int4)),
            },
        }
    }

    pub fn any_leaf(&self, random: &mut Random) -> String {
        let of = random.of(&[Int4, Text, Numeric, Bool, Date]);
        self.leaf(random, of)
    }

    pub fn condition(&self, random: &mut Random, depth: usize) -> String {
        if depth > 0 && !random.one_in(3) {
            let (one, other) =
                (self.condition(random, depth - 1), self.condition(random, depth - 1));
            return match random.below(4) {
                0 => format!("({one}{})", optional(&format!(" AND {other}"))),
                1 => format!("({one}{})", optional(&format!(" OR {other}"))),
                2 => format!("(NOT {one})"),
                _ => format!(
                    "(({one}) IS {}{})",
                    random.pick(&["", "NOT "]),
                    random.pick(&["TRUE", "FALSE", "UNKNOWN"])
                ),
            };
        }
        let of = random.of(&SCALARS);
        let of = if self.columns.iter().any(|(_, it)| *it == of) { of } else { Int4 };
        let (one, other) = (self.leaf(random, of), self.leaf(random, of));
        match random.below(8) {
            0 => format!("{one} IS NULL"),
            1 => format!("{one} IS DISTINCT FROM {other}"),
            2 => format!("{one} {}IN ({other}, {})", random.pick(&["", "NOT "]), of.cell(random)),
            3 => format!("{one} BETWEEN {other} AND {}", self.leaf(random, of)),
            4 => {
                let text = self.leaf(random, Text);
                format!("{text} LIKE {}", random.pick(&["'a%'", "'%b%'", "'_'", "'%'", "''"]))
            }
            _ => format!("{one} {} {other}", random.pick(&["=", "<>", "<", "<=", ">", ">="])),
        }
    }
}

/// Aggregates over a scope, with what they give.
pub fn aggregate(random: &mut Random, scope: &Scope) -> String {
    let filter = match random.one_in(4) {
        true => optional(&format!(" FILTER (WHERE {})", scope.condition(random, 0))),
        false => String::new(),
    };
    let distinct = random.pick(&["", "", "DISTINCT "]);
    let call = match random.below(9) {
        0 => "count(*)".to_owned(),
        1 => format!("count({distinct}{})", scope.any_sortable(random).0),
        2 => format!("sum({distinct}{})", scope.value(random, Int4, 1)),
        3 => format!("sum({distinct}{})", scope.leaf(random, Numeric)),
        4 => format!("avg({distinct}{})", scope.leaf(random, Int4)),
        5 => format!("bool_or({})", scope.condition(random, 0)),
        6 => {
            let of = random.of(&[Int4, Text, Date, Numeric, Timestamp, Float8, Interval]);
            format!("{}({})", random.pick(&["min", "max"]), scope.leaf(random, of))
        }
        7 => format!("sum({})", scope.leaf(random, Float8)),
        _ => format!("bool_and({})", scope.leaf(random, Bool)),
    };
    call + &filter
}

/// `ORDER BY` of all keys, each in a direction.
pub fn order_by(random: &mut Random, keys: &[String]) -> String {
    let keys = keys.iter().map(|key| {
        let direction = random.pick(&["", " DESC", " ASC"]);
        format!("{key}{direction}{}", random.pick(&["", " NULLS FIRST", " NULLS LAST"]))
    });
    format!("ORDER BY {}", keys.collect::<Vec<_>>().join(", "))
}

/// `LIMIT` and `OFFSET`, one or both.
pub fn limit(random: &mut Random) -> String {
    let (limit, offset) = (random.pick(&["0", "1", "2", "3", "5"]), random.pick(&["0", "1", "2"]));
    match random.below(4) {
        0 => format!(" OFFSET {offset}"),
        1 => format!(" LIMIT {limit}{}", optional(&format!(" OFFSET {offset}"))),
        _ => format!(" LIMIT {limit}"),
    }
}
