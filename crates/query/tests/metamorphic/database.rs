//! The database that is asked, and how two answers are compared.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use thalweg_query::{Database, Outcome, Session};
use thalweg_types::Error;

use super::duckdb::{DuckDb, in_our_words};
use super::questions::Question;
use super::random::Random;

/// Of so many questions about one is asked again.
const ASKED_AGAIN: usize = 3;

/// Two questions with one answer.
pub struct Pair {
    pub one: String,
    pub other: String,
    pub reading: Reading,
}

/// What of the rows is the answer.
#[derive(Clone, Copy)]
pub enum Reading {
    /// All of them, in any order.
    Rows,
    /// The first question's number, and in how many rows of the second the one column is true.
    CountOfTrue,
}

pub enum Verdict {
    Agrees,
    Refused,
    Differs(String),
}

/// A session, and what was done in it.
struct Base {
    session: Session,
    done: Vec<String>,
}

impl Base {
    fn new() -> Base {
        let database = Database::builder().threads(2).open().unwrap();
        Base { session: database.session(), done: Vec::new() }
    }

    async fn done(&mut self, statement: &str) {
        if let Err(error) = self.session.execute(statement).await {
            panic!("{statement}\n{error}");
        }
        self.done.push(statement.to_owned());
    }

    async fn batches(&mut self, query: &str) -> Result<Vec<RecordBatch>, Error> {
        batches_of(self.session.execute(query).await?).await
    }

    async fn rows(&mut self, query: &str) -> Result<Vec<String>, Error> {
        Ok(rows_of(&self.batches(query).await?))
    }

    /// Two answers to a query that is prepared.
    async fn prepared(&mut self, query: &str) -> Result<Vec<Vec<String>>, Error> {
        let prepared = self.session.prepare(query, &[]).await?;
        let mut answers = Vec::new();
        for _ in 0..2 {
            let outcome = self.session.execute_prepared(&prepared, &[]).await?;
            answers.push(rows_of(&batches_of(outcome).await?));
        }
        Ok(answers)
    }

    fn script(&self) -> String {
        let mut script = String::new();
        for statement in &self.done {
            script.push_str(statement);
            script.push_str(";\n");
        }
        script
    }
}

/// The rows of a query, as texts.
pub async fn rows_of_query(session: &mut Session, query: &str) -> Result<Vec<String>, Error> {
    let outcome = session.execute(query).await?;
    Ok(rows_of(&batches_of(outcome).await?))
}

async fn batches_of(outcome: Outcome) -> Result<Vec<RecordBatch>, Error> {
    let mut rows = outcome.rows.expect("a query gives rows");
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch?);
    }
    Ok(batches)
}

fn rows_of(batches: &[RecordBatch]) -> Vec<String> {
    batches.iter().flat_map(texts).collect()
}

/// Databases that are asked the same.
pub struct Subject {
    plain: Base,
    /// Where the same rows lie in tables that have a key and indexes.
    indexed: Base,
    duckdb: Option<DuckDb>,
    /// What is asked again, and how.
    random: Random,
}

impl Subject {
    /// New databases, and DuckDB where it is there.
    pub fn new(duckdb: Option<DuckDb>, random: Random) -> Subject {
        Subject { plain: Base::new(), indexed: Base::new(), duckdb, random }
    }

    /// DuckDB, for others to use.
    pub fn end(self) -> Option<DuckDb> {
        self.duckdb
    }

    pub async fn done(&mut self, statement: &str) {
        self.plain.done(statement).await;
        if let Some(duckdb) = &mut self.duckdb {
            duckdb.done(statement);
        }
    }

    pub async fn done_with_indexes(&mut self, statement: &str) {
        self.indexed.done(statement).await;
    }

    /// Whether a question is answered, and as DuckDB does where it is there.
    pub async fn compare_with_duckdb(&mut self, question: &Question) -> Verdict {
        let Question { sql: query, is_ordered } = question;
        let batches = match self.plain.batches(query).await {
            Ok(batches) => batches,
            Err(error) if is_of_data(&error) || is_known(&error) => return Verdict::Refused,
            Err(error) => {
                return Verdict::Differs(format!("refused ({}): {error}", error.state().0));
            }
        };
        let ours = rows_of(&batches);
        if let Some(how) = self.otherwise(query, &ours, *is_ordered).await {
            return Verdict::Differs(how);
        }
        let Some(duckdb) = &mut self.duckdb else { return Verdict::Agrees };
        let theirs = match duckdb.rows(query) {
            Ok(theirs) => theirs,
            Err(error) if error.contains("Out of Range") || error.contains("Conversion") => {
                return Verdict::Refused;
            }
            Err(error) => return Verdict::Differs(format!("DuckDB: {error}")),
        };
        let types: Vec<DataType> = batches.first().map_or_else(Vec::new, |batch| {
            batch.columns().iter().map(|column| column.data_type().clone()).collect()
        });
        let row = |row: &Vec<Option<String>>| {
            let values = row.iter().enumerate().map(|(place, value)| {
                let data_type = types.get(place);
                let is_moment = matches!(data_type, Some(DataType::Timestamp(..)));
                let is_float = data_type == Some(&DataType::Float64);
                in_our_words(value.as_deref(), is_moment, is_float)
            });
            values.collect::<Vec<String>>().join(" | ")
        };
        let theirs = comparable(theirs.iter().map(row).collect(), *is_ordered);
        let ours = comparable(ours, *is_ordered);
        match ours == theirs {
            true => Verdict::Agrees,
            false => Verdict::Differs(difference(&ours, &theirs)),
        }
    }

