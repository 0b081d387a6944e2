//! Look-ups of a range of keys. They are queries: the planner knows which chunks to pass over.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use thalweg_formats::rows::RowPacker;
use thalweg_protocol::v1;
use thalweg_protocol::v1::value::Kind;
use thalweg_query::{RecordTable, Session};
use thalweg_types::{Error, Result, SqlState};

use super::search::{Answers, send};
use super::values::told;
use crate::pump::Pieces;

/// A range that is to be looked up.
pub(super) struct Wanted {
    pub(super) table: Arc<RecordTable>,
    pub(super) range: v1::Range,
}

/// Rows that are told together.
const ROWS: usize = 256;

/// Tells the rows of a range, or why they can't be told.
///
/// # Errors
/// Where nobody reads the answers any more.
pub(super) async fn answer(
    session: &mut Session,
    index: u64,
    wanted: Wanted,
    answers: &mut Answers,
    pieces: &Pieces<Bytes>,
) -> Result<()> {
    let told = match query(&wanted) {
        Ok(sql) => tell_rows(session, &sql, index, &wanted, answers, pieces).await,
        Err(error) => Err(error),
    };
    match told {
        Ok(()) => answers.pass(index),
        Err(error) => answers.fail(index, &error),
    }
    send(answers, pieces).await
}

async fn tell_rows(
    session: &mut Session,
    sql: &str,
    index: u64,
    wanted: &Wanted,
    answers: &mut Answers,
    pieces: &Pieces<Bytes>,
) -> Result<()> {
    let outcome = session.execute(sql).await?;
    let Some(mut batches) = outcome.rows else { return Ok(()) };
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let columns = batch.columns();
        let mut packer = RowPacker::new(wanted.table.row().fields(), columns);
        for first in (0..batch.num_rows()).step_by(ROWS) {
            let mut found = v1::Found { index, ..v1::Found::default() };
            for row in first..batch.num_rows().min(first + ROWS) {
                if wanted.range.as_values {
                    found.values.push(told(columns, row)?);
                } else {
                    let mut packed = Vec::new();
                    packer.pack(row, &mut packed)?;
                    found.packed.push(packed.into());
                }
            }
            answers.add(&found);
            if answers.is_long() {
                send(answers, pieces).await?;
            }
        }
    }
    Ok(())
}

/// # Errors
/// Where a bound has more values than the key, or one that is NULL.
fn query(wanted: &Wanted) -> Result<String> {
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
    let bounds = [(&range.from, ">", range.from_excluded), (&range.to, "<", range.to_excluded)];
    let mut conditions = Vec::new();
    for (bound, comparison, excluded) in bounds {
        let values = bound.as_ref().map_or(&[][..], |bound| &bound.values);
        if !values.is_empty() {
            conditions.push(condition(&key, values, comparison, excluded)?);
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
    Ok(sql)
}

/// Whether a key is beyond a bound: `a > 1 OR (a = 1 AND b >= 2)`.
fn condition(
    key: &[String],
    values: &[v1::Value],
    comparison: &str,
    excluded: bool,
) -> Result<String> {
    if values.len() > key.len() {
        let message = format!("a bound has {} values, the key has {}", values.len(), key.len());
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    let values = values.iter().map(literal).collect::<Result<Vec<_>>>()?;
    let (mut cases, mut equal) = (Vec::new(), String::new());
    for (place, (column, value)) in key.iter().zip(&values).enumerate() {
        let last = place + 1 == values.len();
        let or_equal = if last && !excluded { "=" } else { "" };
        cases.push(format!("({equal}{column} {comparison}{or_equal} {value})"));
        let _ = write!(equal, "{column} = {value} AND ");
    }
    // The first column alone tells which chunks to pass over.
    let (column, value) = (&key[0], &values[0]);
    Ok(format!("({column} {comparison}= {value} AND ({}))", cases.join(" OR ")))
}

/// A value as SQL writes it.
fn literal(value: &v1::Value) -> Result<String> {
    Ok(match &value.kind {
        Some(Kind::Bool(value)) => value.to_string(),
        Some(Kind::Int(value)) => value.to_string(),
        Some(Kind::Float(value)) => format!("'{value}'::double precision"),
        Some(Kind::Text(value)) => {
            crate::texts::without_zero(value)?;
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
