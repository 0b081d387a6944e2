//! Rows with duplicate keys: they are refused, skipped, or turned into updates.
//!
//! The keys of new rows are looked up in the transaction's state of the table and among the new
//! rows themselves. On a gateway, the workers that own the keys are asked.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use arrow::row::{Row, RowConverter, Rows, SortField};
use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ConflictTarget, DoUpdate, Expr, Ident, OnConflict, OnConflictAction, Query,
    Visitor,
};
use thalweg_dialect::walk;
use thalweg_execution::scan::ROW_ID;
use thalweg_store::TableState;
use thalweg_types::{Error, Key, Result, RowId, SqlState, TableSchema};

use super::found_rows::{concat, replace};
use super::rows::values_of;
use super::update::Assignments;
use super::{Execution, Target, ast_tools, folded};
use crate::catalog::TEMPORARY;
use crate::plan;
use crate::workers::KeySearch;

/// The contents of an `ON CONFLICT` clause.
pub(super) struct Conflicts {
    keys: Vec<Key>,
    update: Option<DoUpdate>,
}

impl Conflicts {
    pub(super) fn of(target: &Target, on: &OnConflict) -> Result<Conflicts> {
        let schema = target.schema();
        let keys = match &on.conflict_target {
            None => schema.keys().cloned().collect(),
            Some(ConflictTarget::Columns(columns)) => {
                let mut wanted = Vec::with_capacity(columns.len());
                for column in columns {
                    wanted.push(schema.columns[target.position(&folded(column))?].id);
                }
                wanted.sort_unstable();
                let key = schema.keys().find(|key| {
                    let mut columns = key.columns.clone();
                    columns.sort_unstable();
                    columns == wanted
                });
                vec![key.cloned().ok_or_else(no_such_key)?]
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let name = name.0.last().and_then(|part| part.as_ident()).map(folded);
                let key = schema.keys().find(|key| Some(&key.name) == name.as_ref());
                vec![key.cloned().ok_or_else(|| no_such_constraint(target, name))?]
            }
        };
        let update = match &on.action {
            OnConflictAction::DoNothing => None,
            OnConflictAction::DoUpdate(update) => Some(update.clone()),
        };
        if let Some(update) = &update {
            check_qualified(update, schema)?;
        }
        if update.is_some() && on.conflict_target.is_none() {
            let message = "ON CONFLICT DO UPDATE requires inference specification or \
                           constraint name";
            return Err(Error::new(SqlState::SYNTAX_ERROR, message)
                .with_hint("For example, ON CONFLICT (column_name)."));
        }
        Ok(Conflicts { keys, update })
    }

    /// Inserts the rows whose keys are free and applies the clause to the others. Returns the rows
    /// that were inserted or updated, with their new values, and their number.
    pub(super) async fn resolve(
        self,
        execution: &Execution<'_>,
        target: &Target,
        rows: RecordBatch,
        alias: Option<&Ident>,
    ) -> Result<(RecordBatch, usize)> {
        let id = target.id();
        let state = execution.names.with(|t| t.state(id))?;
        let mut held = Held::default();
        let mut holders = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            holders.push(held.look_up(execution, &state, target, key, &rows).await?);
        }
        let KeyConflicts { free, taken } = self.key_conflicts(holders, target, &rows)?;
        let inserted = take(&rows, free.into_iter())?;
        let updated = match &self.update {
            Some(update) if !taken.is_empty() => {
                apply(execution, target, (&held, &state), update, &rows, &taken, alias).await?
            }
            _ => rows.slice(0, 0),
        };
        // An update may have taken any key. Without updates, the keys of the clause are known to be
        // free.
        let unknown = |key: &Key| updated.num_rows() > 0 || !self.keys.contains(key);
        reject_taken(execution, target, &inserted, unknown)?;
        execution.names.with(|t| t.append(id, inserted.clone()))?;
        let changed = concat(target.schema(), &[inserted, updated])?;
        let count = changed.num_rows();
        Ok((changed, count))
    }

    /// For each row, tests whether its key is taken by an existing row or by one before it.
    fn key_conflicts(
        &self,
        holders: Vec<Vec<Option<RowId>>>,
        target: &Target,
        rows: &RecordBatch,
    ) -> Result<KeyConflicts> {
        let mut keys = Vec::with_capacity(self.keys.len());
        for (key, holders) in self.keys.iter().zip(holders) {
            keys.push((KeyValues::of(target, key, rows)?, holders));
        }
        let mut given: Vec<HashSet<Row<'_>>> = vec![HashSet::new(); keys.len()];
        let mut held = HashSet::new();
        let mut key_conflicts =
            KeyConflicts { free: Vec::with_capacity(rows.num_rows()), taken: Vec::new() };
        for row in 0..rows.num_rows() {
            let values = || keys.iter().map(|(values, _)| values.at(row)).zip(&given);
            if let Some(holder) = keys.iter().find_map(|(_, holders)| holders[row]) {
                if self.update.is_some() && !held.insert(holder) {
                    return Err(second_time());
                }
                key_conflicts.taken.push((row as u32, holder));
            } else if values().any(|(value, given)| value.is_some_and(|v| given.contains(&v))) {
                if self.update.is_some() {
                    return Err(second_time());
                }
            } else {
                for ((values, _), given) in keys.iter().zip(&mut given) {
                    given.extend(values.at(row));
                }
                key_conflicts.free.push(row as u32);
            }
        }
        Ok(key_conflicts)
    }
}

