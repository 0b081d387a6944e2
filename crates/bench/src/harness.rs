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

/// Options of a run, from the command line.
#[derive(Clone, Debug)]
pub struct Options {
    /// The scale of the TPC-H data; 1 is six million line items.
    pub scale: f64,
    /// Number of measurements of each thing.
    pub repetitions: usize,
    /// Rows in the table when the mixed load starts.
    pub records: u64,
    /// Text that names must contain to be measured, in workloads that measure several things.
    pub only: Option<String>,
    /// The core reserved for servers in some workloads.
    pub server_core: usize,
    /// True if peers are measured too.
    pub peers: bool,
    /// The Python that has the peers' modules, unless `python3` on the path does.
    pub python: Option<PathBuf>,
    /// The program whose `serve` is measured.
    pub server: PathBuf,
    /// Directory of generated data and intermediate findings.
    pub cache: PathBuf,
}

/// Runs one workload here, prints its findings and stores them in the cache.
pub async fn run(workload: &Workload, options: &Options) -> Result<Findings> {
    println!("{}: {}", workload.name, workload.about);
    let context = Context::new(options)?;
    let findings = (workload.run)(&context).await?;
    println!("\n{}", report::table(&findings.findings));
    let path = findings_file(workload, options);
    let json = serde_json::to_vec_pretty(&findings).map_err(while_doing(path.display()))?;
    write(&path, &json)?;
    Ok(findings)
}

/// Runs every workload in a process of its own, so that none inherits another's memory, and writes
/// the report.
///
/// `program` runs one workload if called with the arguments that `arguments` returns.
pub fn run_all(
    options: &Options,
    program: &Path,
    arguments: impl Fn(&Workload) -> Vec<String>,
    directory: &Path,
) -> Result<()> {
    // A busy machine explains a wide spread, so the report shows the load before the run.
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
        let path = findings_file(workload, options);
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

/// File of a workload's findings, which passes them between processes.
fn findings_file(workload: &Workload, options: &Options) -> PathBuf {
    options.cache.join("findings").join(format!("{}.json", workload.name))
}

#[expect(clippy::disallowed_methods, reason = "a report, not a database's file")]
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(while_doing(directory.display()))?;
    }
    std::fs::write(path, bytes).map_err(while_doing(path.display()))
}
