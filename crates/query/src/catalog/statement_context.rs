//! State that a statement's catalog functions and system tables can read: the objects of its
//! catalog, its session, and the program that the database runs in.

use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_store::TableState;
use thalweg_txn::{Catalog, CheckpointRun, LogStatus, Privilege, Privileges, RoleId, Securable};
use thalweg_types::{Error, Result, SqlState, TableId};

use super::objects::{Objects, Relation};
use super::{DATABASE, SearchPath, SessionCatalog};
use crate::database::DatabaseShared;
use crate::locks::Listed;
use crate::notifications::SessionNotifications;
use crate::privileges::Identity;
use crate::registered::RegisteredTables;
use crate::sequences::{SequenceAccess, SessionSequences};
use crate::server_context::{Activity, End, SessionInfo};
use crate::statement::{Scope, Setter, Settings, changed_identity, role_setting, unrecognized};
use crate::temporary_objects::{ALIAS, TemporaryObjects};

/// A session's state as of the beginning of a statement.
#[derive(Clone)]
pub(crate) struct StatementContext {
    pub(crate) database: Arc<DatabaseShared>,
    pub(crate) settings: Settings,
    pub(crate) search_path: Arc<SearchPath>,
    pub(crate) facts: Arc<SessionInfo>,
    /// The session carries them out when the statement was planned, and when its next one begins.
    pub(crate) setting_requests: SettingRequests,
    pub(crate) sequences: Arc<SessionSequences>,
    pub(crate) temporary: Arc<TemporaryObjects>,
    pub(crate) notifications: Arc<SessionNotifications>,
    pub(crate) registered: RegisteredTables,
}

/// A request of a function to change a setting.
pub(crate) struct SettingRequest {
    pub(crate) name: String,
    /// `None` for the value from the beginning of the session.
    pub(crate) value: Option<String>,
    pub(crate) scope: Scope,
}

pub(crate) type SettingRequests = Arc<Mutex<Vec<SettingRequest>>>;

/// One statement's view of everything besides rows. It does not change while the statement's rows
/// are fetched, although the planner that made it may serve other statements meanwhile.
pub(crate) struct CatalogLookup {
    pub(super) objects: Arc<Objects>,
    pub(super) catalog: Arc<Catalog>,
    statement_context: StatementContext,
}

impl SettingRequest {
    /// Changes the setting.
    ///
    /// # Errors
    /// If there is no such setting, or it cannot have the value.
    pub(crate) fn apply(&self, settings: &mut Settings, catalog: &Catalog) -> Result<()> {
        let (name, value) = (self.name.as_str(), self.value.as_deref());
        if let Some(identity) = changed_identity(catalog, settings.identity, name, value)? {
            settings.set_identity(self.scope, identity);
            return Ok(());
        }
        let setter = Setter::role(catalog.roles().is_superuser(settings.identity.current));
        match settings.set_for(self.scope, name, value, setter)? {
            true => Ok(()),
            false => Err(unrecognized(name)),
        }
    }
}

impl StatementContext {
    pub(super) fn identity(&self) -> Identity {
        self.settings.identity
    }
}

impl SessionCatalog {
    /// Lookup of the running statement.
    pub(super) fn lookup(&self) -> Result<CatalogLookup> {
        let statement_context = self.statement_context.lock().clone();
        let statement_context = statement_context
            .ok_or_else(|| Error::internal("there is no statement to look for"))?;
        Ok(CatalogLookup { objects: self.objects(), catalog: self.catalog(), statement_context })
    }

    /// The running statement's way to sequences.
    ///
    /// # Errors
    /// If no statement of a session runs.
    pub(crate) fn sequence_access(&self) -> Result<SequenceAccess> {
        let context = self.statement_context.lock();
        let context = context.as_ref().ok_or_else(|| {
            Error::unsupported("a sequence as the default of rows that no session writes")
                .with_hint("Write the rows with SQL, or give values for the column.")
        })?;
        let own_catalog = self.transaction.lock().as_ref().and_then(|transaction| {
            let (own, published) = (transaction.catalog(), transaction.snapshot().catalog());
            (!Arc::ptr_eq(own, published)).then(|| Arc::clone(own))
        });
        Ok(SequenceAccess {
            database: Arc::downgrade(&context.database),
            session: Arc::clone(&context.sequences),
            temporary: Arc::clone(&context.temporary),
            role: context.identity().current,
            is_read_only: context.settings.modes().read_only,
            search_path: Arc::clone(&context.search_path),
            own_catalog,
        })
    }
}

impl CatalogLookup {
    pub(super) fn facts(&self) -> &SessionInfo {
        &self.statement_context.facts
    }

    pub(super) fn identity(&self) -> Identity {
        self.statement_context.identity()
    }

    pub(super) fn search_path(&self) -> &SearchPath {
        &self.statement_context.search_path
    }

    /// The relation of this name; without a namespace, the first one on the search path.
    pub(super) fn relation_named(&self, namespace: Option<&str>, name: &str) -> Option<&Relation> {
        match namespace {
            Some(namespace) => {
                let own = self.catalog.temporary().filter(|_| namespace == ALIAS);
                self.objects.relation_named(own.unwrap_or(namespace), name)
            }
            None => {
                let mut path = self.search_path().of_relation(name);
                path.find_map(|namespace| self.objects.relation_named(namespace, name))
            }
        }
    }

