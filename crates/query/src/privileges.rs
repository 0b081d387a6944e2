//! The privileges of the role that runs a statement.
//!
//! Statements check here before they touch an object. Read access is checked when a name is
//! planned; inside a view, for the view's owner. Superusers pass all checks. In a transaction
//! block, the catalog of its snapshot counts.

mod functions;
mod needs;

use std::sync::Arc;

use datafusion::sql::parser::Statement as Tree;
use thalweg_txn::{
    AccessChange, Catalog, CatalogChange, Object, Privilege, Privileges, RoleId, Securable,
    no_namespace,
};
use thalweg_types::{Error, Result, SqlState};

use crate::catalog::{DATABASE, SessionCatalog};

pub(crate) use functions::functions;
pub(crate) use needs::{to_delete, to_insert, to_update};

/// The roles of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The role that logged in.
    pub(crate) authenticated: RoleId,
    /// The role that logged in, or the one that `SET SESSION AUTHORIZATION` names instead.
    pub(crate) session: RoleId,
    /// The role whose privileges count: the session's, or the one that `SET ROLE` names.
    pub(crate) current: RoleId,
}

impl Identity {
    pub(crate) fn of(role: RoleId) -> Identity {
        Identity { authenticated: role, session: role, current: role }
    }
}

/// The privileges of one role in one catalog.
pub(crate) struct Rights {
    catalog: Arc<Catalog>,
    role: RoleId,
    superuser: bool,
}

impl Rights {
    pub(crate) fn new(catalog: Arc<Catalog>, role: RoleId) -> Rights {
        let superuser = catalog.roles().is_superuser(role);
        Rights { catalog, role, superuser }
    }

    pub(crate) fn role(&self) -> RoleId {
        self.role
    }

    pub(crate) fn superuser(&self) -> bool {
        self.superuser
    }

    /// # Errors
    /// If the role lacks one of the privileges on a table, view or external table.
    pub(crate) fn on_relation(
        &self,
        namespace: &str,
        name: &str,
        wanted: impl Into<Privileges>,
    ) -> Result<()> {
        if self.superuser {
            return Ok(());
        }
        self.on_namespace(namespace, Privilege::Usage)?;
        let object = Securable::relation(namespace, name);
        if self.catalog.privileges(self.role, &object).contains(wanted.into()) {
            return Ok(());
        }
        Err(self.denied(&object))
    }

    /// The role's privileges on the rows of a relation.
    ///
    /// # Errors
    /// If it has none.
    pub(crate) fn on_rows(&self, namespace: &str, name: &str) -> Result<Privileges> {
        let object = Securable::relation(namespace, name);
        if self.superuser {
            return Ok(object.all_privileges());
        }
        self.on_namespace(namespace, Privilege::Usage)?;
        let held = self.catalog.privileges(self.role, &object);
        if held == Privileges::NONE { Err(self.denied(&object)) } else { Ok(held) }
    }

    pub(crate) fn on_namespace(&self, name: &str, wanted: Privilege) -> Result<()> {
        // The session's own temporary objects.
        if self.catalog.temporary() == Some(name) {
            return Ok(());
        }
        let object = Securable::Namespace(name.to_owned());
        if self.superuser || self.catalog.privileges(self.role, &object).contains(wanted.into()) {
            return Ok(());
        }
        Err(self.denied(&object))
    }

    pub(crate) fn on_database(&self, wanted: Privilege) -> Result<()> {
        let held = || self.catalog.privileges(self.role, &Securable::Database);
        if self.superuser || held().contains(wanted.into()) {
            return Ok(());
        }
        Err(self.denied(&Securable::Database))
    }

