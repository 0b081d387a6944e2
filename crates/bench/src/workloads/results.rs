//! Large results: their rate at ordinary clients, and their cost for the server.

mod first_row;
mod lineitem;
mod memory;

use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::finding::Findings;

pub(super) use memory::{SLOWLY, resting, slow_reader};

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "results",
    about: "rows of large results through each front end, beside PostgreSQL",
    run: |context| Box::pin(run(context)),
};

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    lineitem::measure(context, &mut findings).await?;
    first_row::measure(context, &mut findings).await?;
    memory::measure(context, &mut findings).await?;
    Ok(findings)
}

/// Rows that are generated while they are sent: `integer`, `bigint`, `double precision`, `text` and
/// `date`.
fn made_up(rows: u64) -> String {
    format!(
        "SELECT i AS number, i::bigint * 7919 AS product, i * 0.5::double precision AS half, \
         'row-' || i AS name, date '2020-01-01' + i % 1000 AS day \
         FROM generate_series(1, {rows}) AS series(i)"
    )
}

/// A number of rows at this run's scale, and its name.
fn at_scale(context: &Context, millions: f64) -> (u64, String) {
    let millions = millions * context.scale.min(1.0);
    ((millions * 1e6) as u64, format!("{millions} million rows"))
}
