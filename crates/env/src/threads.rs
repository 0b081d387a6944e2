//! Starting threads, and lowering their priority.

use std::io;

/// A way to start threads.
pub trait Threads: Send + Sync {
    /// Starts a thread that runs `body`. Fails if the system refuses another thread.
    fn spawn(
        &self,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Box<dyn ThreadHandle>>;

    /// Like [`spawn`](Self::spawn), with a stack of at least `stack_bytes` if the system allows the
    /// choice.
    fn spawn_with_stack(
        &self,
        name: &str,
        stack_bytes: usize,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Box<dyn ThreadHandle>> {
        let _ = stack_bytes;
        self.spawn(name, body)
    }
}

/// A started thread.
pub trait ThreadHandle: Send + Sync {
    /// Waits until the thread has ended. Returns false if it panicked.
    fn join(self: Box<Self>) -> bool;
}

/// The operating system's threads.
pub struct RealThreads;

struct RealHandle(std::thread::JoinHandle<()>);

impl Threads for RealThreads {
    fn spawn(
        &self,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Box<dyn ThreadHandle>> {
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(RealHandle(handle)))
    }

    fn spawn_with_stack(
        &self,
        name: &str,
        stack_bytes: usize,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Box<dyn ThreadHandle>> {
        let builder = std::thread::Builder::new().name(name.to_owned());
        Ok(Box::new(RealHandle(builder.stack_size(stack_bytes).spawn(body)?)))
    }
}

/// The operating system's number of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadNumber(#[cfg_attr(not(target_os = "linux"), expect(dead_code))] i32);

/// Niceness of background threads: they run only on cores that would otherwise idle.
#[cfg(target_os = "linux")]
const LOWERED: i32 = 19;

impl ThreadNumber {
    /// The number of the calling thread.
    #[must_use]
    pub fn current() -> ThreadNumber {
        #[cfg(target_os = "linux")]
        return ThreadNumber(rustix::thread::gettid().as_raw_nonzero().get());
        #[cfg(not(target_os = "linux"))]
        return ThreadNumber(0);
    }

    /// Lowers the priority of the thread for as long as it lives: without privileges, no thread
    /// gets its priority back. All threads whose priority was lowered share one core, the last of
    /// those that the process may use, so that any number of them leaves the other cores free. Does
    /// nothing where the system knows no priorities of threads.
    pub fn lower_priority(self) {
        #[cfg(target_os = "linux")]
        self.move_to_last_core();
        #[cfg(target_os = "linux")]
        // SAFETY: a system call that reads and writes no memory of this process. A number that no
        // thread has any more makes it fail.
        unsafe {
            libc::setpriority(libc::PRIO_PROCESS, self.0.cast_unsigned(), LOWERED);
        }
    }

    /// A failure leaves the thread on the cores that it has.
    #[cfg(target_os = "linux")]
    fn move_to_last_core(self) {
        use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
        let thread = Pid::from_raw(self.0);
        let Ok(cores) = sched_getaffinity(thread) else { return };
        let last = (0..CpuSet::MAX_CPU).rev().find(|core| cores.is_set(*core));
        if let (Some(thread), Some(last)) = (thread, last) {
            let mut only = CpuSet::new();
            only.set(last);
            let _ = sched_setaffinity(Some(thread), &only);
        }
    }
}

impl ThreadHandle for RealHandle {
    fn join(self: Box<Self>) -> bool {
        self.0.join().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_stack_that_was_asked_for() {
        /// Takes a few megabytes of the stack.
        fn deep(level: usize) -> usize {
            let block = std::hint::black_box([level as u8; 1 << 20]);
            if level == 0 { 0 } else { deep(level - 1) + usize::from(block[level] > 0) }
        }
        let work = || assert_eq!(deep(10), 10);
        assert!(RealThreads.spawn_with_stack("deep", 64 << 20, Box::new(work)).unwrap().join());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_priority_of_one_thread_is_lowered() {
        let nice = |number: ThreadNumber| {
            // SAFETY: a system call that reads and writes no memory of this process.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, number.0.cast_unsigned()) }
        };
        let lower = move || {
            let number = ThreadNumber::current();
            number.lower_priority();
            assert_eq!(nice(number), LOWERED);
            assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
        };
        assert!(RealThreads.spawn("low", Box::new(lower)).unwrap().join());
        assert!(nice(ThreadNumber::current()) < LOWERED);
    }

    #[test]
    fn a_thread_has_its_name_and_tells_how_it_ended() {
        let named = || assert_eq!(std::thread::current().name(), Some("disk"));
        assert!(RealThreads.spawn("disk", Box::new(named)).unwrap().join());
        let fails = || std::panic::resume_unwind(Box::new("on purpose"));
        assert!(!RealThreads.spawn("fails", Box::new(fails)).unwrap().join());
    }
}
