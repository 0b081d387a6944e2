use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::prelude::*;
use thalweg_types::ErrorKind;

use super::*;
use crate::node::ServeOptions;
use crate::tests::*;

const MODES: [Mode; 3] = [Mode::Sync, Mode::Async, Mode::Hybrid];

/// Checks each message, and stops when it has enough. Clones share their state: in async mode the
/// messages of a worker go to any free lane.
#[derive(Clone)]
struct Checking {
    bytes: u64,
    next: Arc<Mutex<Vec<u64>>>,
    left: u64,
}

impl Checking {
    fn new(workers: usize, bytes: u64) -> Checking {
        Checking { bytes, next: Arc::new(Mutex::new(vec![0; workers])), left: u64::MAX }
    }

    fn found(&self) -> Vec<u64> {
        self.next.lock().clone()
    }
}

impl Reader for Checking {
    fn message(&mut self, worker: usize, found: Message<'_>) -> Result<(), Stop> {
        if self.left == 0 {
            return Err(Stop::Enough);
        }
        self.left -= 1;
        let number = self.next.lock()[worker];
        self.next.lock()[worker] += 1;
        match found[..] == message(number, self.bytes) {
            true => Ok(()),
            false => {
                Err(Error::internal(format!("message {number} of {worker} is another")).into())
            }
        }
    }
}

fn fan_in(threads: usize, workers: usize) -> FanIn {
    let mut options = FanInOptions::new(threads, workers);
    options.link = impatient();
    FanIn::new(&options, &Env::real()).unwrap()
}

fn ask(names: impl IntoIterator<Item = NodeName>, wanted: Wanted) -> Vec<Question> {
    let question = |worker| Question { worker, message: wanted.question() };
    names.into_iter().map(question).collect()
}

fn names(workers: &[TestWorker]) -> Vec<NodeName> {
    workers.iter().map(|worker| worker.name.clone()).collect()
}

/// Checks that all modes read the same messages.
async fn read_all(workers: usize, threads: usize, wanted: Wanted) {
    let running: Vec<TestWorker> = (0..workers as u64).map(TestWorker::start).collect();
    let fan_in = fan_in(threads, workers);
    for mode in MODES {
        let questions = ask(names(&running), wanted);
        let checking = Checking::new(workers, wanted.bytes);
        let reader = |_| checking.clone();
        let (readers, times) = fan_in.gather(mode, questions, reader).await.unwrap();
        assert_eq!(readers.len(), threads);
        assert_eq!(checking.found(), vec![wanted.messages; workers], "{mode}");
        assert!(times.opened <= times.total);
        assert_eq!(times.first.is_some(), wanted.messages > 0 && workers > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mode_reads_everything() {
    for (workers, threads, messages, bytes) in
        [(1, 1, 1, 0), (3, 2, 2_000, 48), (5, 2, 30, 30_000), (2, 3, 4, 600_000), (0, 2, 0, 0)]
    {
        read_all(workers, threads, Wanted { messages, bytes, end: End::Well }).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn every_mode_reads_everything_of_any_size(
        workers in 1..6_usize,
        threads in 1..4_usize,
        messages in 0..400_u64,
        bytes in prop_oneof![0..100_u64, 1_000..9_000_u64],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(read_all(workers, threads, Wanted { messages, bytes, end: End::Well }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_worker_fails_the_query_and_stops_the_others() {
    for mode in MODES {
        let running: Vec<TestWorker> = (0..4).map(TestWorker::start).collect();
        let fan_in = fan_in(2, 4);
        // Sync mode reads the first worker first.
        let endless = Wanted { messages: u64::MAX, bytes: 100, end: End::Never };
        let mut questions = ask(names(&running), endless);
        questions[0].message = Wanted { messages: 5, bytes: 100, end: End::Badly }.question();
        // The lanes share one: in async mode a worker's messages go to any of them.
        let checking = Checking::new(4, 100);
        let reader = |_| checking.clone();
        let error = fan_in.gather(mode, questions, reader).await.err().unwrap();
        assert_eq!(error.message(), "division by zero", "{mode}");
        for worker in &running {
            let open = &worker.counters.open;
            until("workers stop", || open.load(Ordering::Relaxed) == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_enough_stops_the_workers() {
    for mode in MODES {
        let running: Vec<TestWorker> = (0..4).map(TestWorker::start).collect();
        let fan_in = fan_in(2, 4);
        let endless = Wanted { messages: u64::MAX, bytes: 1_000, end: End::Never };
        let checking = Checking { left: 500, ..Checking::new(4, 1_000) };
        let questions = ask(names(&running), endless);
        fan_in.gather(mode, questions, |_| checking.clone()).await.unwrap();
        let found: u64 = checking.found().iter().sum();
        assert!((500..=1_000).contains(&found), "{mode}: {found}");
        for worker in &running {
            let open = &worker.counters.open;
            until("workers stop", || open.load(Ordering::Relaxed) == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_dropped_stops_the_workers() {
    for mode in MODES {
        let running: Vec<TestWorker> = (0..4).map(TestWorker::start).collect();
        let fan_in = fan_in(2, 4);
        let endless = Wanted { messages: 3, bytes: 1_000, end: End::Never };
        let questions = ask(names(&running), endless);
        let checking = Checking::new(4, 1_000);
        let query = fan_in.gather(mode, questions, |_| checking.clone());
        let timed_out = tokio::time::timeout(Duration::from_millis(300), query).await.is_err();
        assert!(timed_out);
        for worker in &running {
            let open = &worker.counters.open;
            until("workers stop", || open.load(Ordering::Relaxed) == 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_lost_is_named_and_used_again() {
    for mode in MODES {
        let running: Vec<TestWorker> = (0..3).map(TestWorker::start).collect();
        let wire = Wire::to(&running[2].name).await;
        let fan_in = fan_in(2, 3);
        let few = Wanted { messages: 3, bytes: 100, end: End::Well };
        let mut all = names(&running);
        all[2] = wire.name.clone();
        let gather = |wanted| {
            let questions = ask(all.clone(), wanted);
            let checking = Checking::new(3, 100);
            fan_in.gather(mode, questions, move |_| checking.clone())
        };
        gather(few).await.unwrap();
        wire.set(WireState::Dead);
        let error = gather(few).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().starts_with("worker 2 at "), "{mode}: {error}");
        wire.set(WireState::Cut);
        wire.set(WireState::Working);
        gather(few).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_restarted_between_two_queries_is_not_noticed() {
    let worker = TestWorker::start(0);
    let fan_in = fan_in(1, 1);
    let few = Wanted { messages: 3, bytes: 100, end: End::Well };
    let name = worker.name.clone();
    let gather = || {
        let questions = ask([name.clone()], few);
        fan_in.gather(Mode::Hybrid, questions, |_| Checking::new(1, 100))
    };
    gather().await.unwrap();
    worker.end().await;
    let _again = TestWorker::at(0, name.address, ServeOptions::default());
    gather().await.unwrap();
}

#[test]
fn modes_have_names() {
    for mode in MODES {
        assert_eq!(mode.to_string().parse::<Mode>().unwrap(), mode);
    }
    assert!("fast".parse::<Mode>().is_err());
}
