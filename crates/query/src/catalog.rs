//! The catalog as DataFusion sees it: the tables and views of one statement's transaction.
//!
//! Two catalogs hold the same tables: [`DATABASE`], and [`WITH_ROW_IDS`], which adds a column with
//! each row's id for the statements that change rows.

mod comments;
mod definitions;
mod derived;
mod field_metadata;
mod functions;
mod information_schema;
mod object_id_types;
mod objects;
pub(crate) mod overloads;
mod pg_catalog;
mod search_path;
mod setting_order;
mod statement_context;
mod table;
mod view;
mod view_binding;
mod view_definition;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::ScalarUDF;
use datafusion::optimizer::AnalyzerRule;
use parking_lot::{Mutex, RwLock};
use thalweg_txn::{
    BoundRelation, BoundSource, Catalog, Object, Privilege, RoleId, Securable, Transaction,
};
use thalweg_types::Error;
use thalweg_values::errors::external;

use crate::privileges::{Identity, Rights};
use crate::sequences::numbered_column;
use crate::temporary_objects::ALIAS;
use crate::workers::{Cluster, TableOnWorkers};
use derived::Found;
use object_id_types::ObjectIdNames;
use objects::Objects;
use view::Meaning;

pub(crate) use comments::has_initial_comment;
pub(crate) use definitions::name_parts;
pub(crate) use object_id_types::written;
pub(crate) use pg_catalog::is_system_relation;
pub(crate) use search_path::{SearchPath, UNQUALIFIED, split as split_search_path};
pub(crate) use setting_order::settings_in_order;
pub(crate) use statement_context::{CatalogLookup, SettingRequests, StatementContext};
pub(crate) use table::{ShardTable, primary_key};
pub(crate) use view_binding::bind;

/// The name of the one database.
pub(crate) const DATABASE: &str = "thalweg";
/// The catalog whose tables show row ids.
pub(crate) const WITH_ROW_IDS: &str = "thalweg_row_ids";

/// Name of the catalog, and of its only namespace, for rows that a statement lends to a query that
/// it runs itself.
pub(crate) const TEMPORARY: &str = "thalweg_temporary";

const INFORMATION_SCHEMA: &str = "information_schema";

/// Resolves names while one statement is planned.
pub(crate) struct SessionCatalog {
    transaction: Mutex<Option<Transaction>>,
    /// User and current role of the running statement.
    identity: Mutex<Identity>,
    /// True if the statement is only described: then tables are not read.
    describes: AtomicBool,
    temporary_tables: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
    /// The session's state, for planning views.
    session: RwLock<Weak<parking_lot::RwLock<SessionState>>>,
    /// State of the running statement's session besides names.
    statement_context: Mutex<Option<StatementContext>>,
    objects: Mutex<Option<(Arc<Catalog>, Arc<Objects>)>>,
    found: Mutex<Option<Found>>,
    /// The nodes that hold the rows.
    cluster: Arc<Cluster>,
}

impl SessionCatalog {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Arc<SessionCatalog> {
        Arc::new(SessionCatalog {
            transaction: Mutex::new(None),
            identity: Mutex::new(Identity::of(RoleId::BOOTSTRAP)),
            describes: AtomicBool::new(false),
            temporary_tables: Mutex::default(),
            session: RwLock::default(),
            statement_context: Mutex::default(),
            objects: Mutex::default(),
            found: Mutex::default(),
            cluster,
        })
    }

    /// The SQL functions that read the catalog.
    pub(crate) fn functions(self: &Arc<Self>) -> Vec<Arc<ScalarUDF>> {
        functions::all(self)
    }

    /// The analyzer pass that these functions need.
    pub(crate) fn analyzer_rule(self: &Arc<Self>) -> Arc<dyn AnalyzerRule + Send + Sync> {
        Arc::new(ObjectIdNames::new(functions::registered_name(self)))
    }

    pub(crate) fn bind(&self, session: Weak<parking_lot::RwLock<SessionState>>) {
        *self.session.write() = session;
    }

