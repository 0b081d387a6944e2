//! Visibility for the current role: unlike `pg_catalog`, these views show each role only the
//! objects that it owns or may use. The rules are those of PostgreSQL's views.

use thalweg_txn::{Catalog, Privilege, Privileges, RoleId, Securable};

use crate::catalog::objects::PG_CATALOG;
use crate::catalog::{CatalogLookup, INFORMATION_SCHEMA};

/// Privileges that apply to columns. Here they are granted with their table.
const OF_COLUMNS: [Privilege; 4] =
    [Privilege::Select, Privilege::Insert, Privilege::Update, Privilege::References];

pub(super) struct RoleVisibility<'a> {
    catalog: &'a Catalog,
    role: RoleId,
}

impl<'a> RoleVisibility<'a> {
    pub(super) fn of(lookup: &'a CatalogLookup) -> RoleVisibility<'a> {
        RoleVisibility { catalog: &lookup.catalog, role: lookup.identity().current }
    }

    pub(super) fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// True if the role has the privileges of another role.
    pub(super) fn acts_as(&self, other: RoleId) -> bool {
        self.catalog.roles().has_privileges_of(self.role, other)
    }

    pub(super) fn owns(&self, namespace: &str, name: &str) -> bool {
        self.acts_as(self.catalog.access(&Securable::relation(namespace, name)).owner)
    }

    /// True if the role has any privilege on a relation.
    pub(super) fn relation(&self, namespace: &str, name: &str) -> bool {
        is_systems(namespace) || !self.held(namespace, name).is_empty()
    }

    /// True if it has any privilege on the relation's columns.
    pub(super) fn columns(&self, namespace: &str, name: &str) -> bool {
        let of_columns: Privileges = OF_COLUMNS.into_iter().collect();
        is_systems(namespace) || !self.held(namespace, name).common(of_columns).is_empty()
    }

    /// True if it has a privilege other than `SELECT`.
    pub(super) fn more_than_rows(&self, namespace: &str, name: &str) -> bool {
        !self.held(namespace, name).without(Privilege::Select.into()).is_empty()
    }

    pub(super) fn namespace(&self, name: &str) -> bool {
        let object = Securable::Namespace(name.to_owned());
        is_systems(name) || !self.catalog.privileges(self.role, &object).is_empty()
    }

    fn held(&self, namespace: &str, name: &str) -> Privileges {
        self.catalog.privileges(self.role, &Securable::relation(namespace, name))
    }
}

/// True for the system's namespaces, which everybody may read.
fn is_systems(namespace: &str) -> bool {
    matches!(namespace, PG_CATALOG | INFORMATION_SCHEMA)
}
