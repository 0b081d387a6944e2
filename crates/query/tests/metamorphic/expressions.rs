//! Random conditions and values over the columns of tables.

use super::random::Random;
use super::tables::{TYPES, Table, Type};

/// What may be named: columns and their types.
pub struct Scope {
    columns: Vec<(String, Type)>,
}

impl Scope {
    pub fn of(tables: &[&Table]) -> Scope {
        let columns = tables.iter().flat_map(|table| {
            let columns = table.columns.iter().enumerate();
            columns.map(|(place, column)| (table.column(place), *column))
        });
        Scope { columns: columns.collect() }
    }

    pub fn with(columns: Vec<(String, Type)>) -> Scope {
        Scope { columns }
    }

    pub fn any_column(&self, random: &mut Random) -> (String, Type) {
        self.columns[random.below(self.columns.len())].clone()
    }

    /// What may be named in either.
    pub fn and(&self, other: &Scope) -> Scope {
        Scope { columns: self.columns.iter().chain(&other.columns).cloned().collect() }
    }

    pub fn names(&self) -> Vec<String> {
        self.columns.iter().map(|(name, _)| name.clone()).collect()
    }

    pub fn columns_of(&self, wanted: Type) -> Vec<&str> {
        let columns = self.columns.iter().filter(|(_, column)| *column == wanted);
        columns.map(|(name, _)| name.as_str()).collect()
    }

    /// A column of a type, or else a literal.
    pub fn leaf(&self, random: &mut Random, wanted: Type) -> String {
        let columns = self.columns_of(wanted);
        match columns.is_empty() || random.one_in(5) {
            true if random.one_in(12) => wanted.null(),
            true => wanted.literal(random),
            false => random.pick(&columns).to_owned(),
        }
    }

    pub fn value(&self, random: &mut Random, wanted: Type, depth: usize) -> String {
        if depth == 0 || random.one_in(2) {
            return self.leaf(random, wanted);
        }
        match random.below(4) {
            0 => {
                let condition = self.condition(random, depth - 1);
                let then = self.value(random, wanted, depth - 1);
                match random.one_in(3) {
                    true => format!("CASE WHEN {condition} THEN {then} END"),
                    false => {
                        let other = self.value(random, wanted, depth - 1);
                        format!("CASE WHEN {condition} THEN {then} ELSE {other} END")
                    }
                }
            }
            1 => {
                let function = random.pick(&["coalesce", "nullif"]);
                let (one, other) = (self.leaf(random, wanted), self.leaf(random, wanted));
                format!("{function}({one}, {other})")
            }
            _ => self.computed(random, wanted, depth - 1),
        }
    }

    /// What the operators and functions of a type make.
    fn computed(&self, random: &mut Random, wanted: Type, depth: usize) -> String {
        let one = self.value(random, wanted, depth);
        match wanted {
            Type::Int2 => format!("({one} % {}::smallint)", random.pick(&["2", "3", "7"])),
            Type::Int4 if random.one_in(3) => self.counted(random),
            Type::Int4 | Type::Int8 => match random.below(5) {
                0 => format!("({one} % {})", random.pick(&["2", "3", "(-7)"])),
                1 => format!("({one} / {})", random.pick(&["2", "3", "10"])),
                2 => format!("({} % 100 + {} % 10)", one, self.leaf(random, wanted)),
                3 if wanted == Type::Int8 => format!("({}::bigint)", self.leaf(random, Type::Int4)),
                _ => format!("({one} - {})", random.pick(&["0", "1", "5"])),
            },
            Type::Float8 => match random.below(4) {
                0 => format!("(-{one})"),
                1 => format!("({one} / 2)"),
                2 => format!("({}::double precision)", self.leaf(random, Type::Int4)),
                // No two infinities: the NaN that they make is known to compare wrongly.
                _ => format!("({one} + 2.5::double precision)"),
            },
            Type::Numeric => match random.below(3) {
                0 => format!("(-{one})"),
                1 => format!("({}::numeric(12,2))", self.leaf(random, Type::Int2)),
                _ => format!("({one} + {})", self.leaf(random, Type::Numeric)),
            },
            Type::Text => match random.below(9) {
                0 => format!("upper({one})"),
                1 => format!("substr({one}, 2)"),
                2 => format!("({}::text)", self.leaf(random, Type::Int4)),
                3 => format!("lower({one})"),
                4 => format!("replace({one}, 'a', 'xy')"),
                5 => format!("trim({one})"),
                6 => format!("reverse({one})"),
                7 => format!("left({one}, 2)"),
                _ => format!("({one} || {})", self.leaf(random, Type::Text)),
            },
            Type::Bool => self.condition(random, depth),
            Type::Date => match random.one_in(2) {
                true => format!("({one} + {})", random.pick(&["1", "30"])),
                false => format!("({}::date)", self.leaf(random, Type::Timestamp)),
            },
            Type::Timestamp => {
                let unit = random.pick(&["second", "hour", "day", "week", "month"]);
                format!("date_trunc('{unit}', {one})")
            }
        }
    }

