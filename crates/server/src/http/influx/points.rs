//! Writes points in groups as their lines arrive.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter::{Empty, once};
use std::sync::Arc;

use thalweg_formats::line_protocol::{Line, LineSplitter, Point};
use thalweg_query::{RecordBatcher, RecordChange, RecordTarget, RowFailure};
use thalweg_types::{Error, ErrorKind, Result, SqlState};

use super::definitions::Needed;
use super::parameters::{Moment, Unit};
use super::shapes::{Shape, append_key};
use crate::flight::quoted;
use crate::http::ingest::{Failure, Report, Upload, UploadBody, wait_for_others, written};

/// Lines of one group at most. Parsed points take many times the memory of their lines, and other
/// requests wait while a group is parsed.
const GROUP_LINES_MAX: usize = 4_096;
/// Memory for the points of one byte of lines, as a multiple of that for a byte of other rows.
const POINT_BYTES_A_BYTE: usize = 8;
/// Shapes that are cached at most.
const SHAPES_MAX: usize = 1_000;
/// Tables that one request may create.
const CREATED_MAX: usize = 256;
/// Attempts to define a table, or to write to it, while others change its definition.
const ATTEMPTS: usize = 16;

/// Writes the points of one request.
pub(super) struct PointWriter {
    upload: Upload,
    namespace: String,
    unit: Unit,
    /// The time of points without a timestamp.
    now: Moment,
    may_define: bool,
    created: usize,
    shapes: Shapes,
    lines: LineSplitter,
    line_bytes_max: usize,
    report: Report,
}

/// The shapes of a request's points.
#[derive(Default)]
struct Shapes {
    /// The number of each shape by its key; see [`append_key`].
    numbers: HashMap<String, usize>,
    all: Vec<KnownShape>,
}

struct KnownShape {
    measurement: String,
    /// The shape, or the error that all of its points get; `None` until the table is looked up.
    resolved: Option<Result<Shape>>,
}

/// A point of a group.
struct Numbered<'t> {
    line: u64,
    /// The number of its shape.
    shape: usize,
    moment: Moment,
    point: Point<'t>,
}

/// Tables and columns that points lack.
#[derive(Default)]
struct Missing {
    /// By measurement.
    needed: BTreeMap<String, Needed>,
    /// The shapes that lack something, and why points of a shape cannot be rows, if they cannot.
    shapes: BTreeMap<usize, Option<Error>>,
}

impl Shapes {
    /// The number of a point's shape. `key` is a buffer.
    fn number(&mut self, point: &Point<'_>, has_nanoseconds: bool, key: &mut String) -> usize {
        key.clear();
        append_key(point, has_nanoseconds, key);
        if let Some(number) = self.numbers.get(key.as_str()) {
            return *number;
        }
        let measurement = point.measurement.clone().into_owned();
        self.all.push(KnownShape { measurement, resolved: None });
        self.numbers.insert(key.clone(), self.all.len() - 1);
        self.all.len() - 1
    }

    /// Forgets the tables of some shapes, since they may have changed.
    fn forget(&mut self, is_outdated: impl Fn(&str) -> bool) {
        for shape in self.all.iter_mut().filter(|shape| is_outdated(&shape.measurement)) {
            shape.resolved = None;
        }
    }
}

impl PointWriter {
    pub(super) fn new(upload: Upload, namespace: String, unit: Unit) -> PointWriter {
        let shared = &upload.shared;
        let now = Moment { micros: shared.database.env().clock.now_micros(), nanos: 0 };
        let may_define = shared.config.ingest.create_tables;
        let line_bytes_max = shared.config.limits.record_message_bytes;
        PointWriter {
            upload,
            namespace,
            unit,
            now,
            may_define,
            created: 0,
            shapes: Shapes::default(),
            lines: LineSplitter::default(),
            line_bytes_max,
            report: Report::default(),
        }
    }

    /// Resolves with an error when an administrator ends the request.
    pub(super) fn terminated(&self) -> impl Future<Output = Failure> + Send + use<> {
        self.upload.terminated()
    }

    pub(super) fn into_parts(self) -> (Upload, Report) {
        (self.upload, self.report)
    }

    /// Writes the points of a body. Lines that cannot be written are in the report.
    ///
    /// # Errors
    /// The error at which reading ended. Points before it may be written.
    pub(super) async fn write(&mut self, mut body: UploadBody) -> Result<(), Failure> {
        let mut text = Vec::new();
        loop {
            let is_last = body.gather(&mut text, 0).await?;
            let held = self.upload.memory(text.len() * POINT_BYTES_A_BYTE).await;
            let mut rest = &text[..];
            while self.write_lines(&mut rest, is_last).await? {}
            let waiting = rest.len();
            drop(held);
            text.drain(..text.len() - waiting);
            if is_last {
                return Ok(());
            }
            self.check_length(waiting)?;
        }
    }

    fn check_length(&self, bytes: usize) -> Result<()> {
        let most = self.line_bytes_max;
        if bytes <= most {
            return Ok(());
        }
        let message = format!("a line is longer than the limit of {most} bytes");
        Err(Error::new(SqlState::LIMIT_EXCEEDED, message))
    }

