//! Random tables.

use super::random::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Int2,
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Bool,
    Date,
    Timestamp,
}

pub const TYPES: [Type; 9] = [
    Type::Int2,
    Type::Int4,
    Type::Int8,
    Type::Float8,
    Type::Numeric,
    Type::Text,
    Type::Bool,
    Type::Date,
    Type::Timestamp,
];

impl Type {
    pub fn name(self) -> &'static str {
        match self {
            Type::Int2 => "smallint",
            Type::Int4 => "integer",
            Type::Int8 => "bigint",
            Type::Float8 => "double precision",
            Type::Numeric => "numeric(12,2)",
            Type::Text => "text",
            Type::Bool => "boolean",
            Type::Date => "date",
            Type::Timestamp => "timestamp",
        }
    }

    pub fn is_number(self) -> bool {
        matches!(self, Type::Int2 | Type::Int4 | Type::Int8 | Type::Float8 | Type::Numeric)
    }

    /// A value as it is written out. Few enough of them that values meet, difficult ones among
    /// them; floats are halves, so that sums do not depend on their order.
    pub fn literal(self, random: &mut Random) -> String {
        let value = match self {
            Type::Int2 => random.pick(&["0", "1", "-1", "2", "7", "100", "-32768", "32767"]),
            Type::Int4 => random.pick(&["0", "1", "-1", "3", "7", "42", "-1000", "2147483647"]),
            Type::Int8 => {
                random.pick(&["0", "1", "-1", "3", "7", "5000000000", "-9223372036854775808"])
            }
            Type::Float8 => {
                random.pick(&["0", "-0", "1", "-1.5", "2.5", "100", "NaN", "Infinity", "-Infinity"])
            }
            Type::Numeric => random.pick(&["0", "1", "-1.50", "0.01", "99999.99", "7.00"]),
            Type::Text => random.pick(&[
                "",
                "a",
                "A",
                "ab",
                "a%",
                "a_b",
                "abc abc abc abc",
                "Ä",
                " ",
                "0",
                "zz",
                "ba",
            ]),
            Type::Bool => random.pick(&["true", "false"]),
            Type::Date => {
                random.pick(&["1969-12-31", "1970-01-01", "2000-02-29", "2024-12-30", "0044-03-15"])
            }
            Type::Timestamp => random.pick(&[
                "1969-12-31 23:59:59.999999",
                "1970-01-01 00:00:00",
                "2000-02-29 12:34:56.5",
                "2024-12-30 00:00:00",
                "1582-10-04 01:00:00",
            ]),
        };
        match self {
            Type::Bool => value.to_owned(),
            Type::Int2 => format!("({value})::smallint"),
            Type::Int4 => format!("({value})::integer"),
            Type::Int8 => format!("({value})::bigint"),
            _ => format!("'{value}'::{}", self.name()),
        }
    }

    pub fn null(self) -> String {
        format!("NULL::{}", self.name())
    }
}

pub struct Table {
    pub name: &'static str,
    pub columns: Vec<Type>,
}

impl Table {
    fn new(name: &'static str, random: &mut Random) -> Table {
        let columns = (0..4 + random.below(5)).map(|_| random.of(&TYPES)).collect();
        Table { name, columns }
    }

    pub fn column(&self, place: usize) -> String {
        format!("{}.c{place}", self.name)
    }

    /// The names of its columns.
    pub fn names(&self) -> Vec<String> {
        (0..self.columns.len()).map(|place| self.column(place)).collect()
    }

    /// One with the same columns.
    pub fn called(&self, name: &'static str) -> Table {
        Table { name, columns: self.columns.clone() }
    }

    /// Its first rows, under its own name: few enough to be joined.
    pub fn few(&self) -> String {
        self.first_rows(50, self.name)
    }

    /// As many of its rows, under a name. All columns order them: which those are is certain.
    pub fn first_rows(&self, number: usize, name: &str) -> String {
        let order: Vec<String> = (1..=self.columns.len()).map(|place| place.to_string()).collect();
        let order = order.join(", ");
        format!("(SELECT * FROM {} ORDER BY {order} LIMIT {number}) AS {name}", self.name)
    }

    /// Its columns, one behind the other, under names that begin with a letter of its own.
    pub fn all(&self, letter: char) -> String {
        let named = (0..self.columns.len())
            .map(|place| format!("{} AS {letter}{place}", self.column(place)));
        named.collect::<Vec<String>>().join(", ")
    }

    fn definition(&self) -> String {
        let columns = self.columns.iter().enumerate();
        let columns: Vec<String> =
            columns.map(|(place, column)| format!("c{place} {}", column.name())).collect();
        format!("CREATE TABLE {} ({})", self.name, columns.join(", "))
    }

    fn row(&self, random: &mut Random) -> String {
        let values: Vec<String> = self
            .columns
            .iter()
            .map(|column| match random.one_in(6) {
                true => "NULL".to_owned(),
                false => column.literal(random),
            })
            .collect();
        format!("({})", values.join(", "))
    }
}

/// Two tables of random columns.
pub struct Tables {
    pub left: Table,
    pub right: Table,
}

impl Tables {
    pub fn new(random: &mut Random) -> Tables {
        Tables { left: Table::new("t", random), right: Table::new("u", random) }
    }

    /// Makes the tables and fills them: with nothing, with some rows, or with chunks of them; some
    /// rows are dead. Where there are chunks, each row has so many copies.
    pub fn statements(&self, random: &mut Random, copies: usize) -> Vec<String> {
        let mut statements = Vec::new();
        for table in [&self.left, &self.right] {
            statements.push(table.definition());
            let rows = random.of(&[0, 1, 10, 40, 40]);
            if rows > 0 {
                let rows: Vec<String> = (0..rows).map(|_| table.row(random)).collect();
                statements.push(format!("INSERT INTO {} VALUES {}", table.name, rows.join(", ")));
            }
        }
        let name = self.left.name;
        if random.one_in(4) {
            statements.push(format!(
                "INSERT INTO {name} SELECT {name}.* FROM {name}, generate_series(1, {copies})"
            ));
        }
        if random.one_in(2) {
            let place = random.below(self.left.columns.len());
            let value = self.left.columns[place].literal(random);
            statements.push(format!("DELETE FROM {name} WHERE c{place} = {value}"));
            statements.push(format!("INSERT INTO {name} VALUES {}", self.left.row(random)));
        }
        statements
    }
}
