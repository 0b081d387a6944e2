//! Resolves the names of objects in statements.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use thalweg_txn::{Catalog, Object, Privileges, TableEntry, no_namespace, no_table};
use thalweg_types::{Error, Result, SqlState, TableId, TableSchema};

use super::{Execution, folded};
use crate::catalog::{DATABASE, SearchPath};
use crate::temporary_objects::{ALIAS, own_namespace};

/// A name with its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QualifiedName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl QualifiedName {
    pub(crate) fn of(name: &ObjectName) -> Result<QualifiedName> {
        let mut parts = Vec::new();
        for part in &name.0 {
            let ident = part.as_ident().ok_or_else(|| improper(name))?;
            parts.push(folded(ident));
        }
        let path = SearchPath::current();
        let (namespace, name) = match parts.as_slice() {
            [name] => (path.target().unwrap_or_default(), name),
            [namespace, name] => (path.namespace(namespace), name),
            [database, namespace, name] if database == DATABASE => {
                (path.namespace(namespace), name)
            }
            _ => return Err(improper(name)),
        };
        Ok(QualifiedName { namespace: namespace.to_owned(), name: name.clone() })
    }

    /// The name of an object that exists, or is missing: an unqualified name is looked up on the
    /// search path.
    pub(crate) fn existing(catalog: &Catalog, name: &ObjectName) -> Result<QualifiedName> {
        let mut qualified = QualifiedName::of(name)?;
        if name.0.len() == 1 {
            let path = SearchPath::current();
            let target = path.target().filter(|target| catalog.has_namespace(target));
            let holder = path.holder(catalog, &qualified.name).or(target);
            qualified.namespace = holder.unwrap_or_default().to_owned();
        }
        Ok(qualified)
    }

    /// The name of an object to create. The namespace of temporary objects is created if need be:
    /// for a temporary object, and where `pg_temp` is named.
    ///
    /// # Errors
    /// 3F000 if it has no namespace and the search path has none either; 42P16 if a temporary
    /// object has the name of another namespace.
    pub(crate) fn to_create(
        execution: &Execution<'_>,
        name: &ObjectName,
        is_temporary: bool,
    ) -> Result<QualifiedName> {
        let qualified = QualifiedName::of(name)?;
        let is_unqualified = name.0.len() == 1;
        let names_temporary = match is_unqualified {
            true => is_temporary || SearchPath::current().creates_temporary(),
            false => {
                let catalog = execution.names.catalog();
                qualified.namespace == ALIAS
                    || catalog.temporary() == Some(qualified.namespace.as_str())
            }
        };
        if names_temporary {
            let namespace = own_namespace(execution)?;
            return Ok(QualifiedName { namespace, ..qualified });
        }
        if is_temporary {
            return Err(not_temporary());
        }
        if qualified.namespace.is_empty() {
            let message = "no schema has been selected to create in";
            return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, message));
        }
        Ok(qualified)
    }

    pub(crate) fn find<'a>(&self, catalog: &'a Catalog) -> Result<&'a Object> {
        // No namespace on the search path has the object.
        if self.namespace.is_empty() {
            return Err(no_table(&self.name));
        }
        if !catalog.has_namespace(&self.namespace) {
            return Err(no_namespace(&self.namespace));
        }
        catalog.object(&self.namespace, &self.name).ok_or_else(|| no_table(&self.name))
    }
}

/// A table that a statement changes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) entry: TableEntry,
}

impl Target {
    pub(crate) fn find(catalog: &Catalog, name: &ObjectName) -> Result<Target> {
        let name = QualifiedName::existing(catalog, name)?;
        match name.find(catalog)? {
            Object::Table(entry) => Ok(Target { entry: entry.clone() }),
            other => {
                if let Object::Sequence(_) = other {
                    let message = format!("cannot change sequence \"{}\"", name.name);
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
                }
                let kind = other.kind();
                let message = format!("cannot change \"{}\": it is a {kind}", name.name);
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// # Errors
    /// If the current role lacks one of the privileges.
    pub(crate) fn require(
        &self,
        execution: &Execution<'_>,
        privileges: impl Into<Privileges>,
    ) -> Result<()> {
        let schema = self.schema();
        execution.names.rights().on_relation(&schema.namespace, &schema.name, privileges)
    }

    pub(crate) fn id(&self) -> TableId {
        self.entry.schema.id
    }

    pub(crate) fn schema(&self) -> &Arc<TableSchema> {
        &self.entry.schema
    }

    /// The position of a column.
    pub(crate) fn position(&self, name: &str) -> Result<usize> {
        let found = self.entry.schema.column_named(name);
        found.map(|(position, _)| position).ok_or_else(|| {
            let table = &self.entry.schema.name;
            let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
            let names: Vec<&str> =
                self.entry.schema.columns.iter().map(|c| c.name.as_str()).collect();
            Error::new(SqlState::UNDEFINED_COLUMN, message)
                .with_hint(format!("Its columns are {}.", names.join(", ")))
        })
    }
}

/// The error of a temporary object that is to have the name of another namespace.
pub(super) fn not_temporary() -> Error {
    let message = "cannot create temporary relation in non-temporary schema";
    Error::new(SqlState::INVALID_TABLE_DEFINITION, message)
}

fn improper(name: &ObjectName) -> Error {
    let message = format!("improper qualified name: {name}");
    Error::new(SqlState::SYNTAX_ERROR, message)
        .with_hint("A name is table, schema.table or thalweg.schema.table.")
}