    /// Writes complete lines of `rest` as one group, and advances it behind them. Returns false if
    /// it has no further complete lines.
    async fn write_lines(&mut self, rest: &mut &[u8], is_last: bool) -> Result<bool> {
        let permit = self.upload.permit().await;
        let before = rest.len();
        if self.upload.records.must_look_again() {
            self.shapes.forget(|_| true);
        }
        let points = self.read_points(rest, is_last)?;
        drop(permit);
        let mut waiting: Vec<&Numbered<'_>> = points.iter().collect();
        for attempt in 1..=ATTEMPTS {
            self.resolve_shapes(&waiting).await;
            waiting = self.write_points(waiting, attempt < ATTEMPTS).await?;
            if waiting.is_empty() {
                break;
            }
            wait_for_others(&self.upload.records).await?;
        }
        Ok(rest.len() < before)
    }

    /// Reads the points of one group.
    fn read_points<'t>(&mut self, rest: &mut &'t [u8], is_last: bool) -> Result<Vec<Numbered<'t>>> {
        if self.shapes.all.len() >= SHAPES_MAX {
            self.shapes = Shapes::default();
        }
        let (mut points, mut key) = (Vec::new(), String::new());
        for _ in 0..GROUP_LINES_MAX {
            if self.shapes.all.len() >= SHAPES_MAX {
                break;
            }
            let Some(line) = self.lines.next(rest, is_last) else { break };
            self.check_length(line.bytes.len())?;
            let read = Point::read(line.bytes).and_then(|point| {
                let Some(point) = point else { return Ok(None) };
                let moment = point.timestamp.map(|time| self.unit.moment(time));
                let moment = moment.unwrap_or(Some(self.now)).ok_or_else(out_of_range)?;
                Ok(Some((point, moment)))
            });
            match read {
                Ok(None) => {}
                Ok(Some((point, moment))) => {
                    let shape = self.shapes.number(&point, moment.nanos != 0, &mut key);
                    points.push(Numbered { line: line.number, shape, moment, point });
                }
                Err(error) => self.reject(line, error),
            }
        }
        Ok(points)
    }

    /// Rejects a malformed line. It spans several lines of the body if a quote is open at the end
    /// of the first. These are not points of their own, even if they look so: they may be text that
    /// strangers wrote.
    fn reject(&mut self, line: Line<'_>, error: Error) {
        let more = line.bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let error = match more {
            0 => error,
            _ => error.with_detail(format!(
                "A string goes on to line {}; these lines are rejected together.",
                line.number + more
            )),
        };
        self.report.reject(line.number, error);
        self.report.reject_more(more);
    }

    /// Finds the tables of points. Missing tables and columns are created first, if that is
    /// allowed.
    async fn resolve_shapes(&mut self, points: &[&Numbered<'_>]) {
        let permit = self.upload.permit().await;
        let missing = self.look_up(points);
        // A definition needs a permit of its own.
        drop(permit);
        if missing.shapes.is_empty() {
            return;
        }
        let mut errors = BTreeMap::new();
        for (measurement, needed) in missing.needed.iter().filter(|(_, needed)| !needed.is_empty())
        {
            if let Err(error) = self.define(measurement, needed).await {
                errors.insert(measurement.as_str(), error);
            }
        }
        // The tables of other points of these measurements have changed as well.
        self.shapes.forget(|measurement| missing.needed.contains_key(measurement));
        let _permit = self.upload.permit().await;
        for numbered in points {
            if self.shapes.all[numbered.shape].resolved.is_some() {
                continue;
            }
            let shape = self.resolve(numbered).map_err(|error| {
                let refused = missing.shapes.get(&numbered.shape).and_then(Option::as_ref);
                let reason = refused.or_else(|| errors.get(&*numbered.point.measurement));
                reason.filter(|_| is_missing(&error)).cloned().unwrap_or(error)
            });
            self.shapes.all[numbered.shape].resolved = Some(shape.map_err(with_hint));
        }
    }

    /// Resolves the shapes that are not resolved. Returns what is missing, if it may be defined.
    fn look_up(&mut self, points: &[&Numbered<'_>]) -> Missing {
        let mut missing = Missing::default();
        for numbered in points {
            let number = numbered.shape;
            let is_known = self.shapes.all[number].resolved.is_some();
            if is_known || missing.shapes.contains_key(&number) {
                continue;
            }
            match self.resolve(numbered) {
                Err(error) if self.may_define && is_missing(&error) => {
                    let needed = self.need(&mut missing.needed, numbered);
                    missing.shapes.insert(number, needed.err());
                }
                shape => {
                    self.shapes.all[number].resolved = Some(shape.map_err(with_hint));
                }
            }
        }
        missing
    }

    fn need(&self, needed: &mut BTreeMap<String, Needed>, numbered: &Numbered<'_>) -> Result<()> {
        let point = &numbered.point;
        let measurement = needed.entry(point.measurement.clone().into_owned());
        let needed = measurement.or_insert_with_key(|measurement| {
            let existing = self.upload.records.table_in(&self.namespace, measurement, &[]);
            Needed::new(existing.ok().map(|table| Arc::clone(table.schema())))
        });
        needed.add(point, numbered.moment.nanos != 0)
    }

    fn resolve(&self, numbered: &Numbered<'_>) -> Result<Shape> {
        let has_nanoseconds = numbered.moment.nanos != 0;
        Shape::resolve(&self.upload.records, &self.namespace, &numbered.point, has_nanoseconds)
    }

    /// Creates a measurement's table, or adds the columns that it lacks.
    async fn define(&mut self, measurement: &str, needed: &Needed) -> Result<()> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.define_once(measurement, needed).await {
                Ok(true) => return Ok(()),
                Err(error) if !is_race(&error) || attempts == ATTEMPTS => return Err(error),
                _ if attempts == ATTEMPTS => return Ok(()),
                Err(_) => wait_for_others(&self.upload.records).await?,
                Ok(false) => {}
            }
        }
    }

    /// Runs the statement that is missing. Returns true if there is none.
    async fn define_once(&mut self, measurement: &str, needed: &Needed) -> Result<bool> {
        let table = format!("{}.{}", quoted(&self.namespace), quoted(measurement));
        let existing = self.upload.records.table_in(&self.namespace, measurement, &[]);
        let statement = match existing {
            Ok(existing) => needed.alter(&table, existing.schema())?,
            Err(error) if error.state() == SqlState::UNDEFINED_TABLE => {
                if self.created >= CREATED_MAX {
                    let message = format!("one request creates at most {CREATED_MAX} tables");
                    return Err(Error::new(SqlState::LIMIT_EXCEEDED, message));
                }
                Some(needed.create(&table))
            }
            Err(error) => return Err(error),
        };
        let Some(statement) = statement else { return Ok(true) };
        self.upload.execute(&statement).await?;
        self.created += usize::from(statement.starts_with("CREATE"));
        Ok(false)
    }

    /// Writes points as one group, and waits until it is durable. Returns the points to write again
    /// because the definition of their table has changed meanwhile, in their order. They are all
    /// points of these tables, as a later one of the same key may be written already.
    async fn write_points<'p, 't>(
        &mut self,
        points: Vec<&'p Numbered<'t>>,
        may_repeat: bool,
    ) -> Result<Vec<&'p Numbered<'t>>> {
        let permit = self.upload.permit().await;
        let (mut batcher, mut added) = (RecordBatcher::default(), Vec::new());
        for numbered in points {
            let shape = match &self.shapes.all[numbered.shape].resolved {
                Some(Ok(shape)) => shape,
                Some(Err(error)) => {
                    self.report.reject(numbered.line, error.clone());
                    continue;
                }
                None => return Err(Error::internal("a point has no shape")),
            };
            let (number, change) = (numbered.shape as u32, RecordChange::Upsert);
            let into = RecordTarget { number, table: &shape.table, change };
            let row = once(shape.values(&numbered.point, numbered.moment));
            batcher.push_values(into, row, None::<Empty<u64>>);
            added.push(numbered);
        }
        if added.is_empty() {
            return Ok(added);
        }
        let write = batcher.finish()?;
        drop(permit);
        let written = written(&self.upload.records, write).await?;
        Ok(self.settle(added, written.failures, may_repeat))
    }

    /// Reports the outcome of points. Returns those to write again.
    fn settle<'p, 't>(
        &mut self,
        points: Vec<&'p Numbered<'t>>,
        failures: Vec<RowFailure>,
        may_repeat: bool,
    ) -> Vec<&'p Numbered<'t>> {
        let is_outdated = |failure: &&RowFailure| {
            may_repeat && failure.error.state() == SqlState::SERIALIZATION_FAILURE
        };
        let of_failure =
            |failure: &RowFailure| points[failure.place as usize].point.measurement.as_ref();
        let outdated: BTreeSet<&str> =
            failures.iter().filter(is_outdated).map(of_failure).collect();
        let is_repeated =
            |numbered: &&Numbered<'_>| outdated.contains(&*numbered.point.measurement);
        self.shapes.forget(|measurement| outdated.contains(measurement));
        let mut failed = 0;
        for failure in failures {
            let numbered = points[failure.place as usize];
            if !is_repeated(&numbered) {
                self.report.reject(numbered.line, failure.error);
                failed += 1;
            }
        }
        let repeated: Vec<_> = points.iter().copied().filter(is_repeated).collect();
        self.report.rows += (points.len() - repeated.len()) as u64 - failed;
        repeated
    }
}

/// True if the error is one that a definition can mend.
fn is_missing(error: &Error) -> bool {
    matches!(error.state(), SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN)
}

/// True if a definition failed because others changed the table at the same time.
fn is_race(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict)
        || matches!(error.state(), SqlState::DUPLICATE_COLUMN | SqlState::DUPLICATE_TABLE)
}

fn with_hint(error: Error) -> Error {
    match is_missing(&error) && error.hint().is_none() {
        true => error.with_hint("Create it, or set ingest.create_tables."),
        false => error,
    }
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}