    pub async fn compare(&mut self, pair: &Pair) -> Verdict {
        let (one, other) = (self.plain.rows(&pair.one).await, self.plain.rows(&pair.other).await);
        let (one, mut other) = match (one, other) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(error), _) | (_, Err(error)) if is_of_data(&error) => return Verdict::Refused,
            (Err(error), _) | (_, Err(error)) => {
                return Verdict::Differs(format!("refused ({}): {error}", error.state().0));
            }
        };
        for (query, rows) in [(&pair.one, &one), (&pair.other, &other)] {
            if let Some(how) = self.otherwise(query, rows, false).await {
                return Verdict::Differs(how);
            }
        }
        if matches!(pair.reading, Reading::CountOfTrue) {
            other = vec![other.iter().filter(|row| *row == "true").count().to_string()];
        }
        let (one, other) = (comparable(one, false), comparable(other, false));
        match one == other {
            true => Verdict::Agrees,
            false => Verdict::Differs(difference(&one, &other)),
        }
    }

    /// How a question is answered otherwise where it is asked again, which some are: prepared,
    /// over indexes, or both.
    async fn otherwise(
        &mut self,
        query: &str,
        rows: &[String],
        is_ordered: bool,
    ) -> Option<String> {
        if !self.random.one_in(ASKED_AGAIN) {
            return None;
        }
        let (how, base, prepares) = match self.random.below(3) {
            0 => ("prepared", &mut self.plain, true),
            1 => ("with indexes", &mut self.indexed, false),
            _ => ("prepared, with indexes", &mut self.indexed, true),
        };
        let answers = match prepares {
            true => base.prepared(query).await,
            false => base.rows(query).await.map(|rows| vec![rows]),
        };
        let differs = match answers {
            Ok(answers) => {
                let rows = comparable(rows.to_vec(), is_ordered);
                let mut answers = answers.into_iter().map(|rows| comparable(rows, is_ordered));
                difference(&rows, &answers.find(|answer| *answer != rows)?)
            }
            Err(error) if is_of_data(&error) || is_known(&error) => return None,
            Err(error) => format!("refused ({}): {error}", error.state().0),
        };
        Some(format!("asked again, {how}: {differs}\n{}{query};\n\nand first:", base.script()))
    }

    /// The statements that lead to some questions, to be run again.
    pub fn script(&self, questions: &[&String]) -> String {
        let mut script = self.plain.script();
        for question in questions {
            script.push_str(question);
            script.push_str(";\n");
        }
        script
    }
}

/// What the planner is known to refuse although it is right: unions that are sorted or whose
/// columns may be NULL in one part alone.
fn is_known(error: &Error) -> bool {
    let known = ["does not satisfy order requirements", "Physical input schema should be the same"];
    known.iter().any(|text| error.message().contains(text))
}

/// A value was out of range, divided by zero or the like: how much of a query is computed before
/// that is found is left to the database.
fn is_of_data(error: &Error) -> bool {
    error.state().0.starts_with("22")
}

/// Rows that may come in any order as ones that come in one.
fn comparable(mut rows: Vec<String>, is_ordered: bool) -> Vec<String> {
    if !is_ordered {
        rows.sort_unstable();
    }
    rows
}

fn difference(one: &[String], other: &[String]) -> String {
    let without = |rows: &[String], others: &[String]| {
        let mut left = rows.to_vec();
        for other in others {
            if let Some(place) = left.iter().position(|row| row == other) {
                left.swap_remove(place);
            }
        }
        left.truncate(8);
        left.join("\n    ")
    };
    format!(
        "{} and {} rows (if all are the same, their order differs)\n  \
         only the first has\n    {}\n  only the second has\n    {}",
        one.len(),
        other.len(),
        without(one, other),
        without(other, one),
    )
}

/// Both zeros are one value, and so are all NaN.
pub fn float_text(float: f64) -> String {
    if float.is_nan() { "NaN".to_owned() } else { (float + 0.0).to_string() }
}

/// The rows of a batch as texts.
fn texts(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default()
        .with_null("NULL")
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.6f"));
    let columns: Vec<ArrayFormatter<'_>> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    let text = |row: usize, place: usize| {
        let column = batch.column(place);
        let float = match column.data_type() {
            DataType::Float64 => column.as_primitive::<Float64Type>().value(row),
            DataType::Float32 => column.as_primitive::<Float32Type>().value(row).into(),
            _ => return columns[place].value(row).to_string(),
        };
        if column.is_null(row) { "NULL".to_owned() } else { float_text(float) }
    };
    let row = |row| {
        let values: Vec<String> = (0..columns.len()).map(|place| text(row, place)).collect();
        values.join(" | ")
    };
    (0..batch.num_rows()).map(row).collect()
}
