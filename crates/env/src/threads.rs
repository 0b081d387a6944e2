//! Threads with names.

use std::io;

/// How threads are started.
pub trait Threads: Send + Sync {
    /// Starts a thread that runs `body`. It fails where the system refuses one more thread.
    fn spawn(
        &self,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Box<dyn ThreadHandle>>;
}

/// A thread that was started.
pub trait ThreadHandle: Send + Sync {
    /// Waits until the thread has ended. False if it ended by a panic.
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
    fn a_thread_has_its_name_and_tells_how_it_ended() {
        let named = || assert_eq!(std::thread::current().name(), Some("disk"));
        assert!(RealThreads.spawn("disk", Box::new(named)).unwrap().join());
        let fails = || std::panic::resume_unwind(Box::new("on purpose"));
        assert!(!RealThreads.spawn("fails", Box::new(fails)).unwrap().join());
    }
}
