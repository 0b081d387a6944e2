//! The database that is asked, and how two answers are compared.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use thalweg_query::{Database, Session};
use thalweg_types::Error;

use super::duckdb::{DuckDb, in_our_words};
use super::questions::Question;

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

/// A database, and what was done to it.
pub struct Subject {
    session: Session,
    duckdb: Option<DuckDb>,
    done: Vec<String>,
}

impl Subject {
    /// A new database, and DuckDB where it is there.
    pub fn new(duckdb: Option<DuckDb>) -> Subject {
        let database = Database::builder().threads(2).open().unwrap();
        Subject { session: database.session(), duckdb, done: Vec::new() }
    }

    /// DuckDB, for others to use.
    pub fn end(self) -> Option<DuckDb> {
        self.duckdb
    }

    pub async fn done(&mut self, statement: &str) {
        if let Err(error) = self.session.execute(statement).await {
            panic!("{statement}\n{error}");
        }
        if let Some(duckdb) = &mut self.duckdb {
            duckdb.done(statement);
        }
        self.done.push(statement.to_owned());
    }

    /// Whether a question is answered, and as DuckDB does where it is there.
    pub async fn compare_with_duckdb(&mut self, question: &Question) -> Verdict {
        let Question { sql: query, is_ordered } = question;
        let batches = match self.batches(query).await {
            Ok(batches) => batches,
            Err(error) if is_of_data(&error) || is_known(&error) => return Verdict::Refused,
            Err(error) => {
                return Verdict::Differs(format!("refused ({}): {error}", error.state().0));
            }
        };
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
        let mut theirs: Vec<String> = theirs.iter().map(row).collect();
        let mut ours: Vec<String> = batches.iter().flat_map(texts).collect();
        if !is_ordered {
            ours.sort_unstable();
            theirs.sort_unstable();
        }
        match ours == theirs {
            true => Verdict::Agrees,
            false => Verdict::Differs(difference(&ours, &theirs)),
        }
    }

    pub async fn compare(&mut self, pair: &Pair) -> Verdict {
        let (one, other) = (self.ask(&pair.one).await, self.ask(&pair.other).await);
        let (mut one, mut other) = match (one, other) {
            (Ok(one), Ok(other)) => (one, other),
            (Err(error), _) | (_, Err(error)) if is_of_data(&error) => return Verdict::Refused,
            (Err(error), _) | (_, Err(error)) => {
                return Verdict::Differs(format!("refused ({}): {error}", error.state().0));
            }
        };
        if matches!(pair.reading, Reading::CountOfTrue) {
            other = vec![other.iter().filter(|row| *row == "true").count().to_string()];
        }
        one.sort_unstable();
        other.sort_unstable();
        match one == other {
            true => Verdict::Agrees,
            false => Verdict::Differs(difference(&one, &other)),
        }
    }

    async fn ask(&mut self, query: &str) -> Result<Vec<String>, Error> {
        Ok(self.batches(query).await?.iter().flat_map(texts).collect())
    }

    async fn batches(&mut self, query: &str) -> Result<Vec<RecordBatch>, Error> {
        let outcome = self.session.execute(query).await?;
        let mut rows = outcome.rows.expect("a query gives rows");
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }

    /// The statements that lead to some questions, to be run again.
    pub fn told(&self, questions: &[&String]) -> String {
        let mut told = String::new();
        for statement in self.done.iter().chain(questions.iter().copied()) {
            told.push_str(statement);
            told.push_str(";\n");
        }
        told
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
