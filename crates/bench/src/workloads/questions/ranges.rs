//! Ten consecutive rows that an index finds.

use thalweg_query::{ScalarValue, Session};
use thalweg_types::Result;

use super::asked;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit};
use crate::peers::execute;

/// Queries of the million `orders`, by a key and by a column with many equal values.
const BY_KEY: &str = "SELECT id, price FROM orders WHERE id >= $1 AND id < 500010";
const BY_CUSTOMER: &str =
    "SELECT id, price FROM orders WHERE customer = 7 AND price >= $1 ORDER BY price LIMIT 10";

pub(super) async fn short(
    context: &Context,
    session: &mut Session,
    repetitions: usize,
    findings: &mut Findings,
) -> Result<()> {
    let from_key = ScalarValue::Int64(Some(500_000));
    let from_price = ScalarValue::Float64(Some(250_000.0));
    for (index, sql, from) in [
        ("CREATE INDEX ON orders (id)", BY_KEY, from_key),
        ("CREATE INDEX ON orders (customer, price)", BY_CUSTOMER, from_price),
    ] {
        execute(session, index).await?;
        let prepared = session.prepare(sql, &[]).await?;
        let samples = asked(context, session, &prepared, &[from], repetitions).await?;
        println!("  {sql}, 10 rows: {:.2} µs", samples.median() * 1e6);
        let work = format!("{sql}: 10 of a million rows, prepared");
        findings.push(Finding::new(work, Unit::Seconds, samples));
    }
    Ok(())
}
