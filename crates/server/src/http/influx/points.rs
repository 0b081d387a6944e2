//! Writes points in groups as their lines arrive.

use std::collections::{BTreeMap, HashMap};
use std::iter::{Empty, once};

use thalweg_formats::line_protocol::{LineSplitter, Point};
use thalweg_query::{RecordBatcher, RecordChange, RecordTarget};
use thalweg_types::{Error, ErrorKind, Result, SqlState};

use super::definitions::Needed;
use super::parameters::Unit;
use super::shapes::{Shape, append_key};
use crate::flight::quoted;
use crate::http::ingest::{Failure, Report, Upload, UploadBody, written};

/// Shapes that are cached at most.
const SHAPES_MAX: usize = 1_000;
/// Tables that one request may create.
const CREATED_MAX: usize = 256;
/// Attempts to define a table while others define it.
const ATTEMPTS: usize = 3;

/// Writes the points of one request.
pub(super) struct PointWriter {
    upload: Upload,
    namespace: String,
    unit: Unit,
    /// The time of points without a timestamp, in microseconds since 1970.
    now_micros: i64,
    may_define: bool,
    created: usize,
    /// Shapes by their keys, or the error that all of their points get.
    shapes: HashMap<String, Result<Shape>>,
    /// The number of the next shape.
    next_number: u32,
    lines: LineSplitter,
    report: Report,
}

/// A line's number, and its point.
type Numbered<'t> = (u64, Result<Point<'t>>);

