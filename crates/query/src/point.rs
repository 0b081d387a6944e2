//! Statements about the row of one primary key, and queries for a few rows that an index finds.
//! They run without a planner.
//!
//! They are recognised by their shape when they are prepared. The ordinary way runs the statement,
//! and reports the error if there is one, in all doubtful cases: a table that was altered since,
//! missing privileges, a duplicate key, an overflow, a range with many rows.

mod operands;
mod range;
mod recognize;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use thalweg_store::TableState;
use thalweg_txn::{Catalog, Privilege, Privileges, RoleId, Transaction};
use thalweg_types::{Error, Key, Result, RowId, TableSchema};

use crate::outcome::{Outcome, Tag};
use crate::privileges::Rights;
use crate::statement::Shaper;
use crate::workers::KeySearch;
use operands::{Assigned, Constant, KeyOperand, Operands, added};
use range::Range;

pub(crate) use recognize::recognize;

/// A statement about one row, or about a few that are adjacent in an index.
pub(crate) struct Point {
    table: Arc<TableSchema>,
    /// The primary key, or the columns of the index of a range.
    key: Key,
    action: Action,
    /// The literals of the statement. As operands they are numbered after the parameters.
    constants: Vec<Constant>,
}

/// The change or query. Operands are parameters, counted from 0, or constants after them.
enum Action {
    Select {
        key: Vec<KeyOperand>,
        columns: Vec<usize>,
        schema: SchemaRef,
    },
    Range(Box<Range>),
    Insert {
        row: NewRow,
        conflict: Conflict,
    },
    Update {
        key: Vec<KeyOperand>,
        /// Columns with their new values.
        assignments: Vec<(usize, Assigned)>,
        shaper: Shaper,
    },
    Delete {
        key: Vec<KeyOperand>,
    },
}

/// A row that is made of operands.
struct NewRow {
    /// The operands of the given columns, in their order.
    operands: Vec<usize>,
    shaper: Shaper,
}

/// The reaction to a duplicate key.
enum Conflict {
    Refuse,
    Skip,
    /// These columns of the existing row get the new values.
    Update {
        columns: Vec<usize>,
        shaper: Shaper,
    },
}

