//! Look-ups of a range of keys. They are queries: the planner knows which chunks to pass over.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::ArrayRef;
use futures::StreamExt;
use prost::Message as _;
use thalweg_formats::rows::RowPacker;
use thalweg_protocol::v1;
use thalweg_protocol::v1::value::Kind;
use thalweg_query::{RecordTable, Session};
use thalweg_types::{Error, Result, SqlState};

use super::search::Telling;
use super::values::told;

/// A range that is to be looked up.
pub(super) struct Wanted {
    pub(super) table: Arc<RecordTable>,
    pub(super) range: v1::Range,
}

/// Rows, and bytes of rows, that are told together.
const ROWS: usize = 256;
const BYTES: usize = 64 << 10;

/// Tells the rows of a range, or why they can't be told.
///
/// # Errors
/// Where nobody reads the answers any more.
pub(super) async fn answer(
    session: &mut Session,
    index: u64,
    wanted: Wanted,
    telling: &mut Telling<'_>,
) -> Result<()> {
    let told = match query(&wanted) {
        Ok(sql) => tell_rows(session, &sql, index, &wanted, telling).await,
        Err(error) => Err(error),
    };
    match told {
        Ok(()) => telling.answers.pass(index),
        Err(error) => telling.answers.fail(index, &error),
    }
    telling.send().await
}

async fn tell_rows(
    session: &mut Session,
    sql: &str,
    index: u64,
    wanted: &Wanted,
    telling: &mut Telling<'_>,
) -> Result<()> {
    let outcome = session.execute(sql).await?;
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

/// Adds a row to those that were found; returns how many bytes it has.
fn add_row(
    found: &mut v1::Found,
    columns: &[ArrayRef],
    row: usize,
    packer: &mut RowPacker<'_>,
    as_values: bool,
) -> Result<usize> {
    if as_values {
        let values = told(columns, row)?;
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
