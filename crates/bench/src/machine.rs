//! The machine of a run, and the memory and disk space in use.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use thalweg_env::{Clock, RealClock};
use thalweg_types::{Error, Result};

use crate::errors::while_doing;

/// A description of the machine: processor, cores, memory, system.
pub fn description() -> String {
    let field = |file: &str, name: &str| -> Option<String> {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|size| size.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(String::new, |kib| format!(", {:.0} GiB", kib / 1024.0 / 1024.0));
    format!("{processor}, {} cores{memory}, {}", cores(), std::env::consts::OS)
}

/// Average number of runnable processes in the last minute, if the system reports it.
pub fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Number of cores that this process may use, at least 1.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Today, as `2013-01-31`.
pub fn today() -> String {
    let now = RealClock::new().now_micros();
    arrow::temporal_conversions::timestamp_us_to_datetime(now)
        .map_or_else(String::new, |now| now.format("%Y-%m-%d").to_string())
}

/// Resident memory of this process in bytes, measured after freed memory had time to be returned.
pub fn resident_bytes() -> Result<u64> {
    resident_bytes_of(std::process::id())
}

/// Like [`resident_bytes`], for another process.
pub fn resident_bytes_of(process: u32) -> Result<u64> {
    RealClock::new().sleep(Duration::from_millis(1500));
    status_bytes(process, "VmRSS:")
}

/// The peak of a process's resident memory since [`forget_peak_of`] was called for it.
pub fn peak_bytes_of(process: u32) -> Result<u64> {
    status_bytes(process, "VmHWM:")
}

/// Resets the peak of a process's resident memory, which [`peak_bytes_of`] reads.
#[expect(clippy::disallowed_methods, reason = "the kernel's switch, not a file")]
pub fn forget_peak_of(process: u32) -> Result<()> {
    let switch = format!("/proc/{process}/clear_refs");
    std::fs::write(&switch, "5").map_err(while_doing(switch))
}

/// The resident memory of a process in bytes, the base of [`raised`].
pub fn rest_of(process: u32) -> Result<u64> {
    let rest = resident_bytes_of(process)?;
    forget_peak_of(process)?;
    Ok(rest)
}

/// Mebibytes by which a process's resident memory exceeded its base at the peak.
pub fn raised(process: u32, rest: u64) -> Result<f64> {
    Ok(peak_bytes_of(process)?.saturating_sub(rest) as f64 / f64::from(1 << 20))
}

/// Pins a process, and its later children, to one core.
pub fn pin(process: u32, core: usize) -> Result<()> {
    let process = process.to_string();
    let output = Command::new("taskset")
        .args(["-a", "-c", "-p", &core.to_string(), &process])
        .output()
        .map_err(while_doing("taskset"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::internal(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

fn status_bytes(process: u32, line: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).map_err(while_doing(path))?;
    let kib = status
        .lines()
        .find_map(|text| text.strip_prefix(line))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or_default();
    Ok(kib * 1024)
}

/// Run time of a process's threads so far, in seconds, without threads that have ended.
pub fn thread_seconds_of(process: u32) -> Result<f64> {
    let threads = format!("/proc/{process}/task");
    let mut nanoseconds = 0.0;
    for thread in std::fs::read_dir(&threads).map_err(while_doing(threads))?.flatten() {
        // A thread that has just ended has no statistics.
        let told = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let ran = told.split(' ').next().and_then(|ran| ran.parse::<f64>().ok());
        nanoseconds += ran.unwrap_or_default();
    }
    Ok(nanoseconds / 1e9)
}

/// The maximum number of open files and sockets of this process.
pub fn open_files_allowed() -> Result<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits")
        .map_err(while_doing("reading the limit of open files"))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()).unwrap_or_default();
    // Without a limit, the kernel writes "unlimited".
    Ok(soft.parse().unwrap_or(usize::MAX))
}

/// True if this process runs as root, which servers such as PostgreSQL refuse.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// The bytes of all files below a directory.
pub fn directory_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in files_below(directory)? {
        let metadata = path.metadata().map_err(while_doing(path.display()))?;
        bytes += metadata.len();
    }
    Ok(bytes)
}

/// All files below a directory.
pub fn files_below(directory: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).map_err(while_doing(directory.display()))?;
        for entry in entries {
            let path = entry.map_err(while_doing(directory.display()))?.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                files.push(path);
            }
        }
    }
    Ok(files)
}
