//! Statements about the row of one primary key, run without a planner.
//!
//! They are recognised when they are prepared, by their shape alone. Whatever this way can't be
//! sure of - a table that was altered since, rights that must be looked up, a key that is taken -
//! it leaves to the ordinary one, which then says what there is to say.

mod recognize;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use thalweg_store::TableState;
use thalweg_txn::Transaction;
use thalweg_types::{Error, Key, Result, RowId, TableSchema};

use crate::outcome::{Outcome, Tag};
use crate::statement::Shaper;

pub(crate) use recognize::recognize;

/// A statement about one row.
pub(crate) struct Point {
    table: Arc<TableSchema>,
    key: Key,
    action: Action,
}

/// What is done to the row. Parameters are counted from 0.
enum Action {
    Select {
        /// The parameter of each of the key's columns.
        key: Vec<usize>,
        columns: Vec<usize>,
        schema: SchemaRef,
    },
    Insert {
        row: NewRow,
        conflict: Conflict,
    },
    Update {
        key: Vec<usize>,
        /// Columns with the parameters that they are set to.
        assignments: Vec<(usize, usize)>,
        shaper: Shaper,
    },
    Delete {
        key: Vec<usize>,
    },
}

/// A row out of parameters.
struct NewRow {
    /// The parameters of the given columns, in their order.
    parameters: Vec<usize>,
    shaper: Shaper,
}

/// What a key that is taken means.
enum Conflict {
    Refuse,
    Skip,
    /// These columns of the row that is there get the new values.
    Update {
        columns: Vec<usize>,
        shaper: Shaper,
    },
}

