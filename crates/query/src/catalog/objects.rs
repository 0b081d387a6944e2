//! The objects of one catalog, each with the number that PostgreSQL's clients know it by.
//!
//! A table's number follows from its id and stays the same as long as the table lives. All other
//! numbers follow from the object's name and change with it.
//!
//! | numbers from | belong to |
//! | --- | --- |
//! | 1 | what PostgreSQL itself brings, under PostgreSQL's own numbers |
//! | 16,384 | tables and sequences |
//! | [`NAMED`] | namespaces, views, indexes and the rest that has a name only |
//! | [`ROW_TYPES`], [`ROW_ARRAYS`] | the types of a relation's rows, and of arrays of them |
//! | [`KEY_CONSTRAINTS`] | the constraints that indexes stand for |

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use thalweg_txn::{
    Catalog, Object, RoleId, Securable, Sequence, SequenceOptions, View, access_item,
    is_temporary_namespace,
};
use thalweg_types::{
    Column, ColumnId, DataType, ForeignKey, Index, Key, TableId, TableSchema, ValueOrder,
};

use super::INFORMATION_SCHEMA;
use super::comments;
use super::information_schema;
use super::pg_catalog::relations;
use crate::sequences::identity_sequence;

const TABLES: i64 = crate::sequences::OIDS;
const NAMED: i64 = 0x0400_0000;
pub(super) const ROW_TYPES: i64 = 0x1000_0000;
pub(super) const ROW_ARRAYS: i64 = 0x2000_0000;
pub(super) const KEY_CONSTRAINTS: i64 = 0x3000_0000;

pub(super) const PG_CATALOG: &str = "pg_catalog";
pub(super) const PG_CATALOG_OID: i64 = 11;
const PUBLIC_OID: i64 = 2_200;
const INFORMATION_SCHEMA_OID: i64 = 13_000;

/// The number of the one database.
pub(super) const DATABASE_OID: i64 = 5;

pub(crate) struct Objects {
    pub(super) namespaces: Vec<Namespace>,
    pub(super) relations: Vec<Relation>,
    pub(super) checks: Vec<CheckConstraint>,
    pub(super) comments: Vec<comments::Comment>,
    pub(super) foreign_keys: Vec<ForeignKeyConstraint>,
    by_oid: HashMap<i64, usize>,
    by_name: HashMap<(String, String), usize>,
}

pub(super) struct Namespace {
    pub(super) oid: i64,
    pub(super) name: String,
    pub(super) access: Shared,
}

/// The number of an object's owner, and the grants on it in PostgreSQL's notation.
pub(super) struct Shared {
    pub(super) owner: i64,
    /// `None` if nothing was granted.
    pub(super) grants: Option<Vec<String>>,
}

impl Shared {
    fn of(catalog: &Catalog, object: &Securable) -> Shared {
        let access = catalog.access(object);
        let name = |id: RoleId| match catalog.roles().get(id) {
            Some(role) => Cow::Borrowed(role.name.as_str()),
            None => Cow::Owned(id.0.to_string()),
        };
        // The owner's own privileges are listed as soon as there are others.
        let grants = (!access.grants().is_empty()).then(|| {
            let owner = std::iter::once(catalog.owner_grant(object));
            owner.chain(access.grants().iter().copied()).map(|g| access_item(&g, name)).collect()
        });
        Shared { owner: i64::from(access.owner.0), grants }
    }

    /// Owner and grants of the database's own objects.
    fn system() -> Shared {
        Shared { owner: i64::from(RoleId::BOOTSTRAP.0), grants: None }
    }
}

pub(super) struct Relation {
    pub(super) oid: i64,
    pub(super) namespace: String,
    pub(super) namespace_oid: i64,
    pub(super) name: String,
    /// A table's own; indexes and sequences share their table's.
    pub(super) access: Arc<Shared>,
    pub(super) source: Source,
}

/// Kind of a relation, with the object behind it.
pub(super) enum Source {
    Table(Arc<TableSchema>),
    View(View),
    External,
    Index {
        table: Arc<TableSchema>,
        index: Index,
        /// `None` for an index without a constraint.
        constraint: Option<Constraint>,
    },
    Sequence(Box<NumberSource>),
    /// A relation of `pg_catalog` or `information_schema`.
    System {
        kind: &'static str,
    },
}