/// Rows on workers that have the keys of new rows.
#[derive(Default)]
struct Held {
    places: HashMap<RowId, usize>,
    rows: Vec<RecordBatch>,
    count: usize,
}

impl Held {
    /// For each row, the existing row with its key: here, or on a worker.
    async fn look_up(
        &mut self,
        execution: &Execution<'_>,
        state: &TableState,
        target: &Target,
        key: &Key,
        rows: &RecordBatch,
    ) -> Result<Vec<Option<RowId>>> {
        let mut holders = probe(state, target, key, rows);
        let cluster = execution.names.cluster();
        if !cluster.holds(target.schema()) || rows.num_rows() == 0 {
            return Ok(holders);
        }
        // Workers do not know a table that this transaction created, and have no rows of it.
        if execution.names.with(|t| Ok(t.snapshot().table(target.id()).is_none()))? {
            return Ok(holders);
        }
        let (truncated, hidden) = execution.names.with(|t| Ok(t.killed_elsewhere(target.id())))?;
        let search = KeySearch {
            table: Arc::clone(target.schema()),
            key: key.clone(),
            values: key_columns(target, key, rows),
            columns: None,
            hidden,
        };
        let found = cluster.lookups.find(search).await?.all()?;
        let there = found.rows.iter().flatten().enumerate();
        self.places.extend(there.map(|(place, row)| (*row, self.count + place)));
        self.count += found.values.num_rows();
        self.rows.push(found.values);
        for (holder, there) in holders.iter_mut().zip(found.rows) {
            let there = there.filter(|_| !truncated);
            *holder = holder.or(there);
        }
        Ok(holders)
    }

    /// The rows at these ids, either fetched from workers or local.
    fn rows_at(&self, state: &TableState, target: &Target, ids: &[RowId]) -> Result<RecordBatch> {
        if self.places.is_empty() {
            return state.rows_at(ids);
        }
        let mut parts = Vec::with_capacity(ids.len());
        let there = concat(target.schema(), &self.rows)?;
        for id in ids {
            parts.push(match self.places.get(id) {
                Some(place) => there.slice(*place, 1),
                None => state.rows_at(&[*id])?,
            });
        }
        concat(target.schema(), &parts)
    }
}

/// Refuses column names without their table, which are ambiguous between the existing and the
/// proposed row. Planning would find them too, but only for an update that has rows. Names in
/// subqueries are left to planning: they may belong to the subquery.
fn check_qualified(update: &DoUpdate, schema: &TableSchema) -> Result<()> {
    let mut names = UnqualifiedNames { schema, subqueries: 0 };
    match walk::visit(update, &mut names) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            let message = format!("column reference \"{name}\" is ambiguous");
            Err(Error::new(SqlState::AMBIGUOUS_COLUMN, message))
        }
    }
}

struct UnqualifiedNames<'s> {
    schema: &'s TableSchema,
    /// Number of subqueries around the expression.
    subqueries: usize,
}

