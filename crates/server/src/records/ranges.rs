//! Look-ups of key ranges. They run as queries, since the planner prunes chunks.
//!
//! A range that repeats with other values becomes a prepared statement, which an index answers
//! without a planner, or which uses the plan cache.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::ArrayRef;
use futures::StreamExt;
use prost::Message as _;
use thalweg_formats::rows::RowPacker;
use thalweg_protocol::v1;
use thalweg_protocol::v1::value::Kind;
use thalweg_query::{Outcome, Prepared, RecordTable, ScalarValue, Session};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::search::Telling;
use super::values::encode_values;

/// A requested range.
pub(super) struct Wanted {
    pub(super) table: Arc<RecordTable>,
    pub(super) range: v1::Range,
}

/// Statements of a stream's ranges by query text, with the bounds as parameters.
#[derive(Default)]
pub(super) struct Statements(VecDeque<Known>);

struct Known {
    table: Arc<RecordTable>,
    sql: String,
    /// `None` until the text occurs a second time.
    prepared: Option<Prepared>,
}

/// Maximum number of statements that a stream remembers; the oldest is dropped.
const KEPT_MAX: usize = 32;

/// Maximum rows, and bytes of rows, in one answer.
const ROWS: usize = 256;
const BYTES: usize = 64 << 10;

/// Sends the rows of a range, or the error of the look-up.
///
/// # Errors
/// If the client no longer reads answers.
pub(super) async fn answer(
    session: &mut Session,
    statements: &mut Statements,
    index: u64,
    wanted: Wanted,
    telling: &mut Telling<'_>,
) -> Result<()> {
    let run_result = match statements.run(session, &wanted).await {
        Ok(outcome) => tell_rows(outcome, index, &wanted, telling).await,
        Err(error) => Err(error),
    };
    match run_result {
        Ok(()) => telling.answers.pass(index),
        Err(error) => telling.answers.fail(index, &error),
    }
    telling.send().await
}

impl Statements {
    /// Runs the query of a range.
    async fn run(&mut self, session: &mut Session, wanted: &Wanted) -> Result<Outcome> {
        let bounds = Bounds::of(wanted)?;
        if let Some((types, values)) = bounds.bound(&wanted.table) {
            let places: Vec<String> = (1..=values.len()).map(|place| format!("${place}")).collect();
            let sql = query(wanted, &bounds, &places);
            if let Some(prepared) = self.known(session, &wanted.table, sql, &types).await? {
                let outcome = session.execute_prepared(&prepared, &values).await;
                if outcome.is_err() {
                    // The table may have changed, so all statements are prepared again.
                    self.0.clear();
                }
                return outcome;
            }
        }
        let literals = bounds.values().map(|(_, value)| literal(value));
        let literals = literals.collect::<Result<Vec<_>>>()?;
        session.execute(&query(wanted, &bounds, &literals)).await
    }

    /// The prepared statement of a text that occurred before; `None` at the first occurrence.
    async fn known(
        &mut self,
        session: &mut Session,
        table: &Arc<RecordTable>,
        sql: String,
        types: &[Option<DataType>],
    ) -> Result<Option<Prepared>> {
        let is_same = |known: &&mut Known| known.sql == sql && Arc::ptr_eq(&known.table, table);
        let Some(known) = self.0.iter_mut().find(is_same) else {
            if self.0.len() == KEPT_MAX {
                self.0.pop_front();
            }
            self.0.push_back(Known { table: Arc::clone(table), sql, prepared: None });
            return Ok(None);
        };
        if known.prepared.is_none() {
            known.prepared = Some(session.prepare(&known.sql, types).await?);
        }
        Ok(known.prepared.clone())
    }
}