/// A sequence, or the counter of an auto-numbered column as a sequence.
pub(super) struct NumberSource {
    pub(super) options: SequenceOptions,
    /// The column that owns it.
    pub(super) owner: Option<(Arc<TableSchema>, Column)>,
    /// `None` for the counter of a column.
    pub(super) sequence: Option<Sequence>,
}

impl NumberSource {
    /// True if the numbers are those of an identity column.
    pub(super) fn is_of_identity(&self) -> bool {
        let Some((_, column)) = &self.owner else { return false };
        match &self.sequence {
            None => true,
            Some(sequence) => identity_sequence(column) == Some(sequence.id),
        }
    }

    /// The table's own counter of a column.
    fn of_column(table: &Arc<TableSchema>, column: &Column) -> NumberSource {
        let options = own_counter_options(column);
        let owner = Some((Arc::clone(table), column.clone()));
        NumberSource { options, owner, sequence: None }
    }

    fn of_sequence(catalog: &Catalog, sequence: &Sequence) -> NumberSource {
        let owner = sequence.owned_by.and_then(|(table, column)| {
            let table = &catalog.table(table)?.schema;
            let position = table.position(column)?;
            Some((Arc::clone(table), table.columns[position].clone()))
        });
        let (options, sequence) = (sequence.options.clone(), Some(sequence.clone()));
        NumberSource { options, owner, sequence }
    }
}

/// The numbers of a table's own counter.
pub(super) fn own_counter_options(column: &Column) -> SequenceOptions {
    let max = match column.data_type {
        DataType::Int2 => i64::from(i16::MAX),
        DataType::Int4 => i64::from(i32::MAX),
        _ => i64::MAX,
    };
    SequenceOptions {
        data_type: column.data_type.clone(),
        start: 1,
        increment: 1,
        min: 1,
        max,
        cache: 1,
        cycles: false,
    }
}

/// The constraints that PostgreSQL shows as indexes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Constraint {
    PrimaryKey,
    Unique,
}

pub(super) struct CheckConstraint {
    pub(super) oid: i64,
    pub(super) table: Arc<TableSchema>,
    pub(super) name: String,
    pub(super) expression: String,
}

pub(super) struct ForeignKeyConstraint {
    pub(super) oid: i64,
    pub(super) table: Arc<TableSchema>,
    pub(super) key: ForeignKey,
    pub(super) parent: Arc<TableSchema>,
}

impl ForeignKeyConstraint {
    /// The referenced table's key.
    pub(super) fn parent_key(&self) -> Option<&Key> {
        self.parent.key_of_columns(&self.key.parent_columns).map(|(_, key)| key)
    }
}

impl Relation {
    /// PostgreSQL's letter for what the relation is.
    pub(super) fn kind(&self) -> &'static str {
        match &self.source {
            Source::Table(_) => "r",
            Source::View(_) => "v",
            Source::External => "f",
            Source::Index { .. } => "i",
            Source::Sequence(_) => "S",
            Source::System { kind } => kind,
        }
    }

    /// True for a temporary object.
    pub(super) fn is_temporary(&self) -> bool {
        is_temporary_namespace(&self.namespace)
    }

    /// True if the relation has a row type.
    pub(super) fn has_row_type(&self) -> bool {
        matches!(self.source, Source::Table(_) | Source::View(_) | Source::External)
    }

    /// True for a sequence with an owner and grants of its own.
    pub(super) fn is_own_sequence(&self) -> bool {
        matches!(&self.source, Source::Sequence(source) if source.sequence.is_some())
    }

    pub(super) fn table(&self) -> Option<&Arc<TableSchema>> {
        match &self.source {
            Source::Table(table) => Some(table),
            _ => None,
        }
    }
}

/// The number under which a table's column stands in `pg_attribute`.
pub(super) fn attribute_number(id: ColumnId) -> i64 {
    i64::from(id.0) + 1
}

/// The number of a table.
pub(super) fn table_oid(table: &TableSchema) -> i64 {
    TABLES + i64::from(table.id.0)
}

/// The columns of a key, by their numbers in `pg_attribute`.
pub(super) fn key_numbers(key: &Key) -> Vec<i64> {
    column_numbers(&key.columns)
}

/// Columns by their numbers in `pg_attribute`.
pub(super) fn column_numbers(columns: &[ColumnId]) -> Vec<i64> {
    columns.iter().map(|id| attribute_number(*id)).collect()
}