impl Visitor for UnqualifiedNames<'_> {
    type Break = String;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<String> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        if let (Expr::Identifier(name), 0) = (expr, self.subqueries) {
            let name = folded(name);
            if self.schema.columns.iter().any(|column| column.name == name) {
                return ControlFlow::Break(name);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The rows to insert and to update. Rows in neither list are skipped.
struct KeyConflicts {
    free: Vec<u32>,
    /// Pairs of a row and the existing row with its key.
    taken: Vec<(u32, RowId)>,
}

/// `DO UPDATE SET`: joins each existing row with its proposed row, as `excluded`. Both have the
/// same columns, so that a name without its table is ambiguous.
async fn apply(
    execution: &Execution<'_>,
    target: &Target,
    (held, state): (&Held, &TableState),
    update: &DoUpdate,
    rows: &RecordBatch,
    taken: &[(u32, RowId)],
    alias: Option<&Ident>,
) -> Result<RecordBatch> {
    let ids: Vec<RowId> = taken.iter().map(|(_, id)| *id).collect();
    let existing = with_row_ids(held.rows_at(state, target, &ids)?, &ids)?;
    let proposed = take(rows, taken.iter().map(|(row, _)| *row))?;
    let proposed = with_row_ids(proposed, &ids)?;
    let name = Ident::with_quote('"', target.schema().name.as_str());
    let alias = alias.unwrap_or(&name);
    let excluded = Ident::with_quote('"', "excluded");
    execution.names.register_temporary("existing", mem_table(existing)?);
    execution.names.register_temporary("excluded", mem_table(proposed)?);

    let assignments = Assignments::of(target, &update.assignments)?;
    assignments.stay_in_place(execution, target)?;
    let same_row = Expr::BinaryOp {
        left: Box::new(ast_tools::column(alias, ROW_ID)),
        op: BinaryOperator::Eq,
        right: Box::new(ast_tools::column(&excluded, ROW_ID)),
    };
    let selection = match &update.selection {
        None => same_row,
        Some(condition) => Expr::BinaryOp {
            left: Box::new(same_row),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(Box::new(condition.clone()))),
        },
    };
    let query = ast_tools::select(
        assignments.projection(target, alias),
        vec![
            ast_tools::table(TEMPORARY, TEMPORARY, "existing", alias.clone()),
            ast_tools::table(TEMPORARY, TEMPORARY, "excluded", excluded),
        ],
        Some(selection),
    );
    let planned = execution.translate(plan::query(&execution.state, query).await)?;
    let (_, batches) = plan::collect(&execution.state, planned, execution.sql).await?;
    let rows = replace(execution, target, batches).await?;
    concat(target.schema(), &rows)
}

/// Refuses duplicate keys. In a transaction block, the statement fails at once.
pub(super) fn reject_duplicates(
    execution: &Execution<'_>,
    target: &Target,
    rows: &RecordBatch,
) -> Result<()> {
    reject_taken(execution, target, rows, |_| true)
}

/// Like [`reject_duplicates`], for keys of rows on workers.
pub(super) async fn reject_held_elsewhere(
    execution: &Execution<'_>,
    target: &Target,
    rows: &RecordBatch,
) -> Result<()> {
    if !execution.names.cluster().holds(target.schema()) {
        return Ok(());
    }
    let state = execution.names.with(|t| t.state(target.id()))?;
    let mut held = Held::default();
    for key in target.schema().keys() {
        let holders = held.look_up(execution, &state, target, key, rows).await?;
        if let Some(row) = holders.iter().position(Option::is_some) {
            return Err(duplicate(target, key, rows, row));
        }
    }
    Ok(())
}

/// Like [`reject_duplicates`], for loaded rows, which `state` does not contain yet.
pub(crate) fn reject_loaded(state: &TableState, target: &Target, rows: &RecordBatch) -> Result<()> {
    for key in target.schema().keys() {
        if let Some((row, _)) = first_taken(state, target, key, rows)? {
            return Err(duplicate(target, key, rows, row));
        }
    }
    Ok(())
}

/// Refuses rows whose key another row has, be it an existing row or one of the new ones. Checks
/// only the keys that are selected.
fn reject_taken(
    execution: &Execution<'_>,
    target: &Target,
    rows: &RecordBatch,
    asked: impl Fn(&Key) -> bool,
) -> Result<()> {
    let state = execution.names.with(|t| t.state(target.id()))?;
    for key in target.schema().keys().filter(|key| asked(key)) {
        let Some((row, holder)) = first_taken(&state, target, key, rows)? else { continue };
        if let Some(holder) = holder {
            execution.names.with(|t| {
                t.note_duplicate(target.id(), holder);
                Ok(())
            })?;
        }
        return Err(duplicate(target, key, rows, row));
    }
    Ok(())
}

/// The first row whose key another row has, and that row unless it is one of the new ones.
fn first_taken(
    state: &TableState,
    target: &Target,
    key: &Key,
    rows: &RecordBatch,
) -> Result<Option<(usize, Option<RowId>)>> {
    let holders = probe(state, target, key, rows);
    let values = KeyValues::of(target, key, rows)?;
    let mut given = HashSet::with_capacity(rows.num_rows());
    let is_taken = |row: &usize| {
        holders[*row].is_some() || values.at(*row).is_some_and(|value| !given.insert(value))
    };
    let taken = (0..rows.num_rows()).find(is_taken);
    Ok(taken.map(|row| (row, holders[row])))
}

fn duplicate(target: &Target, key: &Key, rows: &RecordBatch, row: usize) -> Error {
    key_is_taken(target.schema(), key, rows, row)
}

/// PostgreSQL's error for a duplicate key.
pub(crate) fn key_is_taken(
    table: &TableSchema,
    key: &Key,
    rows: &RecordBatch,
    row: usize,
) -> Error {
    let positions = table.key_positions(key);
    let names: Vec<&str> = positions.iter().map(|p| table.columns[*p].name.as_str()).collect();
    let columns: Vec<ArrayRef> = positions.iter().map(|p| Arc::clone(rows.column(*p))).collect();
    let values = values_of(&columns, row);
    let message = format!("duplicate key value violates unique constraint \"{}\"", key.name);
    Error::new(SqlState::UNIQUE_VIOLATION, message)
        .with_detail(format!("Key ({})=({values}) already exists.", names.join(", ")))
        .with_constraint(table, &key.name)
}

fn key_columns(target: &Target, key: &Key, rows: &RecordBatch) -> Vec<ArrayRef> {
    let positions = target.schema().key_positions(key);
    positions.into_iter().map(|position| Arc::clone(rows.column(position))).collect()
}

fn probe(state: &TableState, target: &Target, key: &Key, rows: &RecordBatch) -> Vec<Option<RowId>> {
    state.probe(key, &key_columns(target, key, rows))
}

/// The values of rows in the columns of a key, in a comparable form.
struct KeyValues {
    columns: Vec<ArrayRef>,
    values: Rows,
}

impl KeyValues {
    fn of(target: &Target, key: &Key, rows: &RecordBatch) -> Result<KeyValues> {
        let columns = key_columns(target, key, rows);
        let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
        let values = RowConverter::new(fields.collect())
            .and_then(|converter: RowConverter| converter.convert_columns(&columns))
            .map_err(|error| Error::internal("keys cannot be compared").with_source(error))?;
        Ok(KeyValues { columns, values })
    }

    /// `None` if one of the values is NULL: such a key equals no other.
    fn at(&self, row: usize) -> Option<Row<'_>> {
        self.columns.iter().all(|column| column.is_valid(row)).then(|| self.values.row(row))
    }
}

