//! Ways to load a server: at full speed, at a fixed rate, and one operation after another.

use std::time::Duration;

use bytes::Bytes;
use thalweg_env::{Clock, RealClock};
use thalweg_types::Result;

use super::{Line, Target};

/// Pushes pieces as fast as they are taken, spread over new lines, and returns when everything is
/// answered. Returns the number of operations and the number of rows received.
///
/// # Errors
/// If the server refused a request or closed the connection.
pub fn flood(
    mut lines: Vec<Line>,
    pieces: impl IntoIterator<Item = (Bytes, u64)>,
) -> Result<(u64, u64)> {
    let mut pushed = vec![0; lines.len()];
    let mut pieces = pieces.into_iter().fuse();
    let mut all_pushed = false;
    loop {
        let mut moved = false;
        for (line, pushed) in lines.iter_mut().zip(&mut pushed) {
            if !all_pushed && line.has_room() {
                match pieces.next() {
                    Some((piece, operations)) => {
                        line.push(piece);
                        *pushed += operations;
                    }
                    None => all_pushed = true,
                }
            }
            if all_pushed {
                line.finish();
            }
            if line.answered() < *pushed || !all_pushed {
                moved |= line.turn()?;
            }
        }
        let answered = lines.iter().zip(&pushed).all(|(line, pushed)| line.answered() >= *pushed);
        if answered && all_pushed {
            return Ok((pushed.iter().sum(), lines.iter().map(Line::found).sum()));
        }
        if !moved {
            std::thread::yield_now();
        }
    }
}

/// The behavior of a load while nothing is due and nothing arrives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Polls again at once: for a load with a core of its own.
    Spin,
    /// Yields the core for a moment.
    Rest,
}

const REST: Duration = Duration::from_micros(100);

/// Sends operations at a fixed rate, on the lines in turn, and passes each latency to `told`. A
/// latency counts from the time when the operation was due, even if it was sent later. `beside` is
/// called all the time. Returns the seconds until the last answer.
///
/// # Errors
/// If the server refused a request or closed the connection, or if `beside` fails.
pub fn offer(
    target: &dyn Target,
    lines: &mut [Line],
    (rate, seconds): (f64, f64),
    pace: Pace,
    mut told: impl FnMut(f64),
    mut beside: impl FnMut() -> Result<()>,
) -> Result<f64> {
    let clock = RealClock::new();
    let operations = (rate * seconds) as u64;
    let width = lines.len() as u64;
    let before: Vec<u64> = lines.iter().map(Line::answered).collect();
    let mut answered = vec![0; lines.len()];
    let mut pushed = vec![0; lines.len()];
    let (mut sent, mut done, mut looked) = (0, 0, 0);
    let lines_count = lines.len();
    let mut requests = vec![Vec::new(); lines.len()];
    while done < operations {
        let due = operations.min((clock.monotonic().as_secs_f64() * rate) as u64 + 1);
        for number in sent..due {
            let line = (number % width) as usize;
            target.requests(number..number + 1, &mut requests[line]);
            pushed[line] += 1;
        }
        let mut moved = sent < due;
        sent = due;
        looked += 1;
        for (place, line) in lines.iter_mut().enumerate() {
            // An idle line is polled now and then, because servers send keep-alive pings.
            if pushed[place] == answered[place] && place != looked % lines_count {
                continue;
            }
            line.push(std::mem::take(&mut requests[place]));
            moved |= line.turn()?;
            let through = line.answered() - before[place];
            let now = clock.monotonic().as_secs_f64();
            for nth in answered[place]..through {
                let number = nth * width + place as u64;
                told(now - number as f64 / rate);
            }
            done += through - answered[place];
            answered[place] = through;
        }
        beside()?;
        if !moved && pace == Pace::Rest {
            clock.sleep(REST);
        }
    }
    Ok(clock.monotonic().as_secs_f64())
}

/// All latencies of an [`offer`] with nothing beside it, sorted.
///
/// # Errors
/// Like [`offer`].
pub fn latencies(
    target: &dyn Target,
    lines: &mut [Line],
    rate: f64,
    seconds: f64,
) -> Result<Vec<f64>> {
    let mut taken = Vec::with_capacity((rate * seconds) as usize);
    let told = |latency| taken.push(latency);
    offer(target, lines, (rate, seconds), Pace::Spin, told, || Ok(()))?;
    taken.sort_by(f64::total_cmp);
    Ok(taken)
}

/// Sends `batch` operations to each target in turn, and waits for their answers each time. Returns
/// the number of operations.
///
/// # Errors
/// If a server refused a request or closed the connection.
pub fn alternate(targets: &mut [(&dyn Target, Line)], operations: u64, batch: u64) -> Result<u64> {
    let mut answered: Vec<u64> = targets.iter().map(|(_, line)| line.answered()).collect();
    let mut done = 0;
    while done < operations {
        for ((target, line), answered) in targets.iter_mut().zip(&mut answered) {
            let mut requests = Vec::new();
            target.requests(done..done + batch, &mut requests);
            line.push(requests);
            *answered += batch;
            line.wait_for(*answered)?;
            done += batch;
        }
    }
    Ok(done)
}