impl Objects {
    pub(super) fn new(catalog: &Catalog) -> Objects {
        let mut numbers = Numbers::default();
        let mut objects = Objects {
            namespaces: namespaces(catalog, &mut numbers),
            relations: Vec::new(),
            checks: Vec::new(),
            comments: Vec::new(),
            foreign_keys: Vec::new(),
            by_oid: HashMap::new(),
            by_name: HashMap::new(),
        };
        for namespace in shown(catalog) {
            let found = objects.namespaces.iter().find(|known| known.name == namespace);
            let namespace_oid = found.map_or(0, |known| known.oid);
            for (name, object) in catalog.objects(namespace) {
                let access = Shared::of(catalog, &Securable::relation(namespace, name));
                let home = Home { namespace, oid: namespace_oid, access: Arc::new(access) };
                objects.add(catalog, &home, name, object, &mut numbers);
            }
        }
        objects.add_system();
        for (index, relation) in objects.relations.iter().enumerate() {
            objects.by_oid.insert(relation.oid, index);
            let name = (relation.namespace.clone(), relation.name.clone());
            objects.by_name.entry(name).or_insert(index);
        }
        objects.comments = comments::all(catalog, &objects);
        objects
    }

    pub(super) fn namespace(&self, name: &str) -> Option<i64> {
        self.namespaces.iter().find(|known| known.name == name).map(|known| known.oid)
    }

    pub(super) fn namespace_name(&self, oid: i64) -> Option<&str> {
        self.namespaces.iter().find(|known| known.oid == oid).map(|known| known.name.as_str())
    }

    pub(super) fn relation(&self, oid: i64) -> Option<&Relation> {
        self.by_oid.get(&oid).map(|index| &self.relations[*index])
    }

    /// The table or sequence of this id.
    pub(super) fn relation_of(&self, id: TableId) -> Option<&Relation> {
        self.relation(TABLES + i64::from(id.0))
    }

    /// The relation of this name in a namespace.
    pub(super) fn relation_named(&self, namespace: &str, name: &str) -> Option<&Relation> {
        let key = (namespace.to_owned(), name.to_owned());
        self.by_name.get(&key).map(|index| &self.relations[*index])
    }

    fn add(
        &mut self,
        catalog: &Catalog,
        home: &Home<'_>,
        name: &str,
        object: &Object,
        numbers: &mut Numbers,
    ) {
        match object {
            Object::Sequence(sequence) => {
                let oid = TABLES + i64::from(sequence.id.0);
                let source = NumberSource::of_sequence(catalog, sequence);
                self.push(home, oid, name, Source::Sequence(Box::new(source)));
            }
            Object::Table(entry) => {
                self.add_table(home, &entry.schema, numbers);
                self.add_foreign_keys(catalog, &entry.schema, numbers);
            }
            Object::View(view) => {
                let oid = numbers.named("relation", &[home.namespace, name]);
                self.push(home, oid, name, Source::View(view.clone()));
            }
            Object::External(_) => {
                let oid = numbers.named("relation", &[home.namespace, name]);
                self.push(home, oid, name, Source::External);
            }
        }
    }

    /// A table with its indexes, checks and sequences.
    fn add_table(&mut self, home: &Home<'_>, table: &Arc<TableSchema>, numbers: &mut Numbers) {
        self.push(home, table_oid(table), &table.name, Source::Table(Arc::clone(table)));
        let id = table.id.0.to_string();
        let primary = table.primary_key.iter().map(|key| (key, Constraint::PrimaryKey));
        let unique = table.unique.iter().map(|key| (key, Constraint::Unique));
        let constraints = primary.chain(unique).map(|(key, constraint)| {
            let orders = vec![ValueOrder::ASCENDING; key.columns.len()];
            (Index { key: key.clone(), orders, unique: true }, Some(constraint))
        });
        let others = table.indexes.iter().map(|index| (index.clone(), None));
        for (index, constraint) in constraints.chain(others) {
            let name = index.key.name.clone();
            let oid = numbers.named("index", &[&id, &name]);
            self.push(
                home,
                oid,
                &name,
                Source::Index { table: Arc::clone(table), index, constraint },
            );
        }
        for column in table.columns.iter().filter(|column| column.has_own_counter()) {
            let oid = numbers.named("sequence", &[&id, &column.id.0.to_string()]);
            let name = format!("{}_{}_seq", table.name, column.name);
            let source = NumberSource::of_column(table, column);
            self.push(home, oid, &name, Source::Sequence(Box::new(source)));
        }
        for check in &table.checks {
            self.checks.push(CheckConstraint {
                oid: numbers.named("check", &[&id, &check.name]),
                table: Arc::clone(table),
                name: check.name.clone(),
                expression: check.expression.clone(),
            });
        }
    }