impl Point {
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.action, Action::Select { .. } | Action::Range(_))
    }

    /// True for a query for a range of an index.
    pub(crate) fn is_range(&self) -> bool {
        matches!(self.action, Action::Range(_))
    }

    /// True for an `INSERT` with an `ON CONFLICT` clause.
    pub(crate) fn is_upsert(&self) -> bool {
        match &self.action {
            Action::Insert { conflict, .. } => !matches!(conflict, Conflict::Refuse),
            _ => false,
        }
    }

    /// True if a role may run this statement.
    pub(crate) fn is_permitted(&self, catalog: &Arc<Catalog>, role: RoleId) -> bool {
        if catalog.roles().is_superuser(role) {
            return true;
        }
        let rights = Rights::new(Arc::clone(catalog), role);
        rights.on_relation(&self.table.namespace, &self.table.name, self.needs()).is_ok()
    }

    fn needs(&self) -> Privileges {
        use Privilege::{Delete, Insert, Select, Update};
        // A statement that finds a row by its key, or returns it, needs `SELECT`.
        let needs: &[Privilege] = match &self.action {
            Action::Select { .. } | Action::Range(_) => &[Select],
            Action::Insert { conflict: Conflict::Refuse, .. } => &[Insert],
            Action::Insert { conflict: Conflict::Skip, .. } => &[Insert, Select],
            Action::Insert { conflict: Conflict::Update { .. }, .. } => &[Insert, Select, Update],
            Action::Update { .. } => &[Update, Select],
            Action::Delete { .. } => &[Delete, Select],
        };
        needs.iter().copied().collect()
    }

    /// Runs the statement in the transaction. Returns `None` if the ordinary way must run it.
    ///
    /// # Errors
    /// A value that does not fit its column, or a constraint that does not hold.
    pub(crate) fn run(
        &self,
        transaction: &mut Transaction,
        parameters: &[FieldRef],
        values: &[ScalarValue],
    ) -> Result<Option<Outcome>> {
        if !self.is_about(transaction.catalog()) {
            return Ok(None);
        }
        let Some(given) = Operands::new(parameters, values, &self.constants) else {
            return Ok(None);
        };
        if self.may_remove_keys(transaction.catalog()) {
            return Ok(None);
        }
        let state = transaction.state(self.table.id)?;
        match &self.action {
            Action::Select { key, columns, schema } => {
                self.select(&state, &given, key, columns, schema).map(Some)
            }
            Action::Range(range) if given.are(values) => range.select(&state, &given),
            Action::Range(_) => Ok(None),
            Action::Insert { row, conflict } => {
                self.insert(transaction, &state, &given, row, conflict)
            }
            Action::Update { key, assignments, shaper } => {
                self.update(transaction, &state, &given, key, (assignments, shaper))
            }
            Action::Delete { key } => {
                let found = self.find(&state, &given, key)?;
                if let Some(id) = found {
                    transaction.kill(self.table.id, &[id])?;
                }
                Ok(Some(Outcome::done(Tag::Delete(u64::from(found.is_some())))))
            }
        }
    }

    /// True if the statement may remove a key that foreign keys refer to.
    fn may_remove_keys(&self, catalog: &Catalog) -> bool {
        if !catalog.is_referenced(self.table.id) {
            return false;
        }
        let changed: Vec<usize> = match &self.action {
            Action::Delete { .. } => return true,
            Action::Update { assignments, .. } => {
                assignments.iter().map(|(column, _)| *column).collect()
            }
            Action::Insert { conflict: Conflict::Update { columns, .. }, .. } => columns.clone(),
            _ => return false,
        };
        let mut keys = catalog.references_to(self.table.id);
        keys.any(|(_, key)| {
            let mut positions = key.parent_columns.iter().map(|id| self.table.position(*id));
            positions.any(|at| at.is_some_and(|at| changed.contains(&at)))
        })
    }

    /// True if the table has not changed since the statement was prepared, and its name still
    /// means it.
    pub(crate) fn is_about(&self, catalog: &Catalog) -> bool {
        catalog.table(self.table.id).is_some_and(|now| now.schema == self.table)
            && !catalog.is_shadowed(&self.table)
    }

    /// The request for the row of a query, for a node that holds the row if this database does not.
    /// `None` if the ordinary way must run the query.
    ///
    /// # Errors
    /// A value that cannot be read.
    pub(crate) fn search(
        &self,
        parameters: &[FieldRef],
        values: &[ScalarValue],
    ) -> Result<Option<KeySearch>> {
        let Action::Select { key, columns, .. } = &self.action else { return Ok(None) };
        let Some(given) = Operands::new(parameters, values, &self.constants) else {
            return Ok(None);
        };
        // The ordinary way answers for a key that no row can have.
        let Some(values) = given.key(key)? else { return Ok(None) };
        Ok(Some(KeySearch {
            table: Arc::clone(&self.table),
            key: self.key.clone(),
            values,
            columns: Some(columns.clone()),
            hidden: Arc::from([]),
        }))
    }

    /// The outcome of a query whose row came from another node; `values` is empty if there is no
    /// such row.
    ///
    /// # Errors
    /// If the row has other columns.
    pub(crate) fn outcome_of_values(&self, values: &RecordBatch) -> Result<Outcome> {
        let Action::Select { schema, .. } = &self.action else {
            return Err(Error::internal("only rows of queries are told"));
        };
        let rows = batch(schema, values.columns().to_vec(), values.num_rows())?;
        Ok(Outcome::batches(Arc::clone(schema), vec![rows], Tag::Select))
    }

    fn select(
        &self,
        state: &TableState,
        given: &Operands<'_>,
        key: &[KeyOperand],
        columns: &[usize],
        schema: &SchemaRef,
    ) -> Result<Outcome> {
        let found = self.find(state, given, key)?;
        let rows = match found {
            None => Vec::new(),
            Some(id) => {
                vec![batch(schema, state.row_at(id, columns)?, 1)?]
            }
        };
        Ok(Outcome::batches(Arc::clone(schema), rows, Tag::Select))
    }

    fn insert(
        &self,
        transaction: &mut Transaction,
        state: &TableState,
        operands: &Operands<'_>,
        row: &NewRow,
        conflict: &Conflict,
    ) -> Result<Option<Outcome>> {
        if !row.shaper.counts_with(state.identities()) {
            return Ok(None);
        }
        let fields = row.operands.iter().map(|at| operands.field(*at));
        let columns = row.operands.iter().map(|at| operands.array(*at)).collect::<Result<_>>()?;
        let new = row.shaper.shape(&given(fields, columns)?)?;
        let positions = self.table.key_positions(&self.key);
        let key: Vec<ArrayRef> = positions.iter().map(|at| Arc::clone(new.column(*at))).collect();
        let holder = state.find(&self.key, &key);
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
                transaction.kill_replaced(self.table.id, &[id], &merged)?;
                transaction.append(self.table.id, merged)?;
            }
        }
        Ok(Some(Outcome::done(Tag::Insert(1))))
    }

    fn update(
        &self,
        transaction: &mut Transaction,
        state: &TableState,
        operands: &Operands<'_>,
        key: &[KeyOperand],
        (assignments, shaper): (&[(usize, Assigned)], &Shaper),
    ) -> Result<Option<Outcome>> {
        let Some(id) = self.find(state, operands, key)? else {
            return Ok(Some(Outcome::done(Tag::Update(0))));
        };
        let old = self.whole_row(state, id)?;
        let (mut columns, mut fields) = (old.clone(), Vec::with_capacity(assignments.len()));
        for (column, assigned) in assignments {
            columns[*column] = match assigned {
                Assigned::Operand(at) => {
                    fields.push((*column, operands.field(*at)));
                    operands.array(*at)?
                }
                Assigned::Sum(at, sign) => {
                    match added(&old[*column], &operands.array(*at)?, *sign) {
                        Some(sum) => sum,
                        None => return Ok(None),
                    }
                }
            };
        }
        let row = shaper.shape(&self.row(columns, fields.into_iter())?)?;
        let is_new = |column| assignments.iter().any(|(assigned, _)| *assigned == column);
        if self.takes_key(state, &row, Some(id), is_new) {
            return Ok(None);
        }
        transaction.kill_replaced(self.table.id, &[id], &row)?;
        transaction.append(self.table.id, row)?;
        Ok(Some(Outcome::done(Tag::Update(1))))
    }

    /// True if a row with new values in some columns has the key of an existing row other than the
    /// one that it replaces.
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
            let holder = state.find(key, &columns);
            holder.is_some() && holder != replaced
        })
    }

    /// The live row of the key.
    fn find(
        &self,
        state: &TableState,
        given: &Operands<'_>,
        key: &[KeyOperand],
    ) -> Result<Option<RowId>> {
        Ok(given.key(key)?.and_then(|key| state.find(&self.key, &key)))
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

/// A row of given values. A field may specify the item type of an array if its value does not.
fn given<'a>(
    fields: impl Iterator<Item = &'a FieldRef>,
    columns: Vec<ArrayRef>,
) -> Result<RecordBatch> {
    let fields = fields.zip(&columns).map(|(field, column)| {
        if field.is_nullable() && field.data_type() == column.data_type() {
            return Arc::clone(field);
        }
        // NULL constraints are checked when the row is shaped.
        let field = field.as_ref().clone().with_data_type(column.data_type().clone());
        Arc::new(field.with_nullable(true))
    });
    batch(&Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns, 1)
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| Error::internal("values do not fit their columns").with_source(error))
}
