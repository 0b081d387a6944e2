//! The departure board: a table that writers keep changing, one durable row after another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use thalweg::{Database, Error, Result, Session};
use tokio::task::JoinHandle;

use super::{expect_equal, number};
use crate::print::results;

/// Number of concurrent writers, each with flights of its own.
pub const WRITERS: usize = 4;

/// Number of changes before the board is queried: enough that most flights changed twice …
const CHANGES_WANTED: u64 = 1_500;
/// … unless the disk is too slow for that.
const WAIT_MAX: Duration = Duration::from_secs(3);

const STATUSES: [&str; 5] = ["on time", "boarding", "delayed", "departed", "landed"];

const CREATE: &str = "CREATE TABLE board (time_hour timestamptz, carrier text, flight integer, \
    status text NOT NULL, changes bigint NOT NULL, PRIMARY KEY (time_hour, carrier, flight)) \
    WITH (shard_key = 'flight')";

/// The flights of the last day, as keys of the board.
const KEYS: &str = "SELECT time_hour, carrier, flight FROM flights \
    WHERE month = 12 AND day = 31 ORDER BY time_hour, carrier, flight";

/// The departure board, shared by its writers, with the number of acknowledged changes.
pub struct Board {
    keys: Arc<Vec<Vec<String>>>,
    acknowledged: Arc<AtomicU64>,
}

/// Running writers.
pub struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Result<()>>>,
}

impl Board {
    /// Creates the empty table and reads the flights of the last day.
    pub async fn create(session: &mut Session) -> Result<Board> {
        session.execute(CREATE).await?;
        let keys = Arc::new(results::fetch(session, KEYS).await?);
        assert!(keys.len() > WRITERS, "flights left on the last day of the year");
        Ok(Board { keys, acknowledged: Arc::new(AtomicU64::new(0)) })
    }

    /// Lets writers change the board until they are stopped.
    pub fn start(&self, database: &Database) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..WRITERS)
            .map(|writer| {
                let mut session = database.session();
                let (keys, stop) = (Arc::clone(&self.keys), Arc::clone(&stop));
                let acknowledged = Arc::clone(&self.acknowledged);
                tokio::spawn(async move {
                    for status in STATUSES.iter().cycle() {
                        for key in keys.iter().skip(writer).step_by(WRITERS) {
                            if stop.load(Ordering::Relaxed) {
                                return Ok(());
                            }
                            session.execute(&change(key, status)).await?;
                            acknowledged.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        Writers { stop, tasks }
    }

    /// Number of changes acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until the writers have made enough changes.
    pub async fn wait_for_changes(&self) {
        let enough = async {
            let mut looks = tokio::time::interval(Duration::from_millis(20));
            while self.acknowledged() < CHANGES_WANTED {
                looks.tick().await;
            }
        };
        // On a timeout, the demonstration continues with the changes made so far.
        let _ = tokio::time::timeout(WAIT_MAX, enough).await;
    }

    /// Checks that the board counts as many changes as were acknowledged.
    pub async fn check(&self, session: &mut Session) -> Result<()> {
        let counted = number(session, "SELECT sum(changes)::bigint FROM board").await?;
        expect_equal("changes on the board", counted, self.acknowledged())
    }
}

impl Writers {
    /// Stops the writers and returns their first error, if any.
    pub async fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            let ended = task.await;
            ended.map_err(|error| Error::internal("a writer broke off").with_source(error))??;
        }
        Ok(())
    }
}

fn change(key: &[String], status: &str) -> String {
    let [time_hour, carrier, flight] = key else {
        unreachable!("a key of the board has three columns")
    };
    format!(
        "INSERT INTO board VALUES ('{time_hour}', '{carrier}', {flight}, '{status}', 1) \
         ON CONFLICT (time_hour, carrier, flight) \
         DO UPDATE SET status = excluded.status, changes = board.changes + 1"
    )
}