    fn add_foreign_keys(
        &mut self,
        catalog: &Catalog,
        table: &Arc<TableSchema>,
        numbers: &mut Numbers,
    ) {
        for key in &table.foreign_keys {
            let Some(parent) = catalog.table(key.parent) else { continue };
            self.foreign_keys.push(ForeignKeyConstraint {
                oid: numbers.named("foreign key", &[&table.id.0.to_string(), &key.name]),
                table: Arc::clone(table),
                key: key.clone(),
                parent: Arc::clone(&parent.schema),
            });
        }
    }

    fn add_system(&mut self) {
        let access = Arc::new(Shared::system());
        let systems = [
            (PG_CATALOG, PG_CATALOG_OID, &*relations::ALL),
            (INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, &*information_schema::ALL),
        ];
        for (namespace, oid, relations) in systems {
            let home = Home { namespace, oid, access: Arc::clone(&access) };
            for relation in relations.values().filter(|relation| relation.kind != "-") {
                let source = Source::System { kind: relation.kind };
                self.push(&home, relation.oid, relation.name, source);
            }
        }
    }

    fn push(&mut self, home: &Home<'_>, oid: i64, name: &str, source: Source) {
        self.relations.push(Relation {
            oid,
            namespace: home.namespace.to_owned(),
            namespace_oid: home.oid,
            name: name.to_owned(),
            access: Arc::clone(&home.access),
            source,
        });
    }
}

/// Namespace of a relation, and its owner and grants.
struct Home<'a> {
    namespace: &'a str,
    oid: i64,
    access: Arc<Shared>,
}

/// Namespaces that clients may see: all but the one for internal tables of a cluster's node.
fn shown(catalog: &Catalog) -> impl Iterator<Item = &str> {
    catalog.namespaces().filter(|name| *name != crate::workers::NAMESPACE)
}

fn namespaces(catalog: &Catalog, numbers: &mut Numbers) -> Vec<Namespace> {
    let system = [(PG_CATALOG_OID, PG_CATALOG), (INFORMATION_SCHEMA_OID, INFORMATION_SCHEMA)];
    let system = system.into_iter().map(|(oid, name)| Namespace {
        oid,
        name: name.to_owned(),
        access: Shared::system(),
    });
    let own = shown(catalog).map(|name| {
        let oid = match name {
            thalweg_txn::DEFAULT_NAMESPACE => PUBLIC_OID,
            other => numbers.named("namespace", &[other]),
        };
        let access = Shared::of(catalog, &Securable::Namespace(name.to_owned()));
        Namespace { oid, name: name.to_owned(), access }
    });
    system.chain(own).collect()
}

/// Assigns numbers to names.
#[derive(Default)]
struct Numbers {
    given: HashSet<i64>,
}

impl Numbers {
    /// The number of a name. On a collision of hashes it is the next free one.
    fn named(&mut self, kind: &str, parts: &[&str]) -> i64 {
        const RANGE: i64 = ROW_TYPES - NAMED;
        let mut offset = i64::from(hash(kind, parts)) % RANGE;
        while !self.given.insert(offset) {
            offset = (offset + 1) % RANGE;
        }
        NAMED + offset
    }
}

/// FNV-1a. Numbers outlive the process, so their hash must not depend on a library's version.
fn hash(kind: &str, parts: &[&str]) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    for part in [kind].iter().chain(parts) {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_collide_get_numbers_of_their_own() {
        let mut numbers = Numbers::default();
        let first = numbers.named("view", &["public", "a"]);
        let second = numbers.named("view", &["public", "a"]);
        assert_eq!(second, first + 1);
        assert_eq!(Numbers::default().named("view", &["public", "a"]), first);
    }

    #[test]
    fn parts_of_names_do_not_run_together() {
        assert_ne!(hash("view", &["ab", "c"]), hash("view", &["a", "bc"]));
    }
}
