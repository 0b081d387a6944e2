//! A table as one client writes and reads it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use thalweg_formats::rows::RowsBuilder;
use thalweg_store::arrow_schema;
use thalweg_txn::{
    KeyedChange, Patch, Privilege, Privileges, Put, RoleId, RowCheck, Securable, Snapshot,
};
use thalweg_types::{DataType, Error, Identity, Key, Lsn, Result, SqlState, TableSchema};
use thalweg_values::assign::assign;

use crate::database::Database;
use crate::privileges::Rights;
use crate::sequences::OutsideSessions;
use crate::statement::{Shaper, Target};

/// The kind of change of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// Adds a row; its key must be free.
    Create,
    /// Replaces the row with this key, which must exist.
    Update,
    Upsert,
    /// Removes the row with this key, which must exist.
    Remove,
}

impl RecordChange {
    fn needs(self) -> Privileges {
        match self {
            RecordChange::Create => Privilege::Insert.into(),
            // The key is looked up, as in a WHERE clause.
            RecordChange::Update => [Privilege::Update, Privilege::Select].into_iter().collect(),
            RecordChange::Upsert => {
                [Privilege::Insert, Privilege::Update, Privilege::Select].into_iter().collect()
            }
            RecordChange::Remove => [Privilege::Delete, Privilege::Select].into_iter().collect(),
        }
    }
}

/// The encoding of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Their columns have the table's types.
    Packed,
    /// Their columns have the sender's types.
    Arrow,
}

/// A table, and the columns of it that rows have values for.
pub struct RecordTable {
    pub(super) schema: Arc<TableSchema>,
    pub(super) version: Lsn,
    pub(super) key: Key,
    /// The positions of the columns that rows have values for.
    pub(super) columns: Vec<usize>,
    /// The schema of the table's rows.
    pub(super) row_schema: SchemaRef,
    /// The schema of rows as clients send them.
    pub(super) client_schema: SchemaRef,
    pub(super) key_row: SchemaRef,
    /// The change that updates and upserts make, if they do not have values for all columns.
    patch: Option<Arc<Patch>>,
    allowed: Privileges,
    denied: Error,
    /// True if keys are rounded when they come in.
    rounds_keys: bool,
    /// Completes rows; `None` if they are whole as they come.
    shaper: Option<Arc<Shaper>>,
}

impl RecordTable {
    pub(super) fn new(
        database: &Database,
        snapshot: &Snapshot,
        rights: &Rights,
        target: Target,
        names: &[String],
        form: Form,
    ) -> Result<RecordTable> {
        let schema = Arc::clone(target.schema());
        let allowed = rights.on_rows(&schema.namespace, &schema.name)?;
        let denied = rights.denied(&Securable::relation(&schema.namespace, &schema.name));
        let key = schema.primary_key.clone().ok_or_else(|| no_key(&schema))?;
        let columns = columns(&target, names)?;
        let row_schema = arrow_schema(&schema);
        let pick = |places: &[usize]| {
            let fields = places.iter().map(|place| given_field(&schema, &row_schema, *place));
            Arc::new(Schema::new(fields.collect::<Vec<FieldRef>>()))
        };
        let (client_schema, key_row) = (pick(&columns), pick(&schema.key_positions(&key)));
        let shaper = match form == Form::Packed && is_whole(&schema, &columns) {
            true => None,
            false => Some(Arc::new(shaper(database, snapshot, rights.role(), &schema, &columns)?)),
        };
        let patch = match &shaper {
            Some(shaper) if columns.len() < schema.columns.len() => Some(patch(&columns, shaper)),
            _ => None,
        };
        let version = target.entry.version;
        let mut keys = schema.key_positions(&key).into_iter();
        let rounds_keys = keys.any(|place| schema.columns[place].second_digits.is_some());
        Ok(RecordTable {
            schema,
            version,
            key,
            columns,
            row_schema,
            client_schema,
            key_row,
            patch,
            allowed,
            denied,
            rounds_keys,
            shaper,
        })
    }

    /// The columns that rows have values for.
    #[must_use]
    pub fn row(&self) -> &SchemaRef {
        &self.client_schema
    }

    /// The columns of the primary key, in its order.
    #[must_use]
    pub fn key(&self) -> &SchemaRef {
        &self.key_row
    }