    /// Resolves names in this transaction from now on, with the rights of that user.
    pub(crate) fn show(&self, transaction: Transaction, statement_context: StatementContext) {
        *self.transaction.lock() = Some(transaction);
        *self.identity.lock() = statement_context.identity();
        *self.statement_context.lock() = Some(statement_context);
        self.describes.store(false, Ordering::Relaxed);
    }

    /// Until the next [`show`](Self::show), names are resolved for their columns only.
    pub(crate) fn only_describe(&self) {
        self.describes.store(true, Ordering::Relaxed);
    }

    /// The nodes that hold the rows.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    pub(crate) fn identity(&self) -> Identity {
        *self.identity.lock()
    }

    /// Rights of the role that runs the statement.
    pub(crate) fn rights(&self) -> Rights {
        Rights::new(self.catalog(), self.identity().current)
    }

    /// Rights of the reader: the owner of the innermost view that is being planned, or else the
    /// role that runs the statement.
    fn rights_of_reader(&self) -> Rights {
        let reader = view::owner_around().unwrap_or_else(|| self.identity().current);
        Rights::new(self.catalog(), reader)
    }

    /// Ends [`show`](Self::show), and returns the transaction with the statement's changes.
    pub(crate) fn take(&self) -> Option<Transaction> {
        self.transaction.lock().take()
    }

    /// Reads or changes the transaction of the running statement.
    ///
    /// # Errors
    /// Errors of `work`.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Transaction) -> thalweg_types::Result<T>,
    ) -> thalweg_types::Result<T> {
        let mut transaction = self.transaction.lock();
        let gone = || Error::internal("there is no statement that this belongs to");
        work(transaction.as_mut().ok_or_else(gone)?)
    }

    /// Drops the snapshot, so that it keeps no old state alive.
    pub(crate) fn forget(&self) {
        *self.transaction.lock() = None;
        *self.statement_context.lock() = None;
        self.temporary_tables.lock().clear();
    }

    /// Makes a table known in [`TEMPORARY`] until the statement ends.
    pub(crate) fn register_temporary(&self, name: &str, table: Arc<dyn TableProvider>) {
        self.temporary_tables.lock().insert(name.to_owned(), table);
    }

    /// The registered table of the running statement's session.
    fn registered_table(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.statement_context.lock().as_ref()?.registered.get(name)
    }

    /// The catalog that the running statement sees.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        match &*self.transaction.lock() {
            Some(transaction) => Arc::clone(transaction.catalog()),
            None => Arc::default(),
        }
    }

    /// The objects of the catalog that the running statement sees, or else the latest one.
    fn objects(&self) -> Arc<Objects> {
        let catalog = self.catalog();
        let mut kept = self.objects.lock();
        if let Some((of, objects)) = &*kept
            && Arc::ptr_eq(of, &catalog)
        {
            return Arc::clone(objects);
        }
        let objects = Arc::new(Objects::new(&catalog));
        *kept = Some((catalog, Arc::clone(&objects)));
        objects
    }

    fn shard_table(
        &self,
        namespace: &str,
        name: &str,
        row_ids: bool,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut transaction = self.transaction.lock();
        let Some(transaction) = transaction.as_mut() else { return Ok(None) };
        let catalog = Arc::clone(transaction.catalog());
        let Some(Object::Table(entry)) = catalog.object(namespace, name) else { return Ok(None) };
        let state = transaction.state(entry.schema.id).map_err(external)?;
        // Workers do not know a table that this transaction created, and have no rows of it.
        let is_known = transaction.snapshot().table(entry.schema.id).is_some();
        Ok(Some(match is_known && self.cluster.holds(&entry.schema) {
            false => Arc::new(ShardTable::new(&entry.schema, state, row_ids)) as _,
            true => {
                let killed = transaction.killed_elsewhere(entry.schema.id);
                let scans = Arc::clone(&self.cluster.scans);
                Arc::new(TableOnWorkers::new(scans, &entry.schema, state, killed, row_ids)) as _
            }
        }))
    }

    fn session_state(&self) -> Result<SessionState> {
        let session = self.session.read().upgrade();
        let session = session.ok_or_else(|| external(Error::internal("the session has ended")))?;
        let state = session.read().clone();
        Ok(state)
    }
}

impl fmt::Debug for SessionCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionCatalog")
    }
}

