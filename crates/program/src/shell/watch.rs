//! `\watch`: runs a query again and again.

use std::sync::Arc;
use std::time::Duration;

use thalweg::{Error, Result, SqlState};
use tokio::sync::Notify;

use crate::print::results::fetch;
use crate::shell::splitter::Splitter;
use crate::shell::{Shell, Stop};

/// Arguments of `\watch`.
#[derive(Debug, PartialEq)]
struct Watch {
    interval: Duration,
    /// Number of runs; `None` until Ctrl-C.
    count: Option<u64>,
}

impl Watch {
    /// Reads `SECONDS`, `i=SECONDS` and `c=COUNT`, as psql takes them.
    fn read(words: &[String]) -> Result<Watch> {
        let mut watch = Watch { interval: Duration::from_secs(2), count: None };
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or(("i", word));
            let wrong = |what: &str| {
                let message = format!("\\watch: incorrect {what} value \"{value}\"");
                Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("Usage: \\watch [SECONDS] [c=COUNT]")
            };
            match name {
                "i" | "interval" => {
                    let seconds: f64 = value.parse().map_err(|_| wrong("interval"))?;
                    watch.interval =
                        Duration::try_from_secs_f64(seconds).map_err(|_| wrong("interval"))?;
                }
                "c" | "count" => {
                    let count: u64 = value.parse().map_err(|_| wrong("iteration count"))?;
                    if count == 0 {
                        return Err(wrong("iteration count"));
                    }
                    watch.count = Some(count);
                }
                _ => {
                    let message = format!("\\watch: unrecognized parameter \"{name}\"");
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
                }
            }
        }
        Ok(watch)
    }
}

impl Shell {
    /// Runs the statement that is being typed, or else the last one, until Ctrl-C or an error.
    pub(super) async fn watch(
        &mut self,
        words: &[String],
        splitter: &mut Splitter,
    ) -> Result<(), Stop> {
        let pending = splitter.take_pending();
        let statement = match pending.trim() {
            "" => self.last_statement.trim_end_matches(';').to_owned(),
            pending => pending.to_owned(),
        };
        let watch = Watch::read(words).and_then(|watch| match statement.is_empty() {
            false => Ok(watch),
            true => {
                let message = "\\watch cannot be used with an empty query";
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
        });
        let watch = watch.map_err(|error| self.tell_error(&error, None, ""))?;
        self.last_statement = format!("{statement};");
        let statement = self.variables.expand(&statement).into_owned();
        let mut runs = 0;
        loop {
            let title = format!("{} (every {}s)\n", self.now().await, watch.interval.as_secs_f64());
            self.show_query(&statement, &title).await?;
            runs += 1;
            if watch.count == Some(runs) || self.pauses(watch.interval).await {
                return Ok(());
            }
        }
    }

    /// The time of the title, in the time zone of the database.
    async fn now(&self) -> String {
        const NOW: &str = "SELECT to_char(clock_timestamp(), 'Dy DD Mon YYYY HH12:MI:SS AM TZ')";
        let mut session = self.database.session();
        let rows = fetch(&mut session, NOW).await.unwrap_or_default();
        rows.into_iter().flatten().collect()
    }

    /// Waits. Returns true if Ctrl-C ended the wait.
    async fn pauses(&self, interval: Duration) -> bool {
        let pressed = Arc::new(Notify::new());
        let running = {
            let pressed = Arc::clone(&pressed);
            self.interrupt.running(move || pressed.notify_one())
        };
        let waited = tokio::time::timeout(interval, pressed.notified()).await;
        drop(running);
        waited.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_those_of_psql() {
        let read = |text: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            Watch::read(&words).map(|watch| (watch.interval.as_secs_f64(), watch.count))
        };
        assert_eq!(read("").unwrap(), (2.0, None));
        assert_eq!(read("0.5").unwrap(), (0.5, None));
        assert_eq!(read("i=3 c=2").unwrap(), (3.0, Some(2)));
        for wrong in ["-1", "x", "c=0", "c=x", "z=1", "nan", "1e30"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
