//! Large results: how fast their rows reach ordinary clients, and what they cost the server.

mod lineitem;

use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::finding::Findings;

pub const WORKLOAD: Workload = Workload {
    name: "results",
    about: "rows of large results through each front end, beside PostgreSQL",
    run: |context| Box::pin(run(context)),
};

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    lineitem::measure(context, &mut findings).await?;
    Ok(findings)
}
