//! Decodes look-up requests in place. Consecutive keys of one table become columns.

use std::sync::Arc;

use prost::Message as _;
use thalweg_formats::rows::{RowPacker, RowsBuilder};
use thalweg_protocol::{KeysRef, Malformed, SearchRef, v1};
use thalweg_query::{RecordTable, Records};
use thalweg_types::{Error, Result, SqlState};

use super::Telling;
use crate::records::incoming::Reader;
use crate::records::ranges::Wanted;
use crate::records::tables::Tables;
use crate::records::values::{decode_values, encode_values};

/// A look-up; numbers are positions in the stream.
pub(super) enum LookUp {
    Keys(Run),
    Range(u64, Wanted),
    Failed(u64, Error),
}

/// Encoding of keys and rows.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Form {
    packed: bool,
    versions: bool,
}

/// Consecutive keys of one table.
pub(super) struct Run {
    table: Arc<RecordTable>,
    number: u32,
    form: Form,
    builder: RowsBuilder,
    /// Each key's position in the stream, and its error if it could not be decoded.
    keys: Vec<(u64, Option<Error>)>,
}

pub(super) struct LookUpReader {
    records: Records,
    tables: Tables,
    look_ups: Vec<LookUp>,
    /// Number of look-ups decoded so far, and number of those taken by [`finish`](Self::finish).
    asked: u64,
    taken: u64,
}

impl LookUpReader {
    pub(super) fn new(records: Records) -> LookUpReader {
        LookUpReader {
            records,
            tables: Tables::default(),
            look_ups: Vec::new(),
            asked: 0,
            taken: 0,
        }
    }

    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// Number of look-ups taken by [`finish`](Self::finish).
    pub(super) fn answered(&self) -> u64 {
        self.taken
    }

    /// The look-ups decoded since the previous call.
    pub(super) fn finish(&mut self) -> Vec<LookUp> {
        self.taken = self.asked;
        std::mem::take(&mut self.look_ups)
    }

    fn keys(&mut self, keys: &KeysRef<'_>) -> Result<(), Malformed> {
        if keys.packed_count > 0 && keys.values_count > 0 {
            return Err(Malformed("keys of one message are packed or values, not both"));
        }
        let form = Form { packed: keys.packed_count > 0, versions: keys.versions };
        let run = match self.tables.get(keys.table) {
            Ok(table) => run(&mut self.look_ups, table, keys.table, form),
            Err(error) => Err(error),
        };
        match run {
            Ok(run) => {
                for key in keys.packed() {
                    run.keys.push((self.asked, run.builder.push_packed(key).err()));
                    self.asked += 1;
                }
                for key in keys.values() {
                    run.keys.push((self.asked, run.builder.push_values(decode_values(key)).err()));
                    self.asked += 1;
                }
            }
            Err(error) => {
                for _ in 0..keys.packed_count + keys.values_count {
                    self.look_ups.push(LookUp::Failed(self.asked, error.clone()));
                    self.asked += 1;
                }
            }
        }
        Ok(())
    }

    fn range(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let range = v1::Range::decode(bytes).map_err(|_| Malformed("a range cannot be read"))?;
        let table = self.tables.get(range.table).map(Arc::clone);
        self.look_ups.push(match table {
            Ok(table) => LookUp::Range(self.asked, Wanted { table, range }),
            Err(error) => LookUp::Failed(self.asked, error),
        });
        self.asked += 1;
        Ok(())
    }
}

/// The run to which the next key is added: the last one if it fits, else a new one.
fn run<'a>(
    look_ups: &'a mut Vec<LookUp>,
    table: &Arc<RecordTable>,
    number: u32,
    form: Form,
) -> Result<&'a mut Run> {
    let fits = matches!(look_ups.last(), Some(LookUp::Keys(run))
        if run.number == number && run.form == form && Arc::ptr_eq(&run.table, table));
    if !fits {
        table.permit_search()?;
        let builder = RowsBuilder::new(table.key().fields().to_vec())?;
        let (table, keys) = (Arc::clone(table), Vec::new());
        look_ups.push(LookUp::Keys(Run { table, number, form, builder, keys }));
    }
    match look_ups.last_mut() {
        Some(LookUp::Keys(run)) => Ok(run),
        _ => Err(Error::new(SqlState::INTERNAL_ERROR, "keys were not kept")),
    }
}

impl Reader for LookUpReader {
    fn message(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let request = SearchRef::read(bytes)?;
        if self.look_ups.is_empty() && self.records.must_look_again() {
            self.tables.look_again(&self.records);
        }
        if request.has_tables {
            for table in request.tables() {
                self.tables.announce(&self.records, table)?;
            }
        }
        for keys in request.keys() {
            self.keys(&keys?)?;
        }
        request.ranges().try_for_each(|range| self.range(range))
    }
}

impl Run {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Looks the keys up and sends the rows, in as many responses as needed. Returns the number of
    /// rows found.
    ///
    /// # Errors
    /// If a value cannot be encoded, or the client no longer reads answers.
    pub(super) async fn answer(
        mut self,
        records: &Records,
        telling: &mut Telling<'_>,
    ) -> Result<usize> {
        let found = match records.look_up(&self.table, self.builder.finish()).await {
            Ok(found) => found,
            Err(error) => {
                for (index, _) in &self.keys {
                    telling.answers.fail(*index, &error);
                    telling.send_if_long().await?;
                }
                return Ok(0);
            }
        };
        let mut packer = RowPacker::new(self.table.row().fields(), &found.rows);
        let (mut places, mut packed) = (found.places.iter().enumerate(), Vec::new());
        let mut failures = found.failures.iter().peekable();
        for (index, refused) in &self.keys {
            telling.send_if_long().await?;
            let answers = &mut telling.answers;
            if let Some(error) = refused {
                answers.fail(*index, error);
                continue;
            }
            let (key, place) = places.next().expect("an answer for each key that was asked");
            if let Some((_, error)) = failures.next_if(|(failed, _)| *failed == key) {
                answers.fail(*index, error);
                continue;
            }
            let Some(row) = *place else {
                answers.pass(*index);
                continue;
            };
            let version = self.form.versions.then(|| found.versions[row as usize]);
            if self.form.packed {
                packed.clear();
                packer.pack(row as usize, &mut packed)?;
                answers.found(*index, &packed, version);
            } else {
                let values = vec![encode_values(&found.rows, row as usize)?];
                let versions = version.into_iter().collect();
                answers.add(&v1::Found { index: *index, values, versions, ..Default::default() });
                answers.pass(*index);
            }
        }
        Ok(found.versions.len())
    }
}
