//! Binding of processes to cores. Processes that share a machine are faster if each has cores of
//! its own, since the operating system migrates threads too late for work that takes milliseconds.

use std::io;

/// The numbers of the cores that the calling thread may run on; empty if the system does not report
/// them.
#[must_use]
pub fn allowed_cores() -> Vec<usize> {
    #[cfg(target_os = "linux")]
    if let Ok(allowed) = rustix::thread::sched_getaffinity(None) {
        return (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    }
    Vec::new()
}

/// Binds the calling thread to some cores, and all threads and processes that it starts from now
/// on.
///
/// # Errors
/// If this process may not run on one of the cores, or the system call fails.
pub fn keep_to_cores(cores: &[usize]) -> io::Result<()> {
    let allowed = allowed_cores();
    if let Some(core) = cores.iter().find(|core| !allowed.contains(core)) {
        let message = format!("core {core} is none of {allowed:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    #[cfg(target_os = "linux")]
    {
        let mut wanted = rustix::thread::CpuSet::new();
        cores.iter().for_each(|core| wanted.set(*core));
        rustix::thread::sched_setaffinity(None, &wanted)?;
    }
    Ok(())
}

/// The share of the cores for process `number` out of `processes`, as a list such as `0,1`. `None`
/// if the cores cannot be divided evenly: then the operating system schedules better.
#[must_use]
pub fn share_of_cores(cores: &[usize], processes: usize, number: usize) -> Option<String> {
    let (some, is_even) = (cores.len(), |of: usize, by: usize| of.is_multiple_of(by));
    if some == 0 || processes == 0 || !is_even(some, processes) && !is_even(processes, some) {
        return None;
    }
    let each = (some / processes).max(1);
    let share = cores.chunks(each).nth(number % (some / each))?;
    Some(share.iter().map(usize::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RealThreads, Threads as _};

    #[test]
    fn each_process_has_its_share_of_the_cores() {
        let cores = [0, 1, 4, 5];
        let shares = |processes: usize| -> Option<Vec<String>> {
            (0..processes).map(|number| share_of_cores(&cores, processes, number)).collect()
        };
        assert_eq!(shares(1).unwrap(), ["0,1,4,5"]);
        assert_eq!(shares(2).unwrap(), ["0,1", "4,5"]);
        assert_eq!(shares(4).unwrap(), ["0", "1", "4", "5"]);
        assert_eq!(shares(8).unwrap(), ["0", "1", "4", "5", "0", "1", "4", "5"]);
        assert_eq!(shares(3), None);
        assert_eq!(shares(6), None);
        assert_eq!(share_of_cores(&[], 1, 0), None);
        assert_eq!(share_of_cores(&cores, 0, 0), None);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_thread_is_kept_on_its_cores() {
        let body = || {
            let last = allowed_cores().pop().unwrap();
            keep_to_cores(&[last]).unwrap();
            assert_eq!(allowed_cores(), [last]);
            assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
            let refused = keep_to_cores(&[last, last + 1]).unwrap_err();
            assert_eq!(refused.to_string(), format!("core {} is none of [{last}]", last + 1));
        };
        assert!(RealThreads.spawn("kept", Box::new(body)).unwrap().join());
    }
}
