//! `thalweg check`: reads every byte of a database that is not in use, and reports damage.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use thalweg::Error;
use thalweg_env::Env;
use thalweg_log::{Finding, Summary, verify};

use crate::exit::Exit;
use crate::print::error::{ErrorStyle, render};
use crate::report;

const EXAMPLES: &str = "\
Examples:
  thalweg check ./market
  thalweg check --quiet ./market || echo damaged

Nothing is changed. A write that a crash tore at the end of the log is no damage: it was never
acknowledged. Exit status: 0 sound, 3 the directory could not be read or is in use, 4 damage.";

/// Looks for damage in a database's files
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Reports damage only
    #[arg(short, long)]
    quiet: bool,
}

/// Runs `thalweg check`: prints each finding as it is found, then a summary.
pub fn run(arguments: &CheckArguments) -> Exit {
    let mut out = io::stdout().lock();
    let mut written = Ok(());
    let result = verify(&Env::real(), &arguments.directory, &mut |finding| {
        if written.is_ok() {
            written = tell(&finding, arguments, &mut out);
        }
    });
    let summary = match result {
        Ok(summary) => summary,
        Err(error) => return report::not_opened(&error),
    };
    if !arguments.quiet {
        written = written
            .and_then(|()| write!(out, "{}{}", access(&arguments.directory), sum_up(&summary)));
    }
    match written.and_then(|()| out.flush()) {
        _ if summary.problems > 0 => Exit::Damaged,
        Ok(()) => Exit::Success,
        Err(_) => Exit::OutputClosed,
    }
}

fn tell(finding: &Finding, arguments: &CheckArguments, out: &mut dyn Write) -> io::Result<()> {
    let name = |path: &Path| {
        let short = path.strip_prefix(&arguments.directory).unwrap_or(path);
        short.display().to_string()
    };
    match finding {
        Finding::Problem(error) => write!(out, "{}", problem(error)),
        _ if arguments.quiet => Ok(()),
        Finding::Checkpoint { path, lsn, bytes, sections } => {
            let (name, size) = (name(path), size(*bytes));
            writeln!(out, "{name}: sound, up to group {lsn}, {sections} sections, {size}")
        }
        Finding::Chunks { path, bytes, sections } => {
            let (name, size) = (name(path), size(*bytes));
            writeln!(out, "{name}: sound, {sections} sections, {size}")
        }
        Finding::Segment { path, bytes, records, lsns } => {
            let groups = match lsns {
                Some((first, last)) => format!("groups {first} to {last}"),
                None => "empty".to_owned(),
            };
            let (name, size) = (name(path), size(*bytes));
            writeln!(out, "{name}: {records} records, {groups}, {size}")
        }
        Finding::Superfluous { path } => {
            let name = name(path);
            writeln!(out, "{name}: not needed beside the checkpoint, the next start removes it")
        }
        Finding::TornTail { path, offset, bytes } => writeln!(
            out,
            "{}: a torn write of {} at offset {offset}, which the next start cuts away",
            name(path),
            size(*bytes)
        ),
    }
}

fn problem(error: &Error) -> String {
    let message = render(error, None, None, ErrorStyle::default());
    message.replacen("ERROR:", "DAMAGE:", 1)
}

/// A warning if users other than the owner may read the files; empty otherwise.
fn access(directory: &Path) -> String {
    thalweg_env::open_to_others(directory).map_or_else(String::new, |(mode, count)| {
        let name = directory.display();
        format!(
            "\nWARNING: other users of this machine may read {name} (mode {mode:o}; {count} files \
             and directories).\nHINT: chmod -R go= {name}\n"
        )
    })
}

fn sum_up(summary: &Summary) -> String {
    let verdict = match summary.problems {
        0 => "No damage.".to_owned(),
        1 => "1 problem: see above.".to_owned(),
        more => format!("{more} problems: see above."),
    };
    let close = if summary.clean_close { "closed cleanly" } else { "not closed cleanly" };
    format!(
        "\n{} files, {} records, {}; {close}.\n{verdict}\n",
        summary.files,
        summary.records,
        size(summary.bytes)
    )
}

fn size(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}
