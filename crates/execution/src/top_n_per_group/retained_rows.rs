//! The kept rows of each group, copied into batches of their own.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{interleave_record_batch, take_record_batch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use super::best::{Best, PREFIX_BYTES, Place, Rest};
use super::operator::Question;
use crate::compact_texts::with_own_texts;

/// Number of rows in an output batch, and in a batch that compaction builds.
const BATCH_ROWS: usize = 8192;
/// Number of superseded rows that may remain, regardless of the number of best rows.
const WORSE_ROWS: usize = 65_536;
/// Number of batches beyond which rows are compacted into new batches.
const BATCHES_MAX: usize = 4096;

pub(super) struct RetainedRows {
    question: Arc<Question>,
    /// `None` if all rows are one group.
    keys: Option<Box<dyn GroupValues>>,
    /// The group of each row of the current batch.
    groups: Vec<usize>,
    encoder: RowConverter,
    /// The sort key of each of these rows.
    orders: Rows,
    best: BestRows,
    batches: Vec<RecordBatch>,
    rows_in_batches: usize,
    bytes_in_batches: usize,
}

/// The best rows, with short sort keys that fit a prefix or with long ones.
enum BestRows {
    Short(Best<()>),
    Long(Best<Box<[u8]>>),
}

impl RetainedRows {
    /// Starts empty, for input rows of `input_schema`.
    pub fn new(question: &Arc<Question>, schema: &SchemaRef) -> Result<RetainedRows> {
        let typed = |key: &Arc<dyn PhysicalExpr>| {
            Ok(Field::new("", key.data_type(schema)?, key.nullable(schema)?))
        };
        let keys = question.keys.iter().map(typed).collect::<Result<Vec<_>>>()?;
        let keys = match keys.len() {
            0 => None,
            _ => Some(new_group_values(Arc::new(Schema::new(keys)), &GroupOrdering::None)?),
        };
        let mut fields = Vec::new();
        let mut width = Some(0);
        for by in &question.order {
            let data_type = by.expr.data_type(schema)?;
            // Arrow's row format adds one byte for NULL to a value of fixed width.
            width = width.zip(data_type.primitive_width()).map(|(all, one)| all + one + 1);
            fields.push(SortField::new_with_options(data_type, by.options));
        }
        let best = match width {
            Some(bytes) if bytes <= PREFIX_BYTES => BestRows::Short(Best::new(question.rows)),
            _ => BestRows::Long(Best::new(question.rows)),
        };
        let encoder = RowConverter::new(fields)?;
        Ok(RetainedRows {
            question: Arc::clone(question),
            keys,
            groups: Vec::new(),
            orders: encoder.empty_rows(0, 0),
            encoder,
            best,
            batches: Vec::new(),
            rows_in_batches: 0,
            bytes_in_batches: 0,
        })
    }

    /// Number of kept rows that are among the best.
    pub fn rows(&self) -> usize {
        match &self.best {
            BestRows::Short(best) => best.len(),
            BestRows::Long(best) => best.len(),
        }
    }

