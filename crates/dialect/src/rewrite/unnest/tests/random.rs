//! Random correlated queries against the model.

use datafusion::prelude::SessionContext;

use super::model::{
    Aggregate, Bool, Comparison, Int, Joined, Output, Query, Scope, Select, Source, TABLES, Table,
    Value,
};
use super::{context, rows, values};

/// SplitMix64: the same seed gives the same queries for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    fn value(&mut self) -> Value {
        (!self.one_in(4)).then(|| self.below(4) as i64)
    }

    fn table(&mut self) -> Table {
        let rows = self.pick(&[0, 1, 3, 5, 6]);
        (0..rows).map(|key| [Some(key), self.value(), self.value()]).collect()
    }
}

/// Writes queries. `scope` holds the sources whose columns an expression may use, outer ones
/// first.
struct Writer {
    random: Random,
    sources: usize,
    scope: Vec<usize>,
}

impl Writer {
    fn column(&mut self) -> Int {
        // Half of the columns come from the innermost source, the others from anywhere.
        let source = if self.random.one_in(2) {
            *self.scope.last().expect("there is a source")
        } else {
            self.random.pick(&self.scope)
        };
        Int::Column(source, 1 + self.random.below(2))
    }

    fn int(&mut self, depth: usize) -> Int {
        match self.random.below(12) {
            0 => Int::Literal(self.random.value()),
            1 => Int::Plus(Box::new(self.column()), Box::new(self.column())),
            2 if depth > 0 => {
                Int::Coalesce(Box::new(self.int(depth - 1)), Box::new(Int::Literal(Some(1))))
            }
            3 if depth > 0 => Int::Case(
                Box::new(self.bool(depth - 1)),
                Box::new(self.int(depth - 1)),
                Box::new(self.column()),
            ),
            4..=6 if depth > 0 => Int::Subquery(Box::new(self.scalar(depth - 1))),
            _ => self.column(),
        }
    }

    fn comparison(&mut self) -> Comparison {
        use Comparison::{Equal, Less, LessOrEqual, NotEqual};
        self.random.pick(&[Equal, Equal, Equal, NotEqual, Less, LessOrEqual])
    }

    fn bool(&mut self, depth: usize) -> Bool {
        let inner = depth.saturating_sub(1);
        match self.random.below(if depth > 0 { 12 } else { 3 }) {
            0 | 1 => {
                let (left, comparison, right) = (self.int(inner), self.comparison(), self.int(0));
                Bool::Compare(left, comparison, right)
            }
            2 => Bool::IsNull(self.column()),
            3 | 4 => Bool::And(Box::new(self.bool(depth - 1)), Box::new(self.bool(0))),
            5 => Bool::Or(Box::new(self.bool(depth - 1)), Box::new(self.bool(0))),
            6 => Bool::Not(Box::new(self.bool(depth - 1))),
            7 | 8 => Bool::Exists(Box::new(self.query(depth - 1))),
            9 | 10 => {
                let (tested, negated) = (self.int(0), self.random.one_in(2));
                Bool::In(tested, Box::new(self.query(depth - 1)), negated)
            }
            _ => {
                let (tested, comparison) = (self.int(0), self.comparison());
                let all = self.random.one_in(2);
                Bool::Quantified(tested, comparison, all, Box::new(self.query(depth - 1)))
            }
        }
    }

    fn source(&mut self) -> Source {
        self.sources += 1;
        self.scope.push(self.sources);
        Source { number: self.sources, table: self.random.below(TABLES.len()) }
    }

    fn query(&mut self, depth: usize) -> Query {
        if self.random.one_in(8) {
            let left = Box::new(Query::Select(self.select(depth, false)));
            let right = Box::new(Query::Select(self.select(depth, false)));
            return Query::Union { all: self.random.one_in(2), left, right };
        }
        Query::Select(self.select(depth, false))
    }

    /// A query that mostly gives one row.
    fn scalar(&mut self, depth: usize) -> Query {
        Query::Select(self.select(depth, true))
    }

    fn select(&mut self, depth: usize, scalar: bool) -> Select {
        let outer = self.scope.len();
        let source = self.source();
        let join = self.random.one_in(4).then(|| {
            let source = self.source();
            let condition = self.bool(0);
            Joined { source, outer: self.random.one_in(2), condition }
        });
        let filter = (!self.random.one_in(6)).then(|| self.bool(depth));
        let output = self.output(depth, scalar, outer);
        self.scope.truncate(outer);
        Select { source, join, filter, output }
    }

