//! Tables that a stream has announced.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use prost::Message as _;
use thalweg_protocol::{Malformed, TABLE_NUMBERS, v1};
use thalweg_query::{RecordTable, Records};
use thalweg_types::{Error, Result, SqlState};

/// Announced tables by their numbers.
#[derive(Default)]
pub(super) struct Tables(Vec<Option<Announced>>);

struct Announced {
    name: String,
    columns: Vec<String>,
    /// The table, or the error that every row of it gets.
    found: Result<Arc<RecordTable>>,
    /// The latest table for record batches, with the schema of these batches.
    batches: Option<(SchemaRef, Arc<RecordTable>)>,
}

impl Announced {
    fn look(&mut self, records: &Records) {
        self.found = records.table(&self.name, &self.columns).map(Arc::new);
        self.batches = None;
    }
}

impl Tables {
    /// Registers an announced table.
    ///
    /// # Errors
    /// If the announcement is malformed. A missing table is no error here, but one of each row that
    /// uses it.
    pub(super) fn announce(&mut self, records: &Records, bytes: &[u8]) -> Result<(), Malformed> {
        let table = v1::Table::decode(bytes).map_err(|_| Malformed("a table cannot be read"))?;
        if table.number >= TABLE_NUMBERS {
            return Err(Malformed("a table's number is not below 1024"));
        }
        let number = table.number as usize;
        if number >= self.0.len() {
            self.0.resize_with(number + 1, || None);
        }
        let found = Err(unannounced(table.number));
        let mut announced =
            Announced { name: table.name, columns: table.columns, found, batches: None };
        announced.look(records);
        self.0[number] = Some(announced);
        Ok(())
    }

    /// Resolves all tables again after a change of the catalog.
    pub(super) fn look_again(&mut self, records: &Records) {
        self.0.iter_mut().flatten().for_each(|announced| announced.look(records));
    }

    /// # Errors
    /// If no table has this number, or it cannot be used.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Result<&Arc<RecordTable>> {
        match self.0.get(number as usize) {
            Some(Some(announced)) => announced.found.as_ref().map_err(Error::clone),
            _ => Err(unannounced(number)),
        }
    }

    /// The table for record batches of a schema.
    ///
    /// # Errors
    /// If no table has this number, or it lacks a column of the schema.
    pub(super) fn get_for(
        &mut self,
        records: &Records,
        number: u32,
        schema: &SchemaRef,
    ) -> Result<Arc<RecordTable>> {
        let Some(Some(announced)) = self.0.get_mut(number as usize) else {
            return Err(unannounced(number));
        };
        if let Some((known, table)) = &announced.batches
            && known == schema
        {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(records.table_for(&announced.name, schema)?);
        announced.batches = Some((Arc::clone(schema), Arc::clone(&table)));
        Ok(table)
    }
}

fn unannounced(number: u32) -> Error {
    let message = format!("no table was announced as number {number}");
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
        .with_hint("Announce a table before rows name it.")
}
