//! The process's memory: its use and limit, and returning freed memory to the system.

use std::path::Path;
use std::sync::OnceLock;

use crate::control_groups;

/// Queries and operations on the process's memory beyond allocation.
pub trait Memory: Send + Sync {
    /// Returns freed memory to the system. Allocators keep it for a while in case it is needed
    /// again, and many release it only during a later call, which never happens in an idle process.
    fn give_back(&self);

    /// The process's private memory in bytes, as the system counts it; `None` if it does not report
    /// it.
    fn used_bytes(&self) -> Option<u64> {
        None
    }
}

/// The allocator of this process.
pub struct RealMemory;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

impl RealMemory {
    /// Registers the function with which the process's allocator returns memory. The program that
    /// chose the allocator calls this once; without it only the allocator itself decides when to
    /// return memory.
    pub fn gives_back_with(give_back: fn()) {
        // A process has one allocator, so all callers register the same function.
        GIVE_BACK.get_or_init(|| give_back);
    }
}

impl Memory for RealMemory {
    fn give_back(&self) {
        if let Some(give_back) = GIVE_BACK.get() {
            give_back();
        }
    }

    fn used_bytes(&self) -> Option<u64> {
        // Excludes pages of files, which the system can reclaim at any time.
        kibibytes(&std::fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
    }
}

/// The memory that this process may use, in bytes: the machine's, or the smallest limit of its
/// control groups and their ancestors, if that is less. `None` if the system reports neither.
#[must_use]
pub fn machine_memory_bytes() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| kibibytes(&text, "MemTotal:"));
    machine.into_iter().chain(control_groups::limit_bytes(Path::new("/"))).min()
}

/// Parses the line `name` of a file in `/proc`, in units of 1024 bytes, as bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

/// An allocator without freed memory to return.
pub struct NoSpareMemory;

impl Memory for NoSpareMemory {
    fn give_back(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_understood() {
        let text = "Name:\tx\nRssAnon:\t    1234 kB\nRssFile:\t 5 kB\n";
        assert_eq!(kibibytes(text, "RssAnon:"), Some(1234 * 1024));
        assert_eq!(kibibytes("RssAnon: many\n", "RssAnon:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_has_less_than_the_machine() {
        let (used, all) = (RealMemory.used_bytes().unwrap(), machine_memory_bytes().unwrap());
        assert!((1..all).contains(&used), "{used} of {all}");
    }
}
