//! Tables of a seed: three, whose columns of one name have one type, and few rows with values that
//! meet.

use super::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Varchar,
    Bool,
    Date,
    Timestamp,
    Timestamptz,
    Interval,
    Ints,
    Texts,
    Json,
}

use Type::*;

/// Types that have an order and an equality.
pub const SCALARS: [Type; 11] =
    [Int4, Int8, Float8, Numeric, Text, Varchar, Bool, Date, Timestamp, Timestamptz, Interval];
const ALL: [Type; 16] = [
    Int4,
    Int4,
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Text,
    Varchar,
    Bool,
    Date,
    Timestamp,
    Timestamptz,
    Ints,
    Texts,
    Json,
];

impl Type {
    pub fn name(self) -> &'static str {
        match self {
            Int4 => "integer",
            Int8 => "bigint",
            Float8 => "double precision",
            Numeric => "numeric(10,2)",
            Text => "text",
            Varchar => "varchar(6)",
            Bool => "boolean",
            Date => "date",
            Timestamp => "timestamp",
            Timestamptz => "timestamptz",
            Interval => "interval",
            Ints => "integer[]",
            Texts => "text[]",
            Json => "jsonb",
        }
    }

    /// Values as they are written between quotation marks. Floats are halves, so that sums do not
    /// depend on their order.
    fn values(self) -> &'static [&'static str] {
        match self {
            Int4 => &["0", "1", "2", "3", "-1", "7", "-5", "12"],
            Int8 => &["0", "1", "2", "-3", "7", "5000000000", "-5000000000"],
            Float8 => &["0", "1", "-1.5", "2.5", "100", "NaN", "Infinity", "-Infinity"],
            Numeric => &["0", "1", "-1.50", "0.01", "99.99", "7.00", "2.5", "-2.5"],
            Text => {
                &["", "a", "A", "ab", "a%", "a_b", "abc abc", "é", " ", "12", "-4", "ba", "a\nb"]
            }
            Varchar => &["", "a", "b", "ab", "abcdef", "12", "x y", "B"],
            Bool => &["t", "f"],
            Date => &[
                "1969-12-31",
                "2000-02-29",
                "2024-03-10",
                "2024-11-03",
                "2024-12-30",
                "infinity",
                "2024-03-31",
            ],
            Timestamp => &[
                "1969-12-31 23:59:59.5",
                "2000-02-29 12:34:56",
                "2024-03-10 02:30:00",
                "2024-11-03 01:30:00",
                "2024-10-27 02:30:00",
                "2024-12-30 00:00:00",
                "2024-03-31 02:15:00",
            ],
            Timestamptz => &[
                "1969-12-31 23:59:59.5+00",
                "2024-03-10 06:59:59+00",
                "2024-03-10 07:00:00+00",
                "2024-11-03 05:30:00+00",
                "2024-11-03 06:30:00+00",
                "2024-10-27 00:30:00+00",
                "2024-10-27 01:30:00+00",
            ],
            Interval => {
                &["1 day", "24 hours", "1 mon", "30 days", "-1 day", "90 min", "1 year 2 mons", "0"]
            }
            Ints => &["{}", "{1}", "{1,2,3}", "{NULL,2}", "{3,1,3}", "{0,-1}"],
            Texts => &["{}", "{a}", "{a,b}", "{NULL}", "{\"\",ab}", "{b,a,b}"],
            Json => &[
                "{\"a\": 1}",
                "[1, 2]",
                "null",
                "\"x\"",
                "{\"a\": {\"b\": [1, null]}}",
                "12",
                "[]",
            ],
        }
    }

    /// A value that is not NULL.
    pub fn literal(self, random: &mut Random) -> String {
        let value = random.of(self.values());
        match self {
            Int4 | Numeric if value.starts_with('-') => format!("({value})"),
            Int4 => value.to_owned(),
            Bool => if value == "t" { "true" } else { "false" }.to_owned(),
            Text if value.contains('\n') => format!("E'{}'", value.replace('\n', "\\n")),
            Text => format!("'{value}'::text"),
            Numeric if value.contains('.') => value.to_owned(),
            _ => format!("'{value}'::{}", self.name()),
        }
    }

    /// A value or, often, NULL.
    pub fn cell(self, random: &mut Random) -> String {
        match random.one_in(5) {
            true => "NULL".to_owned(),
            false => self.literal(random),
        }
    }
}

#[derive(Clone)]
pub struct Table {
    pub name: &'static str,
    /// Behind `id`, which is the key.
    pub columns: Vec<(&'static str, Type)>,
    rows: Vec<String>,
}

pub struct Tables {
    pub all: Vec<Table>,
}

/// Some columns have the names of tables.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "r", "s"];

impl Tables {
    pub fn new(random: &mut Random) -> Tables {
        let mut types = NAMES.map(|name| (name, random.of(&ALL)));
        // Numbers to compare and texts to match are in every seed.
        (types[0].1, types[1].1, types[2].1) = (Int4, Int4, Text);
        let table = |(name, least): (&'static str, usize)| {
            let rows = random.of(&[0, 3, 6, 6, 9, 12]);
            let mut columns = types[..least].to_vec();
            columns.extend(types[least..].iter().filter(|_| random.one_in(2)));
            let mut row = |id: usize| {
                let cells = columns.iter().map(|(_, of)| of.cell(random));
                format!("({id}, {})", cells.collect::<Vec<_>>().join(", "))
            };
            let rows = (1..=rows).map(&mut row).collect();
            Table { name, columns, rows }
        };
        Tables { all: [("r", 3), ("s", 2), ("t", 3)].map(table).to_vec() }
    }

    pub fn statements(&self) -> Vec<String> {
        let mut statements = Vec::new();
        for Table { name, columns, rows } in &self.all {
            let columns = columns.iter().map(|(name, of)| format!("{name} {}", of.name()));
            let columns: Vec<String> = columns.collect();
            statements.push(format!(
                "CREATE TABLE {name} (id integer PRIMARY KEY, {})",
                columns.join(", ")
            ));
            if !rows.is_empty() {
                statements.push(format!("INSERT INTO {name} VALUES {}", rows.join(", ")));
            }
        }
        statements
    }
}