    /// Memory of rows, keys and entries, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let best = match &self.best {
            BestRows::Short(best) => best.memory_bytes(),
            BestRows::Long(best) => best.memory_bytes(),
        };
        let keys = self.keys.as_ref().map_or(0, |keys| keys.size());
        let of_batch = self.orders.size() + self.groups.capacity() * size_of::<usize>();
        best + keys + of_batch + self.bytes_in_batches
    }

    /// Keeps those rows of a batch that are among the best of their groups so far.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let value = |expression: &Arc<dyn PhysicalExpr>| -> Result<ArrayRef> {
            expression.evaluate(batch)?.into_array(rows)
        };
        let groups = match &mut self.keys {
            None => {
                self.groups.clear();
                self.groups.resize(rows, 0);
                1
            }
            Some(keys) => {
                let columns = self.question.keys.iter().map(value).collect::<Result<Vec<_>>>()?;
                keys.intern(&columns, &mut self.groups)?;
                keys.len()
            }
        };
        let order = self.question.order.iter().map(|by| value(&by.expr));
        let order = order.collect::<Result<Vec<_>>>()?;
        self.orders.clear();
        self.encoder.append(&mut self.orders, &order)?;
        let number = u32::try_from(self.batches.len()).expect("there are few batches");
        let chosen = match &mut self.best {
            BestRows::Short(best) => choose(best, groups, &self.groups, &self.orders, number),
            BestRows::Long(best) => choose(best, groups, &self.groups, &self.orders, number),
        };
        if chosen.is_empty() {
            return Ok(());
        }
        self.push(owned(&take_record_batch(batch, &UInt32Array::from(chosen))?)?);
        let many = self.rows_in_batches > 2 * self.rows() + WORSE_ROWS;
        if many || self.batches.len() > BATCHES_MAX { self.compact() } else { Ok(()) }
    }

    fn push(&mut self, batch: RecordBatch) {
        self.rows_in_batches += batch.num_rows();
        self.bytes_in_batches += batch.get_array_memory_size();
        self.batches.push(batch);
    }

    /// Drops superseded rows by copying the best ones into new batches.
    fn compact(&mut self) -> Result<()> {
        let before = std::mem::take(&mut self.batches);
        (self.rows_in_batches, self.bytes_in_batches) = (0, 0);
        let places = match &mut self.best {
            BestRows::Short(best) => moved(best),
            BestRows::Long(best) => moved(best),
        };
        for places in places.chunks(BATCH_ROWS) {
            self.push(gathered(&before, places)?);
        }
        Ok(())
    }

    /// The rows in batches, group by group and in order, with their numbers in the group.
    pub fn into_batches(self) -> impl Iterator<Item = Result<(RecordBatch, UInt64Array)>> + Send {
        let mut groups: Box<dyn Iterator<Item = Vec<Place>> + Send> = match self.best {
            BestRows::Short(best) => Box::new(best.into_groups()),
            BestRows::Long(best) => Box::new(best.into_groups()),
        };
        let batches = self.batches;
        std::iter::from_fn(move || {
            let (mut places, mut numbers) = (Vec::new(), Vec::new());
            while places.len() < BATCH_ROWS {
                let Some(group) = groups.next() else { break };
                numbers.extend(1..=group.len() as u64);
                places.extend(group);
            }
            if places.is_empty() {
                return None;
            }
            let rows = gathered(&batches, &places);
            Some(rows.map(|rows| (rows, UInt64Array::from(numbers))))
        })
    }
}

/// Offers all rows of a batch, and returns the offsets of those that are kept, in order.
fn choose<R: Rest>(
    best: &mut Best<R>,
    groups: usize,
    group_of: &[usize],
    orders: &Rows,
    batch: u32,
) -> Vec<u32> {
    best.grow(groups);
    let mut chosen = Vec::new();
    for (row, (group, order)) in group_of.iter().zip(orders).enumerate() {
        let place = (batch, chosen.len() as u32);
        if best.offer(*group, order.data(), place) {
            chosen.push(row as u32);
        }
    }
    chosen
}

/// Returns the old places of all rows, and assigns them consecutive new ones.
fn moved<R: Rest>(best: &mut Best<R>) -> Vec<Place> {
    let mut before = Vec::with_capacity(best.len());
    for place in best.places() {
        let now = before.len();
        before.push(*place);
        *place = ((now / BATCH_ROWS) as u32, (now % BATCH_ROWS) as u32);
    }
    before
}

fn gathered(batches: &[RecordBatch], places: &[Place]) -> Result<RecordBatch> {
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    let places: Vec<(usize, usize)> =
        places.iter().map(|place| (place.0 as usize, place.1 as usize)).collect();
    owned(&interleave_record_batch(&batches, &places)?)
}

/// Copies the rows' texts. Text views would keep the buffers of all other rows alive.
fn owned(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(with_own_texts).collect();
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}