    /// True if the current role may see a sequence's position.
    pub(super) fn may_use_sequence(&self, namespace: &str, name: &str) -> bool {
        let any_of = Privileges::from(Privilege::Usage).and(Privilege::Select.into());
        let role = self.identity().current;
        let held = self.catalog.privileges(role, &Securable::relation(namespace, name));
        self.catalog.roles().is_superuser(role) || !held.common(any_of).is_empty()
    }

    /// True if the unqualified name finds the relation.
    pub(super) fn is_visible(&self, relation: &Relation) -> bool {
        let found = self.relation_named(None, &relation.name);
        found.is_some_and(|found| found.oid == relation.oid)
    }

    /// A role's name, as `pg_get_userbyid` returns it.
    pub(super) fn role_name(&self, oid: i64) -> String {
        let id = u32::try_from(oid).ok().map(RoleId);
        match id.and_then(|id| self.catalog.roles().get(id)) {
            Some(role) => role.name.clone(),
            None => format!("unknown (OID={oid})"),
        }
    }

    pub(super) fn is_database(&self, name: &str) -> bool {
        name == DATABASE
    }

    /// The session's settings, with what the statement has changed so far.
    pub(super) fn settings(&self) -> Settings {
        let mut settings = self.statement_context.settings.clone();
        for request in self.statement_context.setting_requests.lock().iter() {
            // A request was checked when it was made.
            let _ = request.apply(&mut settings, &self.catalog);
        }
        settings
    }

    pub(super) fn setting(&self, name: &str) -> Option<String> {
        let has_changed = !self.statement_context.setting_requests.lock().is_empty();
        let changed = has_changed.then(|| self.settings());
        let settings = changed.as_ref().unwrap_or(&self.statement_context.settings);
        let of_role = || role_setting(&self.catalog, settings.identity, name);
        settings.get(name).or_else(of_role)
    }

    /// Requests another value of a setting, and returns that value.
    pub(super) fn set(&self, name: &str, value: Option<&str>, scope: Scope) -> Result<String> {
        let value = value.map(str::to_owned);
        let request = SettingRequest { name: name.to_owned(), value, scope };
        request.apply(&mut self.settings(), &self.catalog)?;
        self.statement_context.setting_requests.lock().push(request);
        Ok(self.setting(name).unwrap_or_default())
    }

    /// Sends a message when the transaction commits.
    ///
    /// # Errors
    /// As [`SessionNotifications::notify`].
    pub(super) fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        let process_id = self.facts().process_id;
        self.statement_context.notifications.notify(process_id, channel, payload)
    }

    /// The channels that the session listens to.
    pub(super) fn listening(&self) -> Vec<String> {
        self.statement_context.notifications.listening()
    }

    /// The sessions that are open now; none if the surrounding program reports none.
    pub(super) fn activity(&self) -> Vec<Activity> {
        let server_context = self.statement_context.database.server_context.read();
        server_context.as_ref().map_or_else(Vec::new, |server_context| server_context.activity())
    }

    /// Ends another session's statement, or the session. False if there is no session of the
    /// number.
    ///
    /// # Errors
    /// If the session belongs to another role and the current role lacks the privilege.
    pub(super) fn end(&self, process_id: i32, what: End) -> Result<bool> {
        let roles = self.catalog.roles();
        let current = self.identity().current;
        let server_context = self.statement_context.database.server_context.read();
        let Some(server_context) = server_context.as_ref() else { return Ok(false) };
        let sessions = server_context.activity();
        let Some(session) = sessions.iter().find(|session| session.process_id == process_id) else {
            return Ok(false);
        };
        let own = roles.get(current).is_some_and(|role| role.name == session.user);
        if !own && !roles.is_superuser(current) {
            let message = "must be a member of the role whose query is being canceled";
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(server_context.end(process_id, what))
    }

    /// The advisory locks that are held or waited for.
    pub(super) fn locks(&self) -> Vec<Listed> {
        self.statement_context.database.locks.listed()
    }

    pub(super) fn started_micros(&self) -> i64 {
        self.statement_context.database.opened_micros
    }

    /// The present time in microseconds since 1970.
    pub(super) fn now_micros(&self) -> i64 {
        self.statement_context.database.engine.env().clock.now_micros()
    }

    /// The position of the newest group that is visible.
    pub(super) fn position(&self) -> i64 {
        let lsn = self.statement_context.database.engine.snapshot().lsn();
        i64::try_from(lsn.0).unwrap_or(i64::MAX)
    }

    /// The present state of a table; `None` if it is not published yet.
    pub(super) fn state_of(&self, id: TableId) -> Option<Arc<TableState>> {
        self.statement_context.database.engine_of(id).snapshot().table(id).cloned()
    }

    /// Current number of rows of a table.
    pub(super) fn rows_of(&self, id: TableId) -> Option<i64> {
        self.state_of(id).map(|state| count(state.rows()))
    }

    /// The memory that a table takes now.
    pub(super) fn bytes_of(&self, id: TableId) -> Option<i64> {
        self.state_of(id).map(|state| count(state.memory_bytes()))
    }

    pub(super) fn log(&self) -> LogStatus {
        self.statement_context.database.engine.log_status()
    }

    pub(super) fn checkpoints(&self) -> Vec<CheckpointRun> {
        self.statement_context.database.engine.checkpoints()
    }

    pub(super) fn bytes_of_all(&self) -> i64 {
        let engines = self.statement_context.database.engines();
        let bytes = engines.map(|engine| {
            let snapshot = engine.snapshot();
            snapshot.tables().map(|(_, state)| state.memory_bytes()).sum::<usize>()
        });
        count(bytes.sum())
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