/// Provider list of all catalogs. Only [`DATABASE`] is listed by name.
#[derive(Debug)]
pub(crate) struct Catalogs(pub(crate) Arc<SessionCatalog>);

impl CatalogProviderList for Catalogs {
    fn register_catalog(
        &self,
        _: String,
        _: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![DATABASE.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let row_ids = match name {
            DATABASE => false,
            WITH_ROW_IDS => true,
            TEMPORARY => return Some(Arc::new(Temporary { session: Arc::clone(&self.0) })),
            _ => return None,
        };
        Some(Arc::new(Database { session: Arc::clone(&self.0), row_ids }))
    }
}

#[derive(Debug)]
struct Database {
    session: Arc<SessionCatalog>,
    row_ids: bool,
}

impl CatalogProvider for Database {
    fn schema_names(&self) -> Vec<String> {
        let catalog = self.session.catalog();
        let system = [objects::PG_CATALOG, INFORMATION_SCHEMA];
        catalog.namespaces().chain(system).map(str::to_owned).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let session = Arc::clone(&self.session);
        if name == UNQUALIFIED {
            let row_ids = self.row_ids;
            return Some(Arc::new(search_path::Unqualified { session, row_ids }));
        }
        if name == INFORMATION_SCHEMA {
            return Some(Arc::new(InformationSchema { session }));
        }
        if name == objects::PG_CATALOG {
            return Some(Arc::new(PgCatalog { session }));
        }
        let catalog = session.catalog();
        let name = catalog.temporary().filter(|_| name == ALIAS).unwrap_or(name);
        catalog.has_namespace(name).then(|| {
            let namespace = name.to_owned();
            Arc::new(Namespace { session, namespace, row_ids: self.row_ids }) as _
        })
    }
}

#[derive(Debug)]
struct Temporary {
    session: Arc<SessionCatalog>,
}

impl CatalogProvider for Temporary {
    fn schema_names(&self) -> Vec<String> {
        vec![TEMPORARY.to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let session = Arc::clone(&self.session);
        (name == TEMPORARY).then(|| Arc::new(Temporary { session }) as _)
    }
}

#[async_trait]
impl SchemaProvider for Temporary {
    fn table_names(&self) -> Vec<String> {
        self.session.temporary_tables.lock().keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.session.temporary_tables.lock().get(name).cloned())
    }