impl Point {
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.action, Action::Select { .. })
    }

    /// Does what the statement says to the transaction; `None` where the ordinary way must.
    ///
    /// # Errors
    /// A value that does not fit its column, or a constraint that does not hold.
    pub(crate) fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[FieldRef],
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        let catalog = transaction.catalog();
        let same = catalog.table(self.table.id).is_some_and(|now| now.schema == self.table);
        if !same {
            return Ok(None);
        }
        // Whoever binds values may have them in other types.
        let Some(values) = in_types_of(parameters, values) else { return Ok(None) };
        let values = values.as_slice();
        let state = transaction.state(self.table.id)?;
        match &self.action {
            Action::Select { key, columns, schema } => {
                self.select(&state, values, key, columns, schema).map(Some)
            }
            Action::Insert { row, conflict } => {
                self.insert(transaction, &state, (parameters, values), row, conflict)
            }
            Action::Update { key, assignments, shaper } => {
                let Some(id) = self.find(&state, values, key)? else {
                    return Ok(Some(Outcome::done(Tag::Update(0))));
                };
                let mut columns = self.whole_row(&state, id)?;
                for (column, parameter) in assignments {
                    columns[*column] = array(&values[*parameter])?;
                }
                let fields = assignments.iter().map(|(column, at)| (*column, &parameters[*at]));
                let row = shaper.shape(&self.row(columns, fields)?)?;
                let is_new = |column| assignments.iter().any(|(assigned, _)| *assigned == column);
                if self.takes_key(&state, &row, Some(id), is_new) {
                    return Ok(None);
                }
                transaction.kill(self.table.id, &[id])?;
                transaction.append(self.table.id, row)?;
                Ok(Some(Outcome::done(Tag::Update(1))))
            }
            Action::Delete { key } => {
                let found = self.find(&state, values, key)?;
                if let Some(id) = found {
                    transaction.kill(self.table.id, &[id])?;
                }
                Ok(Some(Outcome::done(Tag::Delete(u64::from(found.is_some())))))
            }
        }
    }

    fn select(
        &self,
        state: &TableState,
        values: &[ScalarValue],
        key: &[usize],
        columns: &[usize],
        schema: &SchemaRef,
    ) -> Result<Outcome> {
        let found = self.find(state, values, key)?;
        let rows = match found {
            None => Vec::new(),
            Some(id) => {
                vec![batch(schema, state.row_at(id, columns)?)?]
            }
        };
        Ok(Outcome::batches(Arc::clone(schema), rows, Tag::Select))
    }

    fn insert(
        &self,
        transaction: &mut Transaction,
        state: &TableState,
        (parameters, values): (&[FieldRef], &[ScalarValue]),
        row: &NewRow,
        conflict: &Conflict,
    ) -> Result<Option<Outcome>> {
        if !row.shaper.counts_with(state.identities()) {
            return Ok(None);
        }
        let fields = row.parameters.iter().map(|at| &parameters[*at]);
        let columns = row.parameters.iter().map(|at| array(&values[*at])).collect::<Result<_>>()?;
        let new = row.shaper.shape(&given(fields, columns)?)?;
        let positions = self.table.key_positions(&self.key);
        let key: Vec<ArrayRef> = positions.iter().map(|at| Arc::clone(new.column(*at))).collect();
        let holder = state.probe(&self.key, &key).into_iter().next().flatten();
        match (holder, conflict) {
            (None, _) if self.takes_key(state, &new, None, |_| true) => return Ok(None),
            (None, _) => transaction.append(self.table.id, new)?,
            (Some(_), Conflict::Refuse) => return Ok(None),
            (Some(_), Conflict::Skip) => return Ok(Some(Outcome::done(Tag::Insert(0)))),
            (Some(id), Conflict::Update { columns, shaper }) => {
                let mut merged = self.whole_row(state, id)?;
                for column in columns {
                    merged[*column] = Arc::clone(new.column(*column));
                }
                let merged = shaper.shape(&self.row(merged, std::iter::empty())?)?;
                if self.takes_key(state, &merged, Some(id), |column| columns.contains(&column)) {
                    return Ok(None);
                }
                transaction.kill(self.table.id, &[id])?;
                transaction.append(self.table.id, merged)?;
            }
        }
        Ok(Some(Outcome::done(Tag::Insert(1))))
    }

    /// Whether a row that has new values in some columns has the key of one that is there, other
    /// than the one that it replaces.
    fn takes_key(
        &self,
        state: &TableState,
        row: &RecordBatch,
        replaced: Option<RowId>,
        is_new: impl Fn(usize) -> bool,
    ) -> bool {
        self.table.keys().any(|key| {
            let positions = self.table.key_positions(key);
            if !positions.iter().any(|at| is_new(*at)) {
                return false;
            }
            let columns: Vec<ArrayRef> =
                positions.iter().map(|at| Arc::clone(row.column(*at))).collect();
            let holder = state.probe(key, &columns).into_iter().next().flatten();
            holder.is_some() && holder != replaced
        })
    }

    /// The live row of the key.
    fn find(
        &self,
        state: &TableState,
        values: &[ScalarValue],
        key: &[usize],
    ) -> Result<Option<RowId>> {
        let columns = key.iter().map(|at| array(&values[*at])).collect::<Result<Vec<_>>>()?;
        Ok(state.probe(&self.key, &columns).into_iter().next().flatten())
    }

    fn whole_row(&self, state: &TableState, id: RowId) -> Result<Vec<ArrayRef>> {
        let all: Vec<usize> = (0..self.table.columns.len()).collect();
        state.row_at(id, &all)
    }

    /// A whole row whose columns have the table's types, but for those of `other`.
    fn row<'a>(
        &self,
        columns: Vec<ArrayRef>,
        other: impl Iterator<Item = (usize, &'a FieldRef)>,
    ) -> Result<RecordBatch> {
        let mut fields = thalweg_store::arrow_schema(&self.table).fields().to_vec();
        for (column, field) in other {
            fields[column] = Arc::clone(field);
        }
        given(fields.iter(), columns)
    }
}

/// The values in the types of their parameters; `None` where one of them does not become that.
fn in_types_of(parameters: &[FieldRef], values: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
    let converted = parameters.iter().zip(values).map(|(parameter, value)| {
        match value.data_type() == *parameter.data_type() {
            true => Some(value.clone()),
            false => value.cast_to(parameter.data_type()).ok(),
        }
    });
    converted.collect()
}

fn array(value: &ScalarValue) -> Result<ArrayRef> {
    value.to_array().map_err(|error| {
        Error::internal("the value of a parameter cannot be read").with_source(error)
    })
}

/// A row of given values. A field may name the type of an array's items where its value does not.
fn given<'a>(
    fields: impl Iterator<Item = &'a FieldRef>,
    columns: Vec<ArrayRef>,
) -> Result<RecordBatch> {
    let fields = fields.zip(&columns).map(|(field, column)| {
        if field.is_nullable() && field.data_type() == column.data_type() {
            return Arc::clone(field);
        }
        // What may not be NULL is checked when the row is shaped.
        let field = field.as_ref().clone().with_data_type(column.data_type().clone());
        Arc::new(field.with_nullable(true))
    });
    batch(&Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal("values do not fit their columns").with_source(error))
}