    fn output(&mut self, depth: usize, scalar: bool, outer: usize) -> Output {
        use Aggregate::{Count, CountAll, Max, Min, Sum};
        let function = self.random.pick(&[CountAll, Count, Sum, Min, Max]);
        // Twenty sides for queries of one row, thirteen for those of any number.
        match self.random.below(20) {
            0..=2 if !scalar => Output::Value(self.int(depth)),
            3 if !scalar => Output::Distinct(self.int(0)),
            4 | 5 if !scalar => {
                let argument = self.column();
                Output::Grouped { function, argument, key: self.column() }
            }
            6 if !scalar => Output::Numbered,
            7..=11 => {
                let (value, order) = (self.column(), self.column());
                let fetch = if scalar { 1 } else { self.random.below(3) };
                Output::Limited { value, order, skip: self.random.below(2), fetch }
            }
            _ => {
                let argument = self.int(0);
                let visible = std::mem::take(&mut self.scope);
                // Beside an aggregate only outer columns may stand.
                self.scope = visible[..outer].to_vec();
                let plus =
                    if self.random.one_in(3) { self.column() } else { Int::Literal(Some(0)) };
                let having = self.random.one_in(4).then(|| (self.comparison(), self.column()));
                self.scope = visible;
                Output::Aggregate { function, argument, plus, having }
            }
        }
    }
}

/// One statement: its SQL, and what it should give.
struct Case {
    sql: String,
    expected: Option<Vec<Vec<Value>>>,
}

fn case(seed: u64, tables: &[Table; 3]) -> Case {
    let mut writer = Writer { random: Random(seed), sources: 0, scope: vec![] };
    let source = writer.source();
    let depth = 1 + writer.random.below(3);
    let item = writer.int(depth);
    let test = writer.bool(depth);
    let filter = writer.random.one_in(2).then(|| writer.bool(depth));
    let lateral = writer.random.one_in(4).then(|| {
        let outer = writer.random.one_in(2);
        (outer, writer.query(depth - 1))
    });

    let mut sql = format!("SELECT s{}.k, {item} AS item, {test} AS test", source.number);
    if lateral.is_some() {
        sql += ", l.v";
    }
    sql += &format!(" FROM {source}");
    if let Some((outer, query)) = &lateral {
        let kind = if *outer { "LEFT JOIN" } else { "JOIN" };
        sql += &format!(" {kind} LATERAL ({query}) AS l(v) ON true");
    }
    if let Some(filter) = &filter {
        sql += &format!(" WHERE {filter}");
    }
    let expected = expected(tables, &source, &item, &test, filter.as_ref(), lateral.as_ref());
    Case { sql, expected }
}

fn expected(
    tables: &[Table; 3],
    source: &Source,
    item: &Int,
    test: &Bool,
    filter: Option<&Bool>,
    lateral: Option<&(bool, Query)>,
) -> Option<Vec<Vec<Value>>> {
    let mut expected = vec![];
    for row in &tables[source.table] {
        let mut scope = Scope { tables, rows: vec![(source.number, *row)] };
        if let Some(filter) = filter
            && scope.bool(filter).ok()? != Some(true)
        {
            continue;
        }
        let test = scope.bool(test).ok()?.map(i64::from);
        let values = vec![row[0], scope.int(item).ok()?, test];
        let Some((outer, query)) = lateral else {
            expected.push(values);
            continue;
        };
        let mut members = scope.query(query).ok()?;
        if members.is_empty() && *outer {
            members.push(None);
        }
        expected.extend(members.into_iter().map(|member| {
            let mut values = values.clone();
            values.push(member);
            values
        }));
    }
    expected.sort();
    Some(expected)
}

async fn check(context: &SessionContext, tables: &[Table; 3], seed: u64) -> bool {
    let Case { sql, expected } = case(seed, tables);
    let Some(expected) = expected else {
        // Whether and when a second row is noticed depends on the order of evaluation.
        return false;
    };
    let mut found = match rows(context, &sql).await {
        Ok(found) => found,
        Err(error) => panic!("seed {seed}: {error}\n{sql}\n{}", explain(tables)),
    };
    found.sort();
    assert_eq!(found, expected, "seed {seed}\n{sql}\n{}", explain(tables));
    true
}

fn explain(tables: &[Table; 3]) -> String {
    let tables = TABLES.iter().zip(tables);
    tables.map(|(name, rows)| format!("{name}: {rows:?}\n")).collect()
}

#[tokio::test]
async fn random_queries_mean_what_the_model_says() {
    let first: u64 = std::env::var("SEED").map_or(0, |seed| seed.parse().unwrap());
    let cases: u64 = std::env::var("CASES").map_or(400, |cases| cases.parse().unwrap());
    let mut checked = 0;
    let mut random = Random(first ^ 0x5eed);
    let mut tables = [vec![], vec![], vec![]];
    let mut session = context();
    for number in 0..cases {
        if number % 20 == 0 {
            tables = [random.table(), random.table(), random.table()];
            session = context();
            for (name, rows) in TABLES.iter().zip(&tables) {
                values(&session, name, rows);
            }
        }
        checked += u64::from(check(&session, &tables, first + number).await);
    }
    assert!(checked * 10 > cases * 8, "{checked} of {cases} cases had an answer");
}