    fn table_exist(&self, name: &str) -> bool {
        self.session.temporary_tables.lock().contains_key(name)
    }
}

#[derive(Debug)]
struct Namespace {
    session: Arc<SessionCatalog>,
    namespace: String,
    row_ids: bool,
}

#[async_trait]
impl SchemaProvider for Namespace {
    fn table_names(&self) -> Vec<String> {
        let catalog = self.session.catalog();
        catalog.objects(&self.namespace).map(|(name, _)| name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match view::meaning(&self.namespace, name) {
            Meaning::Current => self.object(name).await,
            Meaning::Bound(relation) => self.bound(&relation).await,
            Meaning::NoObject => self.no_object(name).await,
            Meaning::Recorded(recorder) => {
                let Some(provider) = self.object(name).await? else { return Ok(None) };
                let catalog = self.session.catalog();
                Ok(Some(recorder.record(&catalog, &self.namespace, name, provider)))
            }
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        let catalog = self.session.catalog();
        catalog.object(&self.namespace, name).is_some()
            || numbered_column(&catalog, &self.namespace, name).is_some()
            || view::file_named(name).is_some()
            || pg_catalog::exists(name)
    }
}

impl Namespace {
    /// The relation that has the name now.
    async fn object(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let catalog = self.session.catalog();
        let object = catalog.object(&self.namespace, name);
        // Statements that change rows check their own privileges. A view is bound without reading.
        let describes = self.session.describes.load(Ordering::Relaxed) || view::is_recorded();
        let reads = !self.row_ids && !describes;
        if object.is_some() && reads {
            let rights = self.session.rights_of_reader();
            rights.on_relation(&self.namespace, name, Privilege::Select).map_err(external)?;
        }
        match object {
            None => self.no_object(name).await,
            Some(Object::Table(_)) => self.session.shard_table(&self.namespace, name, self.row_ids),
            Some(Object::View(definition)) => {
                let state = self.session.session_state()?;
                let owner = catalog.access(&Securable::relation(&self.namespace, name)).owner;
                view::plan(&state, name, definition, owner).await.map(Some)
            }
            Some(Object::External(definition)) => {
                let state = self.session.session_state()?;
                view::external(&state, definition).await.map(Some)
            }
            Some(Object::Sequence(sequence)) => pg_catalog::sequence_table(sequence).map(Some),
        }
    }

    /// The relation of a name that no object of the namespace has.
    async fn no_object(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.namespace == crate::workers::NAMESPACE
            && let Some(table) = self.session.cluster.scans.system_table(name).await
        {
            return table.map(Some);
        }
        if let Some(counter) = self.counter(name)? {
            return Ok(Some(counter));
        }
        let Some(file) = view::file_named(name) else {
            // `pg_catalog` is searched even if it is not named.
            return PgCatalog { session: Arc::clone(&self.session) }.table(name).await;
        };
        let rights = self.session.rights_of_reader();
        rights.read_server_files("read a file").map_err(external)?;
        let state = self.session.session_state()?;
        view::external(&state, &file).await.map(Some)
    }

    /// The counter of an auto-numbered column as the sequence that clients see. Counters of tables
    /// whose rows are on workers are raised only when rows are numbered, so they are not shown.
    fn counter(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let catalog = self.session.catalog();
        let Some((table, column)) = numbered_column(&catalog, &self.namespace, name) else {
            return Ok(None);
        };
        if self.session.cluster.holds(table) {
            return Ok(None);
        }
        let rights = self.session.rights_of_reader();
        rights.on_relation(&self.namespace, &table.name, Privilege::Select).map_err(external)?;
        let next = self.session.with(|t| Ok(t.state(table.id)?.identities().next(column.id)));
        match next.map_err(external)? {
            Some(next) => pg_catalog::counter_table(next).map(Some),
            None => Ok(None),
        }
    }

    /// The relation that a view's query was bound to, with the columns that it had then.
    async fn bound(&self, relation: &BoundRelation) -> Result<Option<Arc<dyn TableProvider>>> {
        let catalog = self.session.catalog();
        let (namespace, name, table): (&str, &str, _) = match &relation.source {
            BoundSource::Table(id) => {
                let Some(entry) = catalog.table(*id) else { return Ok(None) };
                let schema = &entry.schema;
                (&schema.namespace, &schema.name, Some(schema))
            }
            BoundSource::Sequence(id) => {
                let Some((namespace, name, _)) = catalog.sequence(*id) else { return Ok(None) };
                (namespace, name, None)
            }
            BoundSource::Named { namespace, name } => (namespace, name, None),
        };
        let session = Arc::clone(&self.session);
        let home = Namespace { session, namespace: namespace.to_owned(), row_ids: false };
        let Some(provider) = home.object(name).await? else { return Ok(None) };
        view_binding::with_columns(provider, relation, table).map(Some)
    }
}

#[derive(Debug)]
struct PgCatalog {
    session: Arc<SessionCatalog>,
}

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        pg_catalog::names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let derived = match pg_catalog::needs_derived(name) {
            true => derived::columns(&self.session).await,
            false => Arc::default(),
        };
        let lookup = self.session.lookup().map_err(external)?;
        let inputs = pg_catalog::Inputs { lookup: &lookup, derived: &derived };
        pg_catalog::table(name, &inputs)
    }

    fn table_exist(&self, name: &str) -> bool {
        pg_catalog::exists(name)
    }
}

#[derive(Debug)]
struct InformationSchema {
    session: Arc<SessionCatalog>,
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        information_schema::ALL.keys().map(|name| (*name).to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let derived = match information_schema::needs_derived(name) {
            true => derived::columns(&self.session).await,
            false => Arc::default(),
        };
        let lookup = self.session.lookup().map_err(external)?;
        let inputs = pg_catalog::Inputs { lookup: &lookup, derived: &derived };
        information_schema::table(name, &inputs)
    }

    fn table_exist(&self, name: &str) -> bool {
        information_schema::ALL.contains_key(name)
    }
}
