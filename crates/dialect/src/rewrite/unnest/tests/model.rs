//! Queries over small tables, and what they mean: each subquery evaluated anew for every row
//! that asks, as the SQL standard tells it. Slow, obvious, and nothing like the rule under test.

use std::collections::BTreeSet;
use std::fmt;

/// NULL or a number.
pub type Value = Option<i64>;

/// Rows of `k, a, b`, where `k` is unique.
pub type Table = Vec<[Value; 3]>;

pub const TABLES: [&str; 3] = ["t", "u", "w"];
pub const COLUMNS: [&str; 3] = ["k", "a", "b"];

#[derive(Clone, Debug)]
pub enum Int {
    Literal(Value),
    /// A column of the source with this number.
    Column(usize, usize),
    Plus(Box<Int>, Box<Int>),
    Coalesce(Box<Int>, Box<Int>),
    Case(Box<Bool>, Box<Int>, Box<Int>),
    Subquery(Box<Query>),
}

#[derive(Clone, Debug)]
pub enum Bool {
    Compare(Int, Comparison, Int),
    And(Box<Bool>, Box<Bool>),
    Or(Box<Bool>, Box<Bool>),
    Not(Box<Bool>),
    IsNull(Int),
    Exists(Box<Query>),
    In(Int, Box<Query>, bool),
    Quantified(Int, Comparison, bool, Box<Query>),
}

#[derive(Clone, Copy, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
}

#[derive(Clone, Copy, Debug)]
pub enum Aggregate {
    CountAll,
    Count,
    Sum,
    Min,
    Max,
}

/// A query of one column.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a model has few queries at a time")]
pub enum Query {
    Select(Select),
    Union { all: bool, left: Box<Query>, right: Box<Query> },
}

/// `SELECT output FROM source [LEFT JOIN …] WHERE filter`.
#[derive(Clone, Debug)]
pub struct Select {
    pub source: Source,
    pub join: Option<Joined>,
    pub filter: Option<Bool>,
    pub output: Output,
}

#[derive(Clone, Debug)]
pub struct Source {
    /// Unique within the statement; the alias is made of it.
    pub number: usize,
    pub table: usize,
}

#[derive(Clone, Debug)]
pub struct Joined {
    pub source: Source,
    pub outer: bool,
    pub condition: Bool,
}

#[derive(Clone, Debug)]
pub enum Output {
    Value(Int),
    Distinct(Int),
    Aggregate {
        function: Aggregate,
        argument: Int,
        plus: Int,
        having: Option<(Comparison, Int)>,
    },
    Grouped {
        function: Aggregate,
        argument: Int,
        key: Int,
    },
    /// The first rows by `order`, then by the key of the source.
    Limited {
        value: Int,
        order: Int,
        skip: usize,
        fetch: usize,
    },
    /// The rank of each row by the key of the source.
    Numbered,
}

/// What a scalar subquery with several rows gives.
#[derive(Debug)]
pub struct MoreThanOneRow;

type Answer<T> = Result<T, MoreThanOneRow>;

/// The rows that each source stands at.
pub struct Scope<'a> {
    pub tables: &'a [Table; 3],
    pub rows: Vec<(usize, [Value; 3])>,
}