async fn tell_rows(
    outcome: Outcome,
    index: u64,
    wanted: &Wanted,
    telling: &mut Telling<'_>,
) -> Result<()> {
    let Some(mut batches) = outcome.rows else { return Ok(()) };
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let columns = batch.columns();
        let mut packer = RowPacker::new(wanted.table.row().fields(), columns);
        let (mut found, mut bytes) = (v1::Found { index, ..v1::Found::default() }, 0);
        for row in 0..batch.num_rows() {
            bytes += add_row(&mut found, columns, row, &mut packer, wanted.range.as_values)?;
            let behind = row + 1;
            if bytes >= BYTES || behind.is_multiple_of(ROWS) || behind == batch.num_rows() {
                telling.answers.add(&found);
                telling.send_if_long().await?;
                (found, bytes) = (v1::Found { index, ..v1::Found::default() }, 0);
            }
        }
    }
    Ok(())
}

/// Appends a row to the answer and returns its size in bytes.
fn add_row(
    found: &mut v1::Found,
    columns: &[ArrayRef],
    row: usize,
    packer: &mut RowPacker<'_>,
    as_values: bool,
) -> Result<usize> {
    if as_values {
        let values = encode_values(columns, row)?;
        let bytes = values.encoded_len();
        found.values.push(values);
        return Ok(bytes);
    }
    let mut packed = Vec::new();
    packer.pack(row, &mut packed)?;
    let bytes = packed.len();
    found.packed.push(packed.into());
    Ok(bytes)
}

/// The bounds of a range.
struct Bounds<'a> {
    /// Values of the key's leading columns that are equal in both bounds.
    equal: &'a [v1::Value],
    /// The values of the following columns, for the lower and the upper bound.
    from: &'a [v1::Value],
    to: &'a [v1::Value],
}

impl<'a> Bounds<'a> {
    /// # Errors
    /// If a bound has more values than the key has columns, or contains NULL.
    fn of(wanted: &'a Wanted) -> Result<Bounds<'a>> {
        let columns = wanted.table.key().fields().len();
        let of = |bound: &'a Option<v1::Values>| match bound {
            Some(bound) => bound.values.as_slice(),
            None => &[],
        };
        let (from, to) = (of(&wanted.range.from), of(&wanted.range.to));
        for values in [from, to] {
            if values.len() > columns {
                let message = format!("a bound has {} values, the key has {columns}", values.len());
                return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
            }
            if values.iter().any(|value| value.kind.is_none()) {
                let message = "a bound of a range is NULL";
                return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
            }
        }
        let same = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        // The last value of each bound is kept: it decides about inclusion.
        let equal = same.min(from.len().min(to.len()).saturating_sub(1));
        Ok(Bounds { equal: &from[..equal], from: &from[equal..], to: &to[equal..] })
    }

    /// The values, each with the position of its column in the key.
    fn values(&self) -> impl Iterator<Item = (usize, &'a v1::Value)> {
        let next = self.equal.len();
        let behind = [self.from, self.to].into_iter().flat_map(move |values| {
            values.iter().enumerate().map(move |(place, value)| (next + place, value))
        });
        self.equal.iter().enumerate().chain(behind)
    }

    /// The values in their columns' types; `None` if one of them needs a conversion by SQL.
    fn bound(&self, table: &RecordTable) -> Option<(Vec<Option<DataType>>, Vec<ScalarValue>)> {
        let (mut types, mut values) = (Vec::new(), Vec::new());
        for (place, value) in self.values() {
            let (_, column) = table.schema().column_named(table.key().field(place).name())?;
            values.push(own_value(&column.data_type, value)?);
            types.push(Some(match &column.data_type {
                DataType::Text { .. } => DataType::Text { max_chars: None },
                other => other.clone(),
            }));
        }
        Some((types, values))
    }
}

