//! Counters of the kernel: processor time and system calls; and the latency of a disk.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thalweg_env::{Clock, RealClock};
use thalweg_types::Result;

use crate::errors::while_doing;

/// The processor time of a process and its descendants, in seconds.
pub fn cpu_seconds_of(process: u32) -> Result<f64> {
    let mut ticks = 0.0;
    for member in members(process)? {
        // The kernel adds the time of a process that has ended to its parent's.
        let fields = stat(member).unwrap_or_default();
        let used = fields.iter().skip(11).take(4);
        ticks += used.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>();
    }
    // The kernel reports hundredths of a second, whatever its own clock.
    Ok(ticks / 100.0)
}

/// A process and its descendants.
fn members(process: u32) -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc").map_err(while_doing("/proc"))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let parents: Vec<(u32, u32)> = names
        .filter_map(|name| name.parse().ok())
        .filter_map(|member| Some((member, stat(member)?.get(1)?.parse().ok()?)))
        .collect();
    let mut members = vec![process];
    let mut looked = 0;
    while let Some(parent) = members.get(looked).copied() {
        looked += 1;
        members.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(member, _)| member));
    }
    Ok(members)
}

/// The fields of the kernel's `stat` after the process's name, which may contain any character.
fn stat(process: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// System calls of a process and the descendants that it has so far, counted by `perf`.
pub struct SystemCalls {
    perf: Child,
    told: PathBuf,
}

/// Counted system calls of a process and its descendants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calls {
    pub all: f64,
    /// The calls among them that made a file durable.
    pub syncs: f64,
}

const ALL: &str = "raw_syscalls:sys_enter";
const SYNCS: [&str; 2] = ["syscalls:sys_enter_fdatasync", "syscalls:sys_enter_fsync"];
/// Time for a server to start a process for each new client, and for `perf` to attach.
const SETTLED: Duration = Duration::from_millis(200);
const ATTACHED: Duration = Duration::from_millis(500);

impl SystemCalls {
    /// Starts counting; `None` if `perf` is missing or not permitted.
    pub fn count(process: u32, scratch: &Path) -> Result<Option<SystemCalls>> {
        let clock = RealClock::new();
        clock.sleep(SETTLED);
        let told = scratch.join("perf.txt");
        let of: Vec<String> = members(process)?.iter().map(u32::to_string).collect();
        let started = Command::new("perf")
            .args(["stat", "-x,", "-e", &[ALL, SYNCS[0], SYNCS[1]].join(","), "-p", &of.join(",")])
            .arg("-o")
            .arg(&told)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut perf) = started else { return Ok(None) };
        clock.sleep(ATTACHED);
        let ended = perf.try_wait().map_err(while_doing("perf"))?.is_some();
        Ok((!ended).then_some(SystemCalls { perf, told }))
    }

    /// Stops counting and returns the counts.
    pub fn counted(mut self) -> Result<Calls> {
        let process = self.perf.id().to_string();
        Command::new("kill").args(["-INT", &process]).status().map_err(while_doing("kill"))?;
        self.perf.wait().map_err(while_doing("perf"))?;
        let told = std::fs::read_to_string(&self.told).map_err(while_doing("perf's counts"))?;
        Ok(read(&told))
    }
}

fn read(told: &str) -> Calls {
    let counted = |event: &str| {
        let line = told.lines().find(|line| line.split(',').nth(2) == Some(event));
        line.and_then(|line| line.split(',').next()?.parse::<f64>().ok()).unwrap_or_default()
    };
    Calls { all: counted(ALL), syncs: SYNCS.iter().map(|event| counted(event)).sum() }
}

/// The sorted times of writes of a few bytes into a file of fixed length, each with its
/// `fdatasync`: a lower bound for a durable write on the disk of a directory.
pub fn bare_syncs(directory: &Path, writes: u64) -> Result<Vec<f64>> {
    const BYTES: u64 = 512;
    let path = directory.join("bare");
    let failed = || path.display().to_string();
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).open(&path);
    let file = file.map_err(while_doing(failed()))?;
    let zeros = vec![0; (writes * BYTES) as usize];
    file.write_all_at(&zeros, 0).and_then(|()| file.sync_all()).map_err(while_doing(failed()))?;
    let clock = RealClock::new();
    let mut taken = Vec::new();
    for number in 0..writes {
        let began = clock.monotonic();
        let written = file.write_all_at(&[1; BYTES as usize], number * BYTES);
        written.and_then(|()| file.sync_data()).map_err(while_doing(failed()))?;
        taken.push((clock.monotonic() - began).as_secs_f64());
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken)
}

/// The value below which a share of sorted values lies.
///
/// # Panics
/// If there are no values.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_their_events() {
        let told = "# started\n\n\
            1200,,raw_syscalls:sys_enter,921861,100.00,,\n\
            7,,syscalls:sys_enter_fdatasync,921861,100.00,,\n\
            <not counted>,,syscalls:sys_enter_fsync,0,0.00,,\n";
        assert_eq!(read(told), Calls { all: 1200.0, syncs: 7.0 });
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let sorted: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!((percentile(&sorted, 0.5), percentile(&sorted, 0.999)), (50.0, 99.0));
    }
}