fn take(rows: &RecordBatch, which: impl Iterator<Item = u32>) -> Result<RecordBatch> {
    take_record_batch(rows, &UInt32Array::from_iter_values(which))
        .map_err(|error| Error::internal("rows cannot be picked").with_source(error))
}

fn with_row_ids(rows: RecordBatch, ids: &[RowId]) -> Result<RecordBatch> {
    let mut fields = rows.schema().fields().to_vec();
    fields.push(Arc::new(Field::new(ROW_ID, DataType::UInt64, false)));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(UInt64Array::from_iter_values(ids.iter().map(|id| id.0))));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| Error::internal("row ids do not fit").with_source(error))
}

fn mem_table(rows: RecordBatch) -> Result<Arc<MemTable>> {
    MemTable::try_new(rows.schema(), vec![vec![rows]])
        .map(Arc::new)
        .map_err(|error| Error::internal("rows cannot be looked at").with_source(error))
}

fn second_time() -> Error {
    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    Error::new(SqlState::CARDINALITY_VIOLATION, message)
        .with_hint("Ensure that no rows proposed for insertion have duplicate key values.")
}

fn no_such_key() -> Error {
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT \
                   specification";
    Error::new(SqlState::INVALID_COLUMN_REFERENCE, message)
        .with_hint("Name the columns of the primary key or of a unique constraint.")
}

fn no_such_constraint(target: &Target, name: Option<String>) -> Error {
    let (name, table) = (name.unwrap_or_default(), &target.schema().name);
    let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
    Error::new(SqlState::UNDEFINED_OBJECT, message)
}