    /// The table's definition as of the snapshot that the table was opened with.
    #[must_use]
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// A builder for the rows of this kind of change.
    pub(super) fn builder(&self, change: RecordChange) -> Result<RowsBuilder> {
        let schema =
            if change == RecordChange::Remove { &self.key_row } else { &self.client_schema };
        RowsBuilder::new(schema.fields().to_vec())
    }

    /// # Errors
    /// If the client lacks the privilege for this change, or the change needs more columns.
    pub fn permit(&self, change: RecordChange) -> Result<()> {
        if !self.allowed.contains(change.needs()) {
            return Err(self.denied.clone());
        }
        match change {
            RecordChange::Upsert if self.patch.is_some() => self.permit_update()?,
            RecordChange::Update => self.permit_update()?,
            _ => {}
        }
        if change != RecordChange::Create {
            return Ok(());
        }
        let always =
            |place: &&usize| self.schema.columns[**place].identity == Some(Identity::Always);
        match self.columns.iter().find(always) {
            None => Ok(()),
            Some(place) => Err(generated(&self.schema.columns[*place].name)),
        }
    }

    /// # Errors
    /// If rows have no values for the key's columns.
    fn permit_update(&self) -> Result<()> {
        let positions = self.schema.key_positions(&self.key);
        match positions.iter().find(|place| !self.columns.contains(place)) {
            None => Ok(()),
            Some(place) => Err(no_key_column(&self.schema.columns[*place].name)),
        }
    }

    /// The change as the database applies it.
    pub(super) fn keyed(&self, change: RecordChange) -> KeyedChange {
        match (change, &self.patch) {
            (RecordChange::Update, Some(patch)) => KeyedChange::Patch(Arc::clone(patch)),
            (RecordChange::Upsert, Some(patch)) => KeyedChange::Merge(Arc::clone(patch)),
            (RecordChange::Create, _) => KeyedChange::Put(Put::Create),
            (RecordChange::Update, None) => KeyedChange::Put(Put::Update),
            (RecordChange::Upsert, None) => KeyedChange::Put(Put::Upsert),
            (RecordChange::Remove, _) => KeyedChange::Remove,
        }
    }

    /// # Errors
    /// If the client may not read rows.
    pub fn permit_search(&self) -> Result<()> {
        if self.allowed.contains(Privilege::Select.into()) {
            Ok(())
        } else {
            Err(self.denied.clone())
        }
    }

    /// Shapes rows for a change: whole rows, or only the given columns for an update. Rows with
    /// errors are left out. Returns the others, and the index and error of each row that was left
    /// out.
    pub(super) fn shape(
        &self,
        change: RecordChange,
        client_schema: RecordBatch,
    ) -> (RecordBatch, Vec<(usize, Error)>) {
        let Some(shaper) = &self.shaper else { return (client_schema, Vec::new()) };
        let patches = change == RecordChange::Update && self.patch.is_some();
        let shape = |rows: &RecordBatch| match patches {
            true => shaper.shape_given(rows),
            false => shaper.shape(rows),
        };
        if let Ok(shaped) = shape(&client_schema) {
            return (shaped, Vec::new());
        }
        let (mut shaped, mut failed) = (Vec::new(), Vec::new());
        for row in 0..client_schema.num_rows() {
            match shape(&client_schema.slice(row, 1)) {
                Ok(one) => shaped.push(one),
                Err(error) => failed.push((row, error)),
            }
        }
        let schema = if patches { shaper.given_schema() } else { &self.row_schema };
        let rows = concat_batches(schema, &shaped);
        (rows.expect("rows of one table have the same columns"), failed)
    }

    /// The keys of given rows, as the table stores them.
    ///
    /// # Errors
    /// If a column of the key is missing, or has a value that does not fit.
    pub(super) fn keys_of(&self, client_schema: &RecordBatch) -> Result<RecordBatch> {
        let mut keys = Vec::with_capacity(self.key.columns.len());
        for place in self.schema.key_positions(&self.key) {
            let column = &self.schema.columns[place];
            let found = self.columns.iter().position(|client_schema| *client_schema == place);
            let found = found.ok_or_else(|| no_key_column(&column.name))?;
            keys.push(assign(
                client_schema.column(found),
                client_schema.schema().field(found),
                column,
            )?);
        }
        self.batch(RecordChange::Remove, keys, client_schema.num_rows())
    }