impl Scope<'_> {
    pub fn int(&mut self, int: &Int) -> Answer<Value> {
        Ok(match int {
            Int::Literal(value) => *value,
            Int::Column(source, column) => {
                let found = self.rows.iter().rev().find(|(number, _)| number == source);
                found.expect("the source is in scope").1[*column]
            }
            Int::Plus(left, right) => match (self.int(left)?, self.int(right)?) {
                (Some(left), Some(right)) => Some(left + right),
                _ => None,
            },
            Int::Coalesce(left, right) => match self.int(left)? {
                None => self.int(right)?,
                value => value,
            },
            Int::Case(condition, then, otherwise) => {
                let taken = self.bool(condition)? == Some(true);
                self.int(if taken { then } else { otherwise })?
            }
            Int::Subquery(query) => match self.query(query)?.as_slice() {
                [] => None,
                [value] => *value,
                _ => return Err(MoreThanOneRow),
            },
        })
    }

    pub fn bool(&mut self, bool: &Bool) -> Answer<Option<bool>> {
        Ok(match bool {
            Bool::Compare(left, comparison, right) => {
                comparison.holds(self.int(left)?, self.int(right)?)
            }
            Bool::And(left, right) => not(or([not(self.bool(left)?), not(self.bool(right)?)])),
            Bool::Or(left, right) => or([self.bool(left)?, self.bool(right)?]),
            Bool::Not(inner) => not(self.bool(inner)?),
            Bool::IsNull(int) => Some(self.int(int)?.is_none()),
            Bool::Exists(query) => Some(!self.query(query)?.is_empty()),
            Bool::In(tested, query, negated) => {
                let tested = self.int(tested)?;
                let members = self.query(query)?;
                let found =
                    or(members.into_iter().map(|member| Comparison::Equal.holds(tested, member)));
                if *negated { not(found) } else { found }
            }
            Bool::Quantified(tested, comparison, all, query) => {
                let tested = self.int(tested)?;
                let members = self.query(query)?;
                let answers = members.into_iter().map(|member| comparison.holds(tested, member));
                if *all { not(or(answers.map(not))) } else { or(answers) }
            }
        })
    }

    pub fn query(&mut self, query: &Query) -> Answer<Vec<Value>> {
        match query {
            Query::Select(select) => self.select(select),
            Query::Union { all, left, right } => {
                let mut rows = self.query(left)?;
                rows.extend(self.query(right)?);
                Ok(if *all { rows } else { distinct(rows) })
            }
        }
    }

    fn select(&mut self, select: &Select) -> Answer<Vec<Value>> {
        let depth = self.rows.len();
        let mut kept = vec![];
        for combination in self.combinations(select)? {
            self.rows.extend(combination.clone());
            let keep = match &select.filter {
                Some(filter) => self.bool(filter)? == Some(true),
                None => true,
            };
            self.rows.truncate(depth);
            if keep {
                kept.push(combination);
            }
        }
        self.output(select, &kept)
    }

    #[expect(clippy::type_complexity, reason = "the rows of each table, combined")]
    fn combinations(&mut self, select: &Select) -> Answer<Vec<Vec<(usize, [Value; 3])>>> {
        let tables = self.tables;
        let mut combinations = vec![];
        for left in &tables[select.source.table] {
            let left = (select.source.number, *left);
            let Some(join) = &select.join else {
                combinations.push(vec![left]);
                continue;
            };
            let mut matched = false;
            for right in &tables[join.source.table] {
                let right = (join.source.number, *right);
                self.rows.extend([left, right]);
                let holds = self.bool(&join.condition)? == Some(true);
                self.rows.truncate(self.rows.len() - 2);
                if holds {
                    matched = true;
                    combinations.push(vec![left, right]);
                }
            }
            if join.outer && !matched {
                combinations.push(vec![left, (join.source.number, [None; 3])]);
            }
        }
        Ok(combinations)
    }

    fn each(&mut self, rows: &[Vec<(usize, [Value; 3])>], int: &Int) -> Answer<Vec<Value>> {
        let depth = self.rows.len();
        let mut values = vec![];
        for row in rows {
            self.rows.extend(row.clone());
            values.push(self.int(int)?);
            self.rows.truncate(depth);
        }
        Ok(values)
    }

    fn output(&mut self, select: &Select, rows: &[Vec<(usize, [Value; 3])>]) -> Answer<Vec<Value>> {
        match &select.output {
            Output::Value(value) => self.each(rows, value),
            Output::Distinct(value) => Ok(distinct(self.each(rows, value)?)),
            Output::Aggregate { function, argument, plus, having } => {
                let value = function.of(&self.each(rows, argument)?);
                if let Some((comparison, bound)) = having
                    && comparison.holds(self.int(bound)?, value) != Some(true)
                {
                    return Ok(vec![]);
                }
                let plus = self.int(plus)?;
                Ok(vec![value.zip(plus).map(|(value, plus)| value + plus)])
            }
            Output::Grouped { function, argument, key } => {
                let keys = self.each(rows, key)?;
                let arguments = self.each(rows, argument)?;
                let group = |wanted: Value| {
                    let members = keys.iter().zip(&arguments).filter(|(key, _)| **key == wanted);
                    function.of(&members.map(|(_, argument)| *argument).collect::<Vec<_>>())
                };
                Ok(distinct(keys.clone()).into_iter().map(group).collect())
            }
            Output::Limited { value, order, skip, fetch } => {
                let orders = self.each(rows, order)?;
                let values = self.each(rows, value)?;
                let mut sorted: Vec<_> = orders
                    .into_iter()
                    .zip(rows)
                    .map(|(order, row)| {
                        let keys = row.iter().map(|(_, row)| nulls_last(row[0]));
                        (nulls_last(order), keys.collect::<Vec<_>>())
                    })
                    .zip(values)
                    .collect();
                sorted.sort();
                let chosen = sorted.into_iter().skip(*skip).take(*fetch);
                Ok(chosen.map(|(_, value)| value).collect())
            }
            Output::Numbered => Ok((1..=rows.len() as i64).map(Some).collect()),
        }
    }
}

fn nulls_last(value: Value) -> (bool, Value) {
    (value.is_none(), value)
}

