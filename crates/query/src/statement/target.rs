//! Resolves the names of objects in statements.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use thalweg_txn::{
    Catalog, DEFAULT_NAMESPACE, Object, Privileges, TableEntry, no_namespace, no_table,
};
use thalweg_types::{Error, Result, SqlState, TableId, TableSchema};

use super::{Execution, folded};
use crate::catalog::DATABASE;

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
        match parts.as_slice() {
            [name] => {
                Ok(QualifiedName { namespace: DEFAULT_NAMESPACE.to_owned(), name: name.clone() })
            }
            [namespace, name] => {
                Ok(QualifiedName { namespace: namespace.clone(), name: name.clone() })
            }
            [database, namespace, name] if database == DATABASE => {
                Ok(QualifiedName { namespace: namespace.clone(), name: name.clone() })
            }
            _ => Err(improper(name)),
        }
    }

    pub(crate) fn find<'a>(&self, catalog: &'a Catalog) -> Result<&'a Object> {
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
        let name = QualifiedName::of(name)?;
        match name.find(catalog)? {
            Object::Table(entry) => Ok(Target { entry: entry.clone() }),
            other => {
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

fn improper(name: &ObjectName) -> Error {
    let message = format!("improper qualified name: {name}");
    Error::new(SqlState::SYNTAX_ERROR, message)
        .with_hint("A name is table, schema.table or thalweg.schema.table.")
}
