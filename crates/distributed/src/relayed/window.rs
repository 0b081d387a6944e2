//! A limit over the rows of all workers. Parts carry their number of rows, so only the parts in
//! which the window begins or ends are cut.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use thalweg_cluster::relay::Part;
use thalweg_formats::flight;
use thalweg_formats::postgres::messages_among;
use thalweg_types::{Error, Result, SqlState};

use super::PartStream;

/// A window of the rows of all workers, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    skip: u64,
    fetch: Option<u64>,
}

impl Window {
    pub(super) fn new(skip: usize, fetch: Option<usize>) -> Window {
        Window { skip: skip as u64, fetch: fetch.map(|fetch| fetch as u64) }
    }

    /// Restricts the window to the first rows of its input.
    pub(super) fn of_first(self, rows: Option<usize>) -> Window {
        let left = rows.map(|rows| (rows as u64).saturating_sub(self.skip));
        let fetch = match (self.fetch, left) {
            (Some(fetch), Some(left)) => Some(fetch.min(left)),
            (fetch, left) => fetch.or(left),
        };
        Window { fetch, ..self }
    }

    pub(crate) fn is_all(&self) -> bool {
        *self == Window::default()
    }

    /// True if the window has a last row.
    pub(crate) fn ends(&self) -> bool {
        self.fetch.is_some()
    }

    /// The rows of the window. The workers' work ends with the last of them.
    pub(super) fn over(self, parts: PartStream, cutting: Cutting) -> PartStream {
        let begun = self.is_open().then_some((parts, self, cutting));
        let rows = stream::try_unfold(begun, |under_way| async move {
            let Some((mut parts, mut window, cutting)) = under_way else { return Ok(None) };
            while let Some(part) = parts.try_next().await? {
                let wanted = window.take(part.rows);
                if !wanted.is_empty() {
                    let part = cutting.cut(part, wanted)?;
                    let left = window.is_open().then_some((parts, window, cutting));
                    return Ok(Some((part, left)));
                }
            }
            Ok::<_, Error>(None)
        });
        rows.boxed()
    }

    fn is_open(&self) -> bool {
        self.fetch != Some(0)
    }

    /// The range of the next rows that lies in the window.
    fn take(&mut self, rows: u64) -> Range<u64> {
        let start = self.skip.min(rows);
        let count = (rows - start).min(self.fetch.unwrap_or(u64::MAX));
        self.skip -= start;
        self.fetch = self.fetch.map(|fetch| fetch - count);
        start..start + count
    }
}

/// A way of cutting rows out of a part.
pub(super) enum Cutting {
    /// Each row is a PostgreSQL message, which begins with its length.
    OfMessages,
    /// A part has rows of these columns in Arrow Flight's format.
    OfFlight(SchemaRef),
}

impl Cutting {
    /// For the columns that a Flight client was told.
    pub(super) fn of_flight(described: &Schema) -> Cutting {
        let fields: Vec<_> =
            described.fields().iter().map(|field| flight::wire_field(field)).collect();
        Cutting::OfFlight(Arc::new(Schema::new(fields)))
    }

    fn cut(&self, part: Part, wanted: Range<u64>) -> Result<Part> {
        let rows = wanted.end - wanted.start;
        if rows == part.rows {
            return Ok(part);
        }
        let place = |row: u64| usize::try_from(row).map_err(|_| miscounted());
        let wanted = place(wanted.start)?..place(wanted.end)?;
        let mut whole = Vec::with_capacity(part.bytes);
        part.pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
        let pieces: VecDeque<Bytes> = match self {
            Cutting::OfMessages => {
                let cut = messages_among(&Bytes::from(whole), wanted);
                [cut.ok_or_else(miscounted)?].into()
            }
            Cutting::OfFlight(wire) => {
                let frames = flight::rows_among(&whole, wire, wanted)?;
                frames.into_iter().flat_map(|frame| frame.pieces).collect()
            }
        };
        Ok(Part { rows, bytes: length_of(&pieces), pieces })
    }
}

fn length_of(pieces: &VecDeque<Bytes>) -> usize {
    pieces.iter().map(Bytes::len).sum()
}

fn miscounted() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "a worker sent other rows than it counted")
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The messages of rows with these numbers.
    fn messages(rows: Range<u8>) -> Vec<u8> {
        rows.flat_map(|row| [b'D', 0, 0, 0, 5, row]).collect()
    }

    /// Ten rows in parts, and then perhaps an error of the worker.
    fn parts(end: Option<Error>) -> PartStream {
        let part = |rows: Range<u8>| {
            let bytes = messages(rows.clone());
            // The pieces may be cut anywhere.
            let (before, behind) = bytes.split_at(bytes.len() / 2);
            let pieces = [before, behind].map(Bytes::copy_from_slice).into();
            Ok(Part { rows: rows.len() as u64, bytes: bytes.len(), pieces })
        };
        let parts = [0..3, 3..4, 4..9, 9..10].map(part).into_iter();
        stream::iter(parts.chain(end.map(Err))).boxed()
    }

    /// The numbers of the rows that are ready at once.
    fn rows_of(mut parts: PartStream) -> Result<Vec<u8>> {
        let mut context = Context::from_waker(Waker::noop());
        let (mut bytes, mut counted) = (Vec::new(), 0);
        while let Poll::Ready(Some(part)) = parts.poll_next_unpin(&mut context) {
            let Part { rows, bytes: length, pieces } = part?;
            assert_eq!(length_of(&pieces), length);
            counted += rows;
            pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        }
        let rows: Vec<u8> = bytes.iter().skip(5).step_by(6).copied().collect();
        assert_eq!(rows.len() as u64, counted);
        Ok(rows)
    }

    #[test]
    fn a_window_has_its_rows_and_no_others() {
        for skip in 0..12_usize {
            for fetch in (0..12_usize).map(Some).chain([None]) {
                let window = Window::new(skip, fetch);
                let found = rows_of(window.over(parts(None), Cutting::OfMessages)).unwrap();
                let wanted = (0..10).skip(skip).take(fetch.unwrap_or(usize::MAX));
                assert_eq!(found, wanted.collect::<Vec<u8>>(), "{window:?}");
            }
        }
    }

    #[test]
    fn what_comes_behind_the_last_row_is_not_read() {
        let broken = || Some(Error::internal("broken"));
        for (fetch, is_whole) in [(3, true), (10, true), (11, false)] {
            let window = Window::default().of_first(Some(fetch));
            let rows = rows_of(window.over(parts(broken()), Cutting::OfMessages));
            assert_eq!(rows.is_ok(), is_whole, "{fetch}");
        }
    }

    #[test]
    fn limits_over_limits_are_one() {
        assert!(Window::new(0, None).of_first(None).is_all());
        assert_eq!(Window::new(7, Some(5)).of_first(Some(12)), Window::new(7, Some(5)));
        assert_eq!(Window::new(7, None).of_first(Some(12)), Window::new(7, Some(5)));
        assert_eq!(Window::new(7, Some(5)).of_first(Some(3)), Window::new(7, Some(0)));
    }

    #[test]
    fn a_part_that_has_fewer_rows_than_it_says_is_refused() {
        let pieces = [Bytes::from(messages(0..2))].into();
        let part = Part { rows: 9, bytes: 12, pieces };
        let error = Cutting::OfMessages.cut(part, 0..5).unwrap_err();
        assert_eq!(error.state(), SqlState::PROTOCOL_VIOLATION);
    }
}