impl PointWriter {
    pub(super) fn new(upload: Upload, namespace: String, unit: Unit) -> PointWriter {
        let shared = &upload.shared;
        let now_micros = shared.database.env().clock.now_micros();
        let may_define = shared.config.ingest.create_tables;
        PointWriter {
            upload,
            namespace,
            unit,
            now_micros,
            may_define,
            created: 0,
            shapes: HashMap::new(),
            next_number: 0,
            lines: LineSplitter::default(),
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
        let line_bytes_max = self.upload.shared.config.limits.record_message_bytes;
        let mut text = Vec::new();
        loop {
            let is_last = body.gather(&mut text).await?;
            let _held = self.upload.memory(text.len()).await;
            let consumed = self.write_lines(&text, is_last).await?;
            text.drain(..consumed);
            if is_last {
                return Ok(());
            }
            if text.len() > line_bytes_max {
                let message = format!("a line is longer than the limit of {line_bytes_max} bytes");
                return Err(Error::new(SqlState::LIMIT_EXCEEDED, message).into());
            }
        }
    }

    /// Writes the complete lines of a text as one group. Returns the number of their bytes.
    async fn write_lines(&mut self, text: &[u8], is_last: bool) -> Result<usize> {
        let permit = self.upload.permit().await;
        let (mut points, mut rest): (Vec<Numbered<'_>>, _) = (Vec::new(), text);
        while let Some(line) = self.lines.next(&mut rest, is_last) {
            points.extend(Point::read(line.bytes).transpose().map(|point| (line.number, point)));
        }
        if self.upload.records.must_look_again() || self.shapes.len() > SHAPES_MAX {
            self.shapes.clear();
            self.next_number = 0;
        }
        let needed = self.find_shapes(&points);
        // A definition needs a permit of its own.
        drop(permit);
        for (measurement, needed) in needed {
            self.define(&measurement, &needed, &points).await;
        }
        self.write_points(points).await?;
        Ok(text.len() - rest.len())
    }

    /// Resolves the shapes of points. Returns what is missing of each measurement, if it may be
    /// defined.
    fn find_shapes(&mut self, points: &[Numbered<'_>]) -> BTreeMap<String, Needed> {
        let (mut needed, mut key) = (BTreeMap::<String, Needed>::new(), String::new());
        for (_, point) in points {
            let Ok(point) = point else { continue };
            key.clear();
            append_key(point, &mut key);
            if self.shapes.get(&key).is_some_and(Result::is_ok) {
                continue;
            }
            // Errors are not cached beyond a group: the table may have been created meanwhile.
            if let Some(Err(error)) = self.shapes.get(&key)
                && !is_missing(error)
            {
                continue;
            }
            let shape = self.resolve(point);
            let defines = shape.as_ref().is_err_and(is_missing) && self.may_define;
            if defines {
                needed.entry(point.measurement.clone().into_owned()).or_default().add(point);
            }
            let hinted = shape.map_err(|error| if defines { error } else { with_hint(error) });
            self.shapes.insert(key.clone(), hinted);
        }
        needed
    }

    fn resolve(&mut self, point: &Point<'_>) -> Result<Shape> {
        let number = self.next_number;
        self.next_number += 1;
        Shape::resolve(&self.upload.records, &self.namespace, point, number)
    }

    /// Creates a measurement's table, or adds the columns that it lacks, and resolves the shapes of
    /// its points again.
    async fn define(&mut self, measurement: &str, needed: &Needed, points: &[Numbered<'_>]) {
        let mut defined = Ok(());
        for _ in 0..ATTEMPTS {
            defined = self.define_once(measurement, needed).await;
            let is_conflict = |error: &Error| {
                matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unavailable)
            };
            if !defined.as_ref().is_err_and(is_conflict) {
                break;
            }
        }
        let mut key = String::new();
        for (_, point) in points {
            let Ok(point) = point else { continue };
            if point.measurement != measurement {
                continue;
            }
            key.clear();
            append_key(point, &mut key);
            if self.shapes.get(&key).is_some_and(|shape| shape.as_ref().is_err_and(is_missing)) {
                let shape = match &defined {
                    Ok(()) => self.resolve(point),
                    Err(error) => Err(error.clone()),
                };
                self.shapes.insert(key.clone(), shape);
            }
        }
    }

    async fn define_once(&mut self, measurement: &str, needed: &Needed) -> Result<()> {
        let table = format!("{}.{}", quoted(&self.namespace), quoted(measurement));
        let existing = self.upload.records.table_in(&self.namespace, measurement, &[]);
        let statement = match existing {
            Ok(existing) => needed.alter(&table, existing.schema())?,
            Err(error) if error.state() == SqlState::UNDEFINED_TABLE => {
                self.created += 1;
                if self.created > CREATED_MAX {
                    let message = format!("one request creates at most {CREATED_MAX} tables");
                    return Err(Error::new(SqlState::LIMIT_EXCEEDED, message));
                }
                Some(needed.create(&table)?)
            }
            Err(error) => return Err(error),
        };
        match statement {
            Some(statement) => self.upload.execute(&statement).await.map(drop),
            None => Ok(()),
        }
    }

    async fn write_points(&mut self, points: Vec<Numbered<'_>>) -> Result<()> {
        let permit = self.upload.permit().await;
        let (mut batcher, mut numbers) = (RecordBatcher::default(), Vec::new());
        let mut key = String::new();
        for (number, point) in points {
            let rejected = point.and_then(|point| {
                let timestamp = point.timestamp.map(|time| self.unit.micros(time));
                let micros = timestamp.unwrap_or(Some(self.now_micros)).ok_or_else(out_of_range)?;
                key.clear();
                append_key(&point, &mut key);
                let shape = match self.shapes.get(&key) {
                    Some(Ok(shape)) => shape,
                    Some(Err(error)) => return Err(error.clone()),
                    None => return Err(Error::internal("a point has no shape")),
                };
                let change = RecordChange::Upsert;
                let into = RecordTarget { number: shape.number, table: &shape.table, change };
                let row = once(shape.values(&point, micros));
                batcher.push_values(into, row, None::<Empty<u64>>);
                numbers.push(number);
                Ok(())
            });
            if let Err(error) = rejected {
                self.report.reject(number, error);
            }
        }
        if batcher.rows() == 0 {
            return Ok(());
        }
        let write = batcher.finish()?;
        drop(permit);
        let written = written(&self.upload.records, write).await?;
        self.report.rows += written.rows;
        for failure in written.failures {
            self.report.reject(numbers[failure.place as usize], failure.error);
        }
        Ok(())
    }
}

/// True if the error is one that a definition can mend.
fn is_missing(error: &Error) -> bool {
    matches!(error.state(), SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN)
}

fn with_hint(error: Error) -> Error {
    match is_missing(&error) {
        true => error.with_hint("Create it, or set ingest.create_tables."),
        false => error,
    }
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
}