    /// A whole number that tells something of another type.
    fn counted(&self, random: &mut Random) -> String {
        match random.below(4) {
            0 => format!("length({})", self.leaf(random, Type::Text)),
            1 => {
                let sought = random.pick(&["a", "b", " ", ""]);
                format!("strpos({}, '{sought}')", self.leaf(random, Type::Text))
            }
            2 => {
                let (one, other) = (self.leaf(random, Type::Date), self.leaf(random, Type::Date));
                format!("({one} - {other})::integer")
            }
            _ => {
                let field = random.pick(&["year", "month", "day", "hour"]);
                format!("extract({field} FROM {})::integer", self.leaf(random, Type::Timestamp))
            }
        }
    }

    pub fn condition(&self, random: &mut Random, depth: usize) -> String {
        if depth == 0 {
            return self.test(random, 0);
        }
        let below = |random: &mut Random| self.condition(random, depth - 1);
        match random.below(8) {
            0 => format!("({} AND {})", below(random), below(random)),
            1 => format!("({} OR {})", below(random), below(random)),
            2 => format!("(NOT {})", below(random)),
            3 => {
                let tests = ["TRUE", "FALSE", "UNKNOWN", "NOT TRUE", "NOT FALSE", "NOT UNKNOWN"];
                format!("({} IS {})", below(random), random.pick(&tests))
            }
            _ => self.test(random, depth - 1),
        }
    }

    /// A condition over values.
    fn test(&self, random: &mut Random, depth: usize) -> String {
        let (column, of) = self.any_column(random);
        let one = if random.one_in(2) { column } else { self.value(random, of, depth) };
        let other = |random: &mut Random| {
            let numbers = of.is_number() && random.one_in(4);
            let of = if numbers { random.of(&TYPES[..5]) } else { of };
            self.value(random, of, depth)
        };
        let comparison = random.pick(&["=", "<>", "<", "<=", ">", ">="]);
        match random.below(9) {
            0 => format!("({one} IS NULL)"),
            1 => format!("({one} IS NOT NULL)"),
            2 => {
                let not = random.pick(&["", "NOT "]);
                let (low, high) = (of.literal(random), self.leaf(random, of));
                format!("({one} {not}BETWEEN {low} AND {high})")
            }
            3 => {
                let not = random.pick(&["", "NOT "]);
                let list: Vec<String> = (0..1 + random.below(4))
                    .map(|_| if random.one_in(8) { of.null() } else { of.literal(random) })
                    .collect();
                format!("({one} {not}IN ({}))", list.join(", "))
            }
            4 => {
                let not = random.pick(&["", "NOT "]);
                format!("({one} IS {not}DISTINCT FROM {})", other(random))
            }
            5 if of == Type::Bool => one,
            5 | 6 if of == Type::Text => {
                let like = random.pick(&["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"]);
                let pattern =
                    random.pick(&["a%", "%b", "%b%", "a_%", r"a\%", "%", "", "ab", "%A%c%"]);
                format!("({one} {like} '{pattern}')")
            }
            _ => format!("({one} {comparison} {})", other(random)),
        }
    }
}