    /// Keys as the table stores them, from columns that have the table's types.
    ///
    /// # Errors
    /// Only internal errors.
    pub(super) fn kept_keys(&self, mut keys: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        if !self.rounds_keys {
            return Ok(keys);
        }
        let places = self.schema.key_positions(&self.key);
        for ((key, place), field) in keys.iter_mut().zip(places).zip(self.key_row.fields()) {
            let column = &self.schema.columns[place];
            if column.second_digits.is_some() {
                *key = assign(key, field, column)?;
            }
        }
        Ok(keys)
    }

    /// Columns as the rows of a change.
    pub(super) fn batch(
        &self,
        change: RecordChange,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let schema =
            if change == RecordChange::Remove { &self.key_row } else { &self.client_schema };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
            .map_err(|error| Error::internal("rows do not fit their table").with_source(error))
    }
}

/// The positions of named columns, or of all.
fn columns(target: &Target, names: &[String]) -> Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..target.schema().columns.len()).collect());
    }
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let place = target.position(name)?;
        if places.contains(&place) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
        places.push(place);
    }
    Ok(places)
}

/// A column as it is sent. The limit of a text's length is checked only when it is assigned.
fn given_field(schema: &TableSchema, row_schema: &SchemaRef, place: usize) -> FieldRef {
    let field = &row_schema.fields()[place];
    match limited(&schema.columns[place].data_type) {
        true => Arc::new(field.as_ref().clone().with_metadata(HashMap::new())),
        false => Arc::clone(field),
    }
}

fn limited(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Text { max_chars: Some(_) })
}

/// True if given rows are whole as they come.
fn is_whole(schema: &TableSchema, columns: &[usize]) -> bool {
    columns.iter().copied().eq(0..schema.columns.len())
        && schema.checks.is_empty()
        && !schema
            .columns
            .iter()
            .any(|column| limited(&column.data_type) || column.second_digits.is_some())
}

fn shaper(
    database: &Database,
    snapshot: &Snapshot,
    role: RoleId,
    schema: &Arc<TableSchema>,
    columns: &[usize],
) -> Result<Shaper> {
    let gone = || Error::internal("a table of the catalog has no rows");
    let counters = Arc::clone(snapshot.table(schema.id).ok_or_else(gone)?.identities());
    let planners = &database.shared.planners;
    let planner = planners.take()?;
    let mut state = planner.context.state();
    OutsideSessions::attach(&mut state, database, role);
    let shaper = Shaper::new(&state, schema, columns, counters);
    planners.give_back(planner);
    shaper
}

/// The patch of updates and upserts that give some columns, applied where the rows lie.
pub(crate) fn patch_of(
    database: &Database,
    snapshot: &Snapshot,
    schema: &Arc<TableSchema>,
    columns: &[usize],
) -> Result<Arc<Patch>> {
    match schema.checks.is_empty() {
        true => Ok(Arc::new(Patch { columns: columns.to_vec(), check: None })),
        // The shaper only checks rows that are whole.
        false => {
            let shaper = shaper(database, snapshot, RoleId::BOOTSTRAP, schema, columns)?;
            Ok(patch(columns, &Arc::new(shaper)))
        }
    }
}

/// Like [`patch_of`], with the shaper of given rows.
fn patch(columns: &[usize], shaper: &Arc<Shaper>) -> Arc<Patch> {
    let check: Option<RowCheck> = shaper.has_checks().then(|| {
        let shaper = Arc::clone(shaper);
        Arc::new(move |row_schema: &RecordBatch| shaper.check(row_schema)) as RowCheck
    });
    Arc::new(Patch { columns: columns.to_vec(), check })
}

fn no_key(schema: &TableSchema) -> Error {
    let message = format!("table \"{}\" has no primary key", schema.name);
    Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
        .with_hint("Records are written and found by their primary key: add one, or use SQL.")
}

fn no_key_column(column: &str) -> Error {
    let message = format!("a row has no value for column \"{column}\" of the primary key");
    Error::new(SqlState::NOT_NULL_VIOLATION, message)
}

fn generated(column: &str) -> Error {
    let message = format!("cannot insert a non-DEFAULT value into column \"{column}\"");
    Error::new(SqlState::GENERATED_ALWAYS, message)
        .with_detail(format!(
            "Column \"{column}\" is an identity column defined as GENERATED ALWAYS."
        ))
        .with_hint("Announce the table without it.")
}