    /// # Errors
    /// If the role neither owns the object, nor has the privileges of the role that does.
    pub(crate) fn owns(&self, object: &Securable) -> Result<()> {
        if self.is_owner(object) {
            return Ok(());
        }
        if let Securable::Relation { namespace, .. } = object {
            self.on_namespace(namespace, Privilege::Usage)?;
        }
        let message = format!("must be owner of {}", self.describe_object(object));
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    pub(crate) fn is_owner(&self, object: &Securable) -> bool {
        self.superuser
            || self.catalog.roles().has_privileges_of(self.role, self.catalog.access(object).owner)
    }

    /// The owner of a schema may drop what is in it.
    pub(crate) fn may_drop(&self, namespace: &str, name: &str) -> Result<()> {
        if self.is_owner(&Securable::Namespace(namespace.to_owned())) {
            return Ok(());
        }
        self.owns(&Securable::relation(namespace, name))
    }

    /// # Errors
    /// If the role may not access the machine's files, which it needs `to` do something.
    pub(crate) fn read_server_files(&self, to: &str) -> Result<()> {
        self.server_files(RoleId::READ_SERVER_FILES, "pg_read_server_files", to)
    }

    pub(crate) fn write_server_files(&self, to: &str) -> Result<()> {
        self.server_files(RoleId::WRITE_SERVER_FILES, "pg_write_server_files", to)
    }

    fn server_files(&self, role: RoleId, name: &str, to: &str) -> Result<()> {
        if self.superuser || self.catalog.roles().has_privileges_of(self.role, role) {
            return Ok(());
        }
        let message = format!("must be superuser or have privileges of the {name} role to {to}");
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            .with_hint("Anyone can COPY to stdout or from stdin."))
    }

    pub(crate) fn denied(&self, object: &Securable) -> Error {
        let message = format!("permission denied for {}", self.describe_object(object));
        Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
    }

    /// An object's kind and name.
    fn describe_object(&self, object: &Securable) -> String {
        match object {
            Securable::Database => format!("database {DATABASE}"),
            Securable::Namespace(name) => format!("schema {name}"),
            Securable::Relation { namespace, name } => {
                let kind = self.catalog.object(namespace, name).map_or("table", Object::kind);
                format!("{kind} {name}")
            }
        }
    }

    fn creates_in(&self, namespace: &str) -> Result<()> {
        if !self.catalog.has_namespace(namespace) {
            return Err(no_namespace(namespace));
        }
        self.on_namespace(namespace, Privilege::Create)
    }
}

/// Refuses names in catalogs other than the public one, since privileges are not checked in the
/// others.
///
/// # Errors
/// If a statement names something in another catalog.
pub(crate) fn check_names(names: &SessionCatalog, statement: &Tree) -> Result<()> {
    if names.rights().superuser() { Ok(()) } else { needs::refuse_hidden(statement) }
}

/// The role of that name, if it may log in.
///
/// # Errors
/// If there is no such role, or it may not log in, or not use the database.
pub(crate) fn may_log_in(catalog: &Arc<Catalog>, name: &str) -> Result<RoleId> {
    let refused = |message| Err(Error::new(SqlState::INVALID_AUTHORIZATION, message));
    let Some(role) = catalog.roles().named(name) else {
        return refused(format!("role \"{name}\" does not exist"));
    };
    if !role.login {
        return refused(format!("role \"{name}\" is not permitted to log in"));
    }
    Rights::new(Arc::clone(catalog), role.id).on_database(Privilege::Connect)?;
    Ok(role.id)
}

/// Adds or replaces an object. The role that runs the statement becomes its owner.
///
/// # Errors
/// If the role may not do that, or the change does not fit the catalog.
pub(crate) fn create(names: &SessionCatalog, change: CatalogChange) -> Result<()> {
    let rights = names.rights();
    let object = match &change {
        CatalogChange::CreateNamespace { name } => {
            rights.on_database(Privilege::Create)?;
            Securable::Namespace(name.clone())
        }
        CatalogChange::CreateTable { schema } => {
            rights.creates_in(&schema.namespace)?;
            Securable::relation(&schema.namespace, &schema.name)
        }
        CatalogChange::Define { namespace, name, .. } => {
            rights.creates_in(namespace)?;
            Securable::relation(namespace, name)
        }
        _ => return Err(Error::internal("the change adds no object")),
    };
    let replaces = match &object {
        Securable::Relation { namespace, name } => rights.catalog.object(namespace, name).is_some(),
        Securable::Database | Securable::Namespace(_) => false,
    };
    if replaces {
        rights.owns(&object)?;
    }
    names.with(|transaction| {
        transaction.change_catalog(change)?;
        // Objects without a named owner belong to the bootstrap role.
        if replaces || rights.role == RoleId::BOOTSTRAP {
            return Ok(());
        }
        let own = AccessChange::Own { object, owner: rights.role };
        transaction.change_catalog(CatalogChange::Access(own))
    })
}
