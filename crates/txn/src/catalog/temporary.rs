//! Temporary objects in the catalog.
//!
//! One engine without a directory holds the temporary objects of all sessions, each session's in a
//! namespace of its own. A session reads a *joined* catalog: the database's, with the objects of
//! its namespace. A change belongs to the engine of the object that it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_types::{TableId, TableSchema};

use super::comments::CommentedObject;
use super::dependents::Referenced;
use super::{Catalog, CatalogChange, Object, View};

/// The names of all namespaces of temporary objects begin with this. A number follows.
const PREFIX: &str = "pg_temp_";

/// The namespace of the temporary objects of one session.
#[must_use]
pub fn temporary_namespace(number: u32) -> String {
    format!("{PREFIX}{number}")
}

/// True for the name of a namespace of temporary objects.
#[must_use]
pub fn is_temporary_namespace(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

impl Catalog {
    /// The namespace of temporary objects of the session that reads this catalog; `None` if the
    /// session has none.
    #[must_use]
    pub fn temporary(&self) -> Option<&str> {
        self.temporary.as_deref()
    }

    /// True if a temporary object has the name of a permanent table. An unqualified name may mean
    /// that object.
    #[must_use]
    pub fn is_shadowed(&self, table: &TableSchema) -> bool {
        let holds = |namespace: &str| self.object(namespace, &table.name).is_some();
        !table.id.is_temporary() && self.temporary().is_some_and(holds)
    }

    /// This catalog with the objects that `temporary` has in a namespace.
    #[must_use]
    pub fn with_temporary(&self, temporary: &Catalog, namespace: &str) -> Catalog {
        let mut joined = self.clone();
        let Some(objects) = temporary.namespaces.get(namespace) else { return joined };
        joined.temporary = Some(namespace.into());
        joined.namespaces.insert(namespace.to_owned(), Arc::clone(objects));
        if let Some(indexes) = temporary.indexes.get(namespace) {
            Arc::make_mut(&mut joined.indexes).insert(namespace.to_owned(), indexes.clone());
        }
        for (name, object) in objects.iter() {
            let id = match object {
                Object::Table(entry) => {
                    joined.add_references(&entry.schema);
                    entry.schema.id
                }
                Object::Sequence(sequence) => sequence.id,
                Object::View(_) | Object::External(_) => continue,
            };
            joined.names.insert(id, (namespace.to_owned(), name.clone()));
        }
        if temporary.access.within(namespace).next().is_some() {
            let access = Arc::make_mut(&mut joined.access);
            access.extend(temporary.access.within(namespace));
        }
        if temporary.comments.within(namespace).next().is_some() {
            let comments = Arc::make_mut(&mut joined.comments);
            comments.extend(temporary.comments.within(namespace));
        }
        joined
    }

    /// True if a namespace is the same in both catalogs of temporary objects.
    #[must_use]
    pub fn has_same_namespace(&self, other: &Catalog, namespace: &str) -> bool {
        // Every change of an object makes a new map of its namespace.
        let objects = match (self.namespaces.get(namespace), other.namespaces.get(namespace)) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        objects
            && self.access.within(namespace).eq(other.access.within(namespace))
            && self.comments.within(namespace).eq(other.comments.within(namespace))
    }

    /// The changes that drop objects with everything that depends on them.
    #[must_use]
    pub fn removal(&self, requested: &[Referenced]) -> Vec<CatalogChange> {
        let steps = self.with_dependents(requested);
        let mut changes = Vec::new();
        // Views that read each other have no order in which they can be dropped.
        for step in &steps {
            if let Referenced::Named { namespace, name } = &step.object
                && let Some(Object::View(view)) = self.object(namespace, name)
            {
                let object = Object::View(View { binding: None, ..view.clone() });
                let (namespace, name) = (namespace.clone(), name.clone());
                changes.push(CatalogChange::Define { namespace, name, object, replace: true });
            }
        }
        let mut altered: BTreeMap<TableId, TableSchema> = BTreeMap::new();
        let mut dropped = BTreeSet::new();
        for step in steps {
            match step.object {
                Referenced::Table(id) => {
                    dropped.insert(id);
                    changes.push(CatalogChange::DropTable { id });
                }
                // The constraint has gone with its table.
                Referenced::Constraint(id, _) if dropped.contains(&id) => {}
                Referenced::Sequence(id) => {
                    let Some((namespace, name, _)) = self.sequence(id) else { continue };
                    let (namespace, name) = (namespace.to_owned(), name.to_owned());
                    changes.push(CatalogChange::Undefine { namespace, name });
                }
                Referenced::Named { namespace, name } => {
                    changes.push(CatalogChange::Undefine { namespace, name });
                }
                Referenced::Constraint(id, name) => {
                    let Some(entry) = self.table(id) else { continue };
                    let schema = altered.entry(id).or_insert_with(|| entry.schema.as_ref().clone());
                    schema.foreign_keys.retain(|key| key.name != name);
                    let schema = schema.clone();
                    changes.push(CatalogChange::AlterTable { schema, added: None, expected: None });
                }
                Referenced::Column(..) => {}
            }
        }
        changes
    }

    /// The changes that drop all objects of a namespace.
    #[must_use]
    pub fn removal_of_all(&self, namespace: &str) -> Vec<CatalogChange> {
        self.removal(&self.held_by(namespace))
    }
}

impl CatalogChange {
    /// True for a change of temporary objects.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            CatalogChange::CreateNamespace { name } | CatalogChange::DropNamespace { name } => {
                is_temporary_namespace(name)
            }
            CatalogChange::CreateTable { schema } | CatalogChange::AlterTable { schema, .. } => {
                schema.id.is_temporary()
            }
            CatalogChange::DropTable { id } => id.is_temporary(),
            CatalogChange::Define { namespace, .. } | CatalogChange::Undefine { namespace, .. } => {
                is_temporary_namespace(namespace)
            }
            CatalogChange::Role(_) | CatalogChange::SettingDefault(_) => false,
            CatalogChange::Access(change) => change.is_temporary(),
            CatalogChange::Comment(change) => match &change.object {
                CommentedObject::Object(object) => object.is_temporary(),
                CommentedObject::Role(_) => false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_types::Lsn;

    use super::super::{AccessChange, CommentChange, CommentPart, Privilege, RoleId, Securable};
    use super::*;

    fn table(id: u32, namespace: &str, name: &str) -> CatalogChange {
        let schema =
            TableSchema { namespace: namespace.to_owned(), ..super::super::tests::table(id, name) };
        CatalogChange::CreateTable { schema }
    }

    fn after(catalog: &Catalog, changes: &[CatalogChange]) -> Catalog {
        changes.iter().fold(catalog.clone(), |catalog, change| {
            catalog.after(change, Lsn(1)).expect("the change fits")
        })
    }

    fn of_two_sessions() -> Catalog {
        let first = TableId::FIRST_TEMPORARY.0;
        let object = Securable::relation("pg_temp_1", "t");
        let changes = [
            CatalogChange::CreateNamespace { name: "pg_temp_1".to_owned() },
            CatalogChange::CreateNamespace { name: "pg_temp_2".to_owned() },
            table(first, "pg_temp_1", "t"),
            table(first + 1, "pg_temp_2", "u"),
            CatalogChange::Access(AccessChange::Own {
                object: object.clone(),
                owner: RoleId(20_001),
            }),
            CatalogChange::Comment(CommentChange {
                object: CommentedObject::Object(object),
                part: CommentPart::Whole,
                text: Some("mine".to_owned()),
            }),
        ];
        assert!(changes.iter().all(CatalogChange::is_temporary));
        after(&Catalog::default(), &changes)
    }

    #[test]
    fn names_of_namespaces_end_in_numbers() {
        assert!(is_temporary_namespace(&temporary_namespace(7)));
        for name in ["pg_temp", "pg_temp_", "pg_temp_x", "pg_temp_1x", "public"] {
            assert!(!is_temporary_namespace(name), "{name}");
        }
    }

    #[test]
    fn a_joined_catalog_has_the_objects_of_one_session() {
        let base = after(&Catalog::default(), &[table(1, "public", "t"), table(2, "public", "v")]);
        let joined = base.with_temporary(&of_two_sessions(), "pg_temp_1");
        assert_eq!(joined.temporary(), Some("pg_temp_1"));
        assert!(joined.table(TableId::FIRST_TEMPORARY).is_some());
        assert!(!joined.has_namespace("pg_temp_2"));
        assert_eq!(joined.access(&Securable::relation("pg_temp_1", "t")).owner, RoleId(20_001));
        assert_eq!(joined.comments().count(), 1);
        assert!(joined.is_shadowed(&joined.table(TableId(1)).unwrap().schema));
        assert!(!joined.is_shadowed(&joined.table(TableId(2)).unwrap().schema));
        assert_eq!(base.with_temporary(&of_two_sessions(), "pg_temp_3"), base);
    }

    #[test]
    fn a_change_of_grants_alone_makes_a_namespace_another_one() {
        let before = of_two_sessions();
        let grant = super::super::Grant {
            grantee: None,
            grantor: RoleId::BOOTSTRAP,
            privileges: Privilege::Select.into(),
            grantable: super::super::Privileges::NONE,
        };
        let object = Securable::relation("pg_temp_1", "t");
        let change = CatalogChange::Access(AccessChange::Grant { object, grant });
        let granted = after(&before, &[change]);
        assert!(!before.has_same_namespace(&granted, "pg_temp_1"));
        assert!(before.has_same_namespace(&granted, "pg_temp_2"));
    }

    #[test]
    fn a_removal_leaves_the_objects_of_others() {
        let catalog = of_two_sessions();
        let removed = after(&catalog, &catalog.removal_of_all("pg_temp_1"));
        assert_eq!(removed.objects("pg_temp_1").count(), 0);
        assert_eq!(removed.objects("pg_temp_2").count(), 1);
        assert_eq!(removed.comments().count(), 0);
    }
}
