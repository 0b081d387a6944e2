//! Memory of the TPC-H tables, beside the same rows as plain Arrow.

use thalweg_query::Database;
use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::data::TpchFiles;
use crate::errors::while_doing;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::load;
use crate::samples::Samples;
use crate::tpch::TABLES;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "memory",
    about: "memory held by the TPC-H tables, beside plain Arrow",
    run: |context| Box::pin(run(context)),
};

const MEGABYTE: f64 = 1e6;

async fn run(context: &Context) -> Result<Findings> {
    let files = context.tpch()?;
    let database = Database::in_memory()?;
    let mut session = database.session();
    let before = machine::resident_bytes()?;
    for table in &TABLES {
        load(&mut session, &files, table).await?;
    }
    let ours = machine::resident_bytes()?.saturating_sub(before) as f64 / MEGABYTE;
    let counted = database.size().0 as f64 / MEGABYTE;
    let mut plain = 0;
    for table in &TABLES {
        plain += plain_bytes(&files, table.name)?;
    }
    let plain = Samples::from(plain as f64 / MEGABYTE);
    let work = format!("eight tables with keys, scale {}", context.scale);
    let mut findings = Findings::default();
    findings.push(
        Finding::new(&work, Unit::Megabytes, ours)
            .beside("plain Arrow", plain.clone())
            .wanted(Wanted::RatioAtMost(1.15))
            .noted(
                "Ours is what the process grew by in RAM, key indexes and the allocator's slack \
             included; plain Arrow is the bytes of its buffers alone (text as Utf8).",
            ),
    );
    findings.push(
        Finding::new("the same as the tables count it", Unit::Megabytes, counted)
            .beside("plain Arrow", plain),
    );
    drop(session);
    database.close()?;
    Ok(findings)
}

/// The bytes of a table's buffers as plain Arrow, without the slack of any allocation.
fn plain_bytes(files: &TpchFiles, table: &str) -> Result<usize> {
    let mut bytes = 0;
    for batch in files.read(table)? {
        let batch = batch.map_err(while_doing(table))?;
        for column in batch.columns() {
            bytes += column.to_data().get_slice_memory_size().map_err(while_doing(table))?;
        }
    }
    Ok(bytes)
}
