//! Runs workloads: one in this process, or each in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use thalweg_types::{Error, Result};

use crate::context::Context;
use crate::errors::while_doing;
use crate::finding::Findings;
use crate::machine;
use crate::report::{self, Report, Section};
use crate::workloads::{WORKLOADS, Workload};

/// What the command line says about a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The scale of the TPC-H data; 1 is six million line items.
    pub scale: f64,
    /// How often each thing is measured.
    pub repetitions: usize,
    /// Rows that the mixed load finds.
    pub records: u64,
    /// What a name must hold to be measured, of workloads that measure several things.
    pub only: Option<String>,
    /// The core that servers have for themselves in some workloads.
    pub server_core: usize,
    /// Whether anything is put beside ours.
    pub peers: bool,
    /// The Python that has the peers' modules, unless `python3` on the path does.
    pub python: Option<PathBuf>,
    /// The program whose `serve` is measured.
    pub server: PathBuf,
    /// Where generated data and intermediate findings are kept.
    pub cache: PathBuf,
}

/// Runs one workload here, prints what it found and keeps it in the cache.
pub async fn run(workload: &Workload, options: &Options) -> Result<Findings> {
    println!("{}: {}", workload.name, workload.about);
    let context = Context::new(options)?;
    let findings = (workload.run)(&context).await?;
    println!("\n{}", report::table(&findings.findings));
    let path = kept(workload, options);
    let json = serde_json::to_vec_pretty(&findings).map_err(while_doing(path.display()))?;
    write(&path, &json)?;
    Ok(findings)
}

/// Runs every workload, each in a process of its own so that none inherits another's memory, and
/// writes the report.
///
/// `program` runs one workload when it is called with the arguments that `arguments` gives.
pub fn run_all(
    options: &Options,
    program: &Path,
    arguments: impl Fn(&Workload) -> Vec<String>,
    directory: &Path,
) -> Result<()> {
    // A busy machine explains a wide spread, so the report tells how busy it was before the run.
    let load = machine::load().map_or_else(String::new, |load| format!(", load {load:.1}"));
    let mut sections = Vec::new();
    for workload in &WORKLOADS {
        let status = Command::new(program)
            .args(arguments(workload))
            .status()
            .map_err(while_doing(program.display()))?;
        if !status.success() {
            return Err(Error::internal(format!("the workload {} failed", workload.name)));
        }
        let path = kept(workload, options);
        let json = std::fs::read_to_string(&path).map_err(while_doing(path.display()))?;
        let findings = serde_json::from_str(&json).map_err(while_doing(path.display()))?;
        sections.push(Section { name: workload.name, about: workload.about, findings });
    }
    let machine = machine::description() + &load;
    let report = Report { machine, date: machine::today(), sections };
    let (results, pages) = (directory.join("RESULTS.md"), directory.join("report.html"));
    write(&results, report.markdown().as_bytes())?;
    write(&pages, report.html().as_bytes())?;
    println!("wrote {} and {}", results.display(), pages.display());
    Ok(())
}

/// Where a workload's findings are kept between processes.
fn kept(workload: &Workload, options: &Options) -> PathBuf {
    options.cache.join("findings").join(format!("{}.json", workload.name))
}

#[expect(clippy::disallowed_methods, reason = "a report, not a database's file")]
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(while_doing(directory.display()))?;
    }
    std::fs::write(path, bytes).map_err(while_doing(path.display()))
}