fn not(answer: Option<bool>) -> Option<bool> {
    answer.map(|answer| !answer)
}

fn or(answers: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(false);
    for answer in answers {
        match answer {
            Some(true) => return Some(true),
            Some(false) => {}
            None => result = None,
        }
    }
    result
}

fn distinct(values: Vec<Value>) -> Vec<Value> {
    values.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}

impl Comparison {
    fn holds(self, left: Value, right: Value) -> Option<bool> {
        let (left, right) = (left?, right?);
        Some(match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
        })
    }
}

impl Aggregate {
    fn of(self, values: &[Value]) -> Value {
        let known = values.iter().flatten().copied();
        match self {
            Aggregate::CountAll => Some(values.len() as i64),
            Aggregate::Count => Some(known.count() as i64),
            Aggregate::Sum => known.reduce(|left, right| left + right),
            Aggregate::Min => known.min(),
            Aggregate::Max => known.max(),
        }
    }
}

impl fmt::Display for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Int::Literal(Some(value)) => write!(f, "CAST({value} AS BIGINT)"),
            Int::Literal(None) => f.write_str("CAST(NULL AS BIGINT)"),
            Int::Column(source, column) => write!(f, "s{source}.{}", COLUMNS[*column]),
            Int::Plus(left, right) => write!(f, "({left} + {right})"),
            Int::Coalesce(left, right) => write!(f, "coalesce({left}, {right})"),
            Int::Case(condition, then, otherwise) => {
                write!(f, "CASE WHEN {condition} THEN {then} ELSE {otherwise} END")
            }
            Int::Subquery(query) => write!(f, "({query})"),
        }
    }
}

impl fmt::Display for Bool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bool::Compare(left, comparison, right) => write!(f, "({left} {comparison} {right})"),
            Bool::And(left, right) => write!(f, "({left} AND {right})"),
            Bool::Or(left, right) => write!(f, "({left} OR {right})"),
            Bool::Not(inner) => write!(f, "(NOT {inner})"),
            Bool::IsNull(int) => write!(f, "({int} IS NULL)"),
            Bool::Exists(query) => write!(f, "EXISTS ({query})"),
            Bool::In(tested, query, negated) => {
                let not = if *negated { "NOT " } else { "" };
                write!(f, "({tested} {not}IN ({query}))")
            }
            Bool::Quantified(tested, comparison, all, query) => {
                let quantifier = if *all { "ALL" } else { "ANY" };
                write!(f, "({tested} {comparison} {quantifier} ({query}))")
            }
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
        })
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Query::Select(select) => write!(f, "{select}"),
            Query::Union { all, left, right } => {
                let all = if *all { " ALL" } else { "" };
                // A query that begins with a parenthesis is not understood everywhere.
                write!(f, "SELECT x.v FROM ({left}) AS x(v) ")?;
                write!(f, "UNION{all} SELECT x.v FROM ({right}) AS x(v)")
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} AS s{}", TABLES[self.table], self.number)
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = |function: &Aggregate, argument: &Int| match function {
            Aggregate::CountAll => "count(*)".to_owned(),
            Aggregate::Count => format!("count({argument})"),
            Aggregate::Sum => format!("sum({argument})"),
            Aggregate::Min => format!("min({argument})"),
            Aggregate::Max => format!("max({argument})"),
        };
        let mut keys = format!("s{}.k", self.source.number);
        if let Some(join) = &self.join {
            keys = format!("{keys}, s{}.k", join.source.number);
        }
        let (item, tail) = match &self.output {
            Output::Value(value) => (value.to_string(), String::new()),
            Output::Distinct(value) => (format!("DISTINCT {value}"), String::new()),
            Output::Aggregate { function, argument, plus, having } => {
                let call = call(function, argument);
                let having = having
                    .as_ref()
                    .map(|(comparison, bound)| format!(" HAVING {bound} {comparison} {call}"));
                (format!("{call} + {plus}"), having.unwrap_or_default())
            }
            Output::Grouped { function, argument, key } => {
                (call(function, argument), format!(" GROUP BY {key}"))
            }
            Output::Limited { value, order, skip, fetch } => (
                value.to_string(),
                format!(" ORDER BY {order}, {keys} LIMIT {fetch} OFFSET {skip}"),
            ),
            Output::Numbered => (format!("row_number() OVER (ORDER BY {keys})"), String::new()),
        };
        write!(f, "SELECT {item} FROM {}", self.source)?;
        if let Some(Joined { source, outer, condition }) = &self.join {
            let kind = if *outer { "LEFT JOIN" } else { "JOIN" };
            write!(f, " {kind} {source} ON {condition}")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        f.write_str(&tail)
    }
}
