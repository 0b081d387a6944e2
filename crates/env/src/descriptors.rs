//! The limit of open file descriptors of this process.

use std::io;

/// Upper bound of the requested limit; the kernel's own limit for one process is often about as
/// high.
const WANTED_MAX: u64 = 1 << 20;

/// The number of file descriptors that the process may have open: the soft limit, at most 2^20.
///
/// # Errors
/// If the system call fails.
pub fn descriptor_limit() -> io::Result<usize> {
    Ok(usize_of(limits()?.rlim_cur))
}

/// Raises the soft limit of file descriptors to the hard one and returns the resulting limit.
///
/// The soft limit is usually 1,024 for the sake of programs that call `select`, which this one does
/// not.
///
/// # Errors
/// If a system call fails.
pub fn raise_descriptor_limit() -> io::Result<usize> {
    let mut limits = limits()?;
    let wanted = limits.rlim_max.min(WANTED_MAX);
    if limits.rlim_cur < wanted {
        limits.rlim_cur = wanted;
        // SAFETY: the call reads the structure that the reference points to.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(usize_of(limits.rlim_cur))
}

fn limits() -> io::Result<libc::rlimit> {
    let mut limits = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure that the reference points to.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) } {
        0 => Ok(limits),
        _ => Err(io::Error::last_os_error()),
    }
}

fn usize_of(limit: libc::rlim_t) -> usize {
    usize::try_from(limit.min(WANTED_MAX)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let raised = raise_descriptor_limit().unwrap();
        assert_eq!(descriptor_limit().unwrap(), raised);
        assert!(raised > 0);
    }
}