/// A value in its column's type if that needs no parsing, else `None`.
fn own_value(column: &DataType, value: &v1::Value) -> Option<ScalarValue> {
    Some(match (value.kind.as_ref()?, column) {
        (Kind::Bool(value), DataType::Boolean) => ScalarValue::Boolean(Some(*value)),
        (Kind::Int(value), DataType::Int2) => ScalarValue::Int16(Some((*value).try_into().ok()?)),
        (Kind::Int(value), DataType::Int4) => ScalarValue::Int32(Some((*value).try_into().ok()?)),
        (Kind::Int(value), DataType::Int8) => ScalarValue::Int64(Some(*value)),
        (Kind::Float(value), DataType::Float8) => ScalarValue::Float64(Some(*value)),
        (Kind::Text(value), DataType::Text { .. }) => {
            crate::values::without_zero(value).ok()?;
            ScalarValue::Utf8View(Some(value.clone()))
        }
        (Kind::Bytes(value), DataType::Bytea) => ScalarValue::BinaryView(Some(value.to_vec())),
        _ => return None,
    })
}

/// The query of a range; `values` are the SQL expressions of the bounds' values.
fn query(wanted: &Wanted, bounds: &Bounds<'_>, values: &[String]) -> String {
    let (table, range) = (&wanted.table, &wanted.range);
    let key: Vec<String> = table.key().fields().iter().map(|field| quoted(field.name())).collect();
    let columns: Vec<String> =
        table.row().fields().iter().map(|field| quoted(field.name())).collect();
    let schema = table.schema();
    let mut sql = format!(
        "SELECT {} FROM {}.{}",
        columns.join(", "),
        quoted(&schema.namespace),
        quoted(&schema.name)
    );
    let (equal, behind) = values.split_at(bounds.equal.len());
    let (from, to) = behind.split_at(bounds.from.len());
    let equals = key.iter().zip(equal).map(|(column, value)| format!("{column} = {value}"));
    let mut conditions: Vec<String> = equals.collect();
    for (values, comparison, excluded) in
        [(from, ">", range.from_excluded), (to, "<", range.to_excluded)]
    {
        if !values.is_empty() {
            conditions.push(condition(&key[equal.len()..], values, comparison, excluded));
        }
    }
    if !conditions.is_empty() {
        let _ = write!(sql, " WHERE {}", conditions.join(" AND "));
    }
    let direction = if range.descending { " DESC" } else { "" };
    let order: Vec<String> = key.iter().map(|column| format!("{column}{direction}")).collect();
    let _ = write!(sql, " ORDER BY {}", order.join(", "));
    if range.limit > 0 {
        let _ = write!(sql, " LIMIT {}", range.limit.min(i64::MAX as u64));
    }
    sql
}

/// A condition that compares keys with a bound in lexicographic order: `a > 1 OR (a = 1 AND b >=
/// 2)`.
fn condition(key: &[String], values: &[String], comparison: &str, excluded: bool) -> String {
    let (mut cases, mut equal) = (Vec::new(), String::new());
    for (place, (column, value)) in key.iter().zip(values).enumerate() {
        let last = place + 1 == values.len();
        let or_equal = if last && !excluded { "=" } else { "" };
        if values.len() == 1 {
            return format!("{column} {comparison}{or_equal} {value}");
        }
        cases.push(format!("({equal}{column} {comparison}{or_equal} {value})"));
        let _ = write!(equal, "{column} = {value} AND ");
    }
    // A separate condition on the first column lets the scan prune chunks.
    let (column, value) = (&key[0], &values[0]);
    format!("({column} {comparison}= {value} AND ({}))", cases.join(" OR "))
}

/// A value as an SQL literal.
fn literal(value: &v1::Value) -> Result<String> {
    Ok(match &value.kind {
        Some(Kind::Bool(value)) => value.to_string(),
        Some(Kind::Int(value)) => value.to_string(),
        Some(Kind::Float(value)) => format!("'{value}'::double precision"),
        Some(Kind::Text(value)) => {
            crate::values::without_zero(value)?;
            format!("'{}'", value.replace('\'', "''"))
        }
        Some(Kind::Bytes(value)) => {
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("'\\x{digits}'::bytea")
        }
        None => {
            let message = "a bound of a range is NULL";
            return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
        }
    })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
