//! Views: their queries, and the relations and columns that the names in a query stand for.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_types::{ColumnId, TableId};

use super::temporary::is_temporary_namespace;
use super::{Catalog, Object};

/// A view: a named query without rows of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The query's text.
    pub query: String,
    /// Names of its columns; those that are missing at the end follow from the query.
    pub columns: Vec<String>,
    /// Meaning of the names in the query. `None` for views written before bindings existed: their
    /// names have the meaning of the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Arc<ViewBinding>>,
}

/// Meaning of the names in a view's query, which later renames do not change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewBinding {
    /// Increases with each view, so that dependents are listed in the order of their creation.
    pub number: u64,
    /// All relations that the query reads, each once.
    pub relations: Vec<BoundRelation>,
}

/// A relation under the names by which a view's query calls it and its columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoundRelation {
    /// Namespace and name in the query; the namespace also if the query does not write it.
    pub namespace: String,
    pub name: String,
    pub source: BoundSource,
    /// The columns that the relation had when the view was created, in their order.
    pub columns: Vec<BoundColumn>,
}

/// Identity of a relation that a view reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum BoundSource {
    /// A table, which may have another name meanwhile.
    Table(TableId),
    /// A sequence, which may have another name meanwhile.
    Sequence(TableId),
    /// A view or an external table.
    Named { namespace: String, name: String },
}

/// A column under the name by which a view's query calls it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoundColumn {
    pub name: String,
    /// Identity of a table's column; `None` for columns of views and external tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<ColumnId>,
    /// True if the query refers to the column. It may not be dropped then.
    pub used: bool,
}

impl BoundSource {
    /// True for an object of one session.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            BoundSource::Table(id) | BoundSource::Sequence(id) => id.is_temporary(),
            BoundSource::Named { namespace, .. } => is_temporary_namespace(namespace),
        }
    }
}

impl ViewBinding {
    /// The relation that the query calls by these names.
    #[must_use]
    pub fn relation(&self, namespace: &str, name: &str) -> Option<&BoundRelation> {
        let is_called =
            |relation: &&BoundRelation| relation.namespace == namespace && relation.name == name;
        self.relations.iter().find(is_called)
    }

    /// True if the query reads a temporary object.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.relations.iter().any(|relation| relation.source.is_temporary())
    }

    /// True if the query reads the relation.
    pub(super) fn reads(&self, source: &BoundSource) -> bool {
        self.relations.iter().any(|relation| relation.source == *source)
    }

    /// True if the query refers to the table's column.
    pub(super) fn uses(&self, table: TableId, column: ColumnId) -> bool {
        let of_table = |relation: &&BoundRelation| relation.source == BoundSource::Table(table);
        let columns = self.relations.iter().filter(of_table).flat_map(|found| &found.columns);
        columns.into_iter().any(|other| other.used && other.id == Some(column))
    }
}

impl Catalog {
    /// Namespace and name of each view, with its definition.
    pub fn views(&self) -> impl Iterator<Item = (&str, &str, &View)> {
        self.namespaces().flat_map(|namespace| {
            self.objects(namespace).filter_map(move |(name, object)| match object {
                Object::View(view) => Some((namespace, name, view)),
                Object::Table(_) | Object::External(_) | Object::Sequence(_) => None,
            })
        })
    }

    /// A number for the binding of a new view.
    #[must_use]
    pub fn next_view_number(&self) -> u64 {
        let numbers = self.views().filter_map(|(_, _, view)| Some(view.binding.as_ref()?.number));
        numbers.max().map_or(1, |last| last.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_written_before_bindings_existed_are_read() {
        let old = r#"{"query": "SELECT 1", "columns": []}"#;
        let view: View = serde_json::from_str(old).unwrap();
        assert_eq!(view.binding, None);
        assert_eq!(
            serde_json::to_string(&view).unwrap(),
            old.replace(": ", ":").replace(", ", ",")
        );
    }

    #[test]
    fn bindings_are_written_and_read() {
        let column = |name: &str, id| BoundColumn { name: name.to_owned(), id, used: true };
        let relation = |source, id| BoundRelation {
            namespace: "public".to_owned(),
            name: "t".to_owned(),
            source,
            columns: vec![column("a", id), column("b", None)],
        };
        let named = BoundSource::Named { namespace: "s".to_owned(), name: "v".to_owned() };
        let relations = vec![
            relation(BoundSource::Table(TableId(7)), Some(ColumnId(3))),
            relation(named, None),
        ];
        let binding = Some(Arc::new(ViewBinding { number: 5, relations }));
        let view = View { query: "SELECT 1".to_owned(), columns: Vec::new(), binding };
        let json = serde_json::to_string(&view).unwrap();
        assert_eq!(serde_json::from_str::<View>(&json).unwrap(), view);
    }
}
