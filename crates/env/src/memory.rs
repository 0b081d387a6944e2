//! The process's memory: what the system says of it, and what the allocator keeps of it.

use std::path::Path;
use std::sync::OnceLock;

use crate::control_groups;

/// The allocator, as far as one asks more of it than memory.
pub trait Memory: Send + Sync {
    /// Gives freed memory back to the system. Allocators keep it for a while, in case it is needed
    /// again, and many look at it only when they are called the next time: never, once all is
    /// still.
    fn give_back(&self);

    /// How many bytes the process has for itself, as the system counts them; `None` where it does
    /// not say.
    fn used_bytes(&self) -> Option<u64> {
        None
    }
}

/// The allocator of this process.
pub struct RealMemory;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

impl RealMemory {
    /// Says how the process's allocator gives memory back. The program that chose the allocator
    /// does so once; without it nothing is given back before the allocator does it by itself.
    pub fn gives_back_with(give_back: fn()) {
        // There is one allocator for a process, so whoever came first said the same.
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
        // Without the pages of files, which the system takes back where it wants them.
        kibibytes(&std::fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
    }
}

/// How many bytes of memory this process may have: what the machine has, or the least that its
/// control groups and those above them allow, if that is less. `None` where the system does not
/// say.
#[must_use]
pub fn machine_memory_bytes() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.and_then(|text| kibibytes(&text, "MemTotal:"));
    machine.into_iter().chain(control_groups::limit_bytes(Path::new("/"))).min()
}

/// The bytes that a line of `/proc` gives in units of 1024.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024)
}

/// An allocator that keeps nothing.
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
