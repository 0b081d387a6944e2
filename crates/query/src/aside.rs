//! Planning a long statement keeps its thread busy for long: up to a second where the statement
//! has a hundred thousand values. A runtime may learn of nothing in between, not even of a cancel,
//! although its other threads are idle: the busy one was the one to look for what comes from
//! sockets. So what else the thread has to do is handed over to another one before.

use std::future::{Future, poll_fn};
use std::pin::pin;

use tokio::task::block_in_place;

/// What is shorter, in bytes, is planned in less time than handing over takes.
const LONG_BYTES: usize = 1 << 10;

/// Who hands over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Aside {
    /// Nobody knows what runtime there is, and handing over is not possible in all of them.
    #[default]
    Never,
    /// Whoever plans a long statement.
    Long,
}

impl Aside {
    /// Does what a text asks for.
    pub(crate) fn of<T>(self, sql: &str, work: impl FnOnce() -> T) -> T {
        match self.is_for(sql) {
            true => block_in_place(work),
            false => work(),
        }
    }

    /// The same, which may wait in between.
    pub(crate) async fn each_of<T>(self, sql: &str, work: impl Future<Output = T>) -> T {
        if !self.is_for(sql) {
            return work.await;
        }
        let mut work = pin!(work);
        poll_fn(|context| block_in_place(|| work.as_mut().poll(context))).await
    }

    fn is_for(self, sql: &str) -> bool {
        self == Aside::Long && sql.len() >= LONG_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::runtime::Builder;

    use super::*;

    /// A thread that waits for another task of its own would wait forever.
    #[test]
    fn other_tasks_of_the_thread_go_on() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let long = "SELECT 1 -- ".repeat(LONG_BYTES);
        let planning = async move {
            let (sender, told) = channel();
            tokio::spawn(async move { sender.send(1) });
            let first = Aside::Long.of(&long, || told.recv());
            let second = Aside::Long.each_of(&long, async {
                let (sender, told) = channel();
                tokio::spawn(async move { sender.send(2) });
                told.recv()
            });
            (first, second.await)
        };
        let (first, second) = runtime.block_on(runtime.spawn(planning)).unwrap();
        assert_eq!((first.unwrap(), second.unwrap()), (1, 2));
    }

    #[tokio::test]
    async fn short_statements_and_unknown_runtimes_hand_nothing_over() {
        assert_eq!(Aside::Long.of("SELECT 1", || 1), 1);
        assert_eq!(Aside::Never.of(&"SELECT 1 -- ".repeat(LONG_BYTES), || 2), 2);
    }
}
