//! Objects that other objects depend on. Views depend on relations and on the columns that their
//! queries use; foreign keys depend on the table and the columns that they refer to.

use std::collections::BTreeSet;

use thalweg_types::{Column, ColumnId, Error, Result, SqlState, TableId, TableSchema};

use super::temporary::is_temporary_namespace;
use super::view::BoundSource;
use super::{Catalog, Object, Securable, View, table_is_gone};

/// An object that others may depend on, or a foreign key, which depends on others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Referenced {
    Table(TableId),
    Column(TableId, ColumnId),
    Sequence(TableId),
    /// A constraint of a table.
    Constraint(TableId, String),
    /// A view or an external table.
    Named {
        namespace: String,
        name: String,
    },
}

/// One step of a drop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    pub object: Referenced,
    pub reason: DropReason,
}

/// Reason for which an object is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DropReason {
    Requested,
    /// The object is a sequence or a constraint, and the column or table that owns it is dropped.
    Owned,
    /// The object depends on another one, which is described.
    DependsOn(String),
}

/// Descriptions of an object that is not to be dropped, and of the object that it depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub dependent: String,
    pub on: String,
}

/// An object whose dependents are being visited.
struct Visit {
    object: Referenced,
    reason: DropReason,
    /// Views that depend on the object and sequences that it owns, the next one last.
    pending: Vec<Referenced>,
}

impl Referenced {
    #[must_use]
    pub fn named(namespace: &str, name: &str) -> Referenced {
        Referenced::Named { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

impl Catalog {
    /// The object of a name, which exists.
    pub(super) fn referenced(&self, namespace: &str, name: &str) -> Referenced {
        match self.object(namespace, name) {
            Some(Object::Table(entry)) => Referenced::Table(entry.schema.id),
            Some(Object::Sequence(sequence)) => Referenced::Sequence(sequence.id),
            Some(Object::View(_) | Object::External(_)) | None => {
                Referenced::named(namespace, name)
            }
        }
    }

    /// `table t`, `column a of table t`, `view s.v`: an object's description for messages.
    #[must_use]
    pub fn describe_referenced(&self, object: &Referenced) -> String {
        let table = |id: &TableId| match self.table(*id) {
            Some(table) => {
                self.description(&Securable::relation(&table.schema.namespace, &table.schema.name))
            }
            None => "table".to_owned(),
        };
        match object {
            Referenced::Table(id) => table(id),
            Referenced::Column(id, column) => {
                let entry = self.table(*id);
                let columns = entry.iter().flat_map(|entry| &entry.schema.columns);
                let name = columns.into_iter().find(|known| known.id == *column);
                let name = name.map_or("", |known| known.name.as_str());
                format!("column {name} of {}", table(id))
            }
            Referenced::Constraint(id, name) => format!("constraint {name} on {}", table(id)),
            Referenced::Sequence(id) => match self.sequence(*id) {
                Some((namespace, name, _)) => {
                    self.description(&Securable::relation(namespace, name))
                }
                None => "sequence".to_owned(),
            },
            Referenced::Named { namespace, name } => {
                self.description(&Securable::relation(namespace, name))
            }
        }
    }

    /// Requested objects and all that depends on them, in an order in which they can be dropped.
    #[must_use]
    pub fn with_dependents(&self, requested: &[Referenced]) -> Vec<Dependent> {
        let mut steps = Vec::new();
        let mut seen = BTreeSet::new();
        for object in requested {
            self.visit(object, &mut seen, &mut steps);
        }
        for step in &mut steps {
            match &step.object {
                object if requested.contains(object) => step.reason = DropReason::Requested,
                Referenced::Constraint(table, _)
                    if requested.contains(&Referenced::Table(*table)) =>
                {
                    step.reason = DropReason::Owned;
                }
                _ => {}
            }
        }
        steps
    }

    /// Adds an object after all that depends on it. PostgreSQL visits newer dependents first and
    /// reports the result backwards.
    fn visit(
        &self,
        object: &Referenced,
        seen: &mut BTreeSet<Referenced>,
        steps: &mut Vec<Dependent>,
    ) {
        if !seen.insert(object.clone()) {
            return;
        }
        let visit = |object: Referenced, reason| {
            let mut pending = self.owned_by(&object);
            pending.extend(self.views_over(&object));
            pending.extend(self.foreign_keys_on(&object));
            Visit { object, reason, pending }
        };
        let mut around = vec![visit(object.clone(), DropReason::Requested)];
        while let Some(innermost) = around.last_mut() {
            match innermost.pending.pop() {
                Some(next) if seen.insert(next.clone()) => {
                    let reason = match &next {
                        Referenced::Sequence(_) => DropReason::Owned,
                        _ => DropReason::DependsOn(self.describe_referenced(&innermost.object)),
                    };
                    around.push(visit(next, reason));
                }
                Some(_) => {}
                None => {
                    let Some(Visit { object, reason, .. }) = around.pop() else { break };
                    steps.push(Dependent { object, reason });
                }
            }
        }
    }

    /// The views that depend on an object directly, ascending by creation.
    fn views_over(&self, object: &Referenced) -> Vec<Referenced> {
        let depends = |view: &View| {
            let Some(binding) = &view.binding else { return false };
            match object {
                Referenced::Table(id) => binding.reads(&BoundSource::Table(*id)),
                Referenced::Column(id, column) => binding.uses(*id, *column),
                Referenced::Sequence(id) => binding.reads(&BoundSource::Sequence(*id)),
                Referenced::Constraint(..) => false,
                Referenced::Named { namespace, name } => {
                    let (namespace, name) = (namespace.clone(), name.clone());
                    binding.reads(&BoundSource::Named { namespace, name })
                }
            }
        };
        let views = self.views().filter(|(_, _, view)| depends(view));
        let mut views: Vec<_> = views
            .map(|(namespace, name, view)| (number(view), Referenced::named(namespace, name)))
            .collect();
        views.sort();
        views.into_iter().map(|(_, view)| view).collect()
    }

    /// The sequences that a column owns, or all columns of a table.
    fn owned_by(&self, object: &Referenced) -> Vec<Referenced> {
        let is_owned = |owner: (TableId, ColumnId)| match object {
            Referenced::Table(id) => owner.0 == *id,
            Referenced::Column(id, column) => owner == (*id, *column),
            Referenced::Sequence(_) | Referenced::Constraint(..) | Referenced::Named { .. } => {
                false
            }
        };
        let owned = self.sequences().filter(|(_, _, known)| known.owned_by.is_some_and(is_owned));
        owned.map(|(_, _, sequence)| Referenced::Sequence(sequence.id)).collect()
    }

    /// The dependents among the steps of a drop and what they depend on, in PostgreSQL's order.
    #[must_use]
    pub fn dependencies(&self, steps: &[Dependent]) -> Vec<Dependency> {
        let dependency = |step: &Dependent| match &step.reason {
            DropReason::DependsOn(on) => {
                let dependent = self.describe_referenced(&step.object);
                Some(Dependency { dependent, on: on.clone() })
            }
            DropReason::Requested | DropReason::Owned => None,
        };
        steps.iter().rev().filter_map(dependency).collect()
    }

    /// # Errors
    /// If a view or a foreign key depends on one of the objects.
    pub(super) fn refuse_dependents(&self, objects: &[Referenced]) -> Result<()> {
        cannot_drop(self, objects, &self.dependencies(&self.with_dependents(objects)))
    }

    /// The objects of a namespace, those that were created last first as far as the order is known.
    /// Sequences that a column owns are left out, because they are dropped with it.
    #[must_use]
    pub fn held_by(&self, namespace: &str) -> Vec<Referenced> {
        let held = self.objects(namespace).filter_map(|(name, object)| {
            // Tables and sequences share one range of ids.
            let (number, id) = match object {
                Object::Table(entry) => (0, entry.schema.id.0),
                Object::Sequence(sequence) if sequence.owned_by.is_some() => return None,
                Object::Sequence(sequence) => (0, sequence.id.0),
                Object::External(_) => (0, 0),
                Object::View(view) => (number(view), 0),
            };
            Some((number, id, self.referenced(namespace, name)))
        });
        let mut held: Vec<_> = held.collect();
        held.sort_by(|one, other| other.cmp(one));
        held.into_iter().map(|(_, _, object)| object).collect()
    }

    /// The error of dropping a namespace that holds objects.
    pub(super) fn not_empty(&self, namespace: &str) -> Error {
        let steps = self.with_dependents(&self.held_by(namespace));
        let lines = steps.iter().rev().filter_map(|step| {
            let object = self.describe_referenced(&step.object);
            match &step.reason {
                DropReason::DependsOn(other) => Some(format!("{object} depends on {other}")),
                DropReason::Requested => Some(format!("{object} depends on schema {namespace}")),
                DropReason::Owned => None,
            }
        });
        let lines: Vec<String> = lines.collect();
        let message = format!("cannot drop schema {namespace} because other objects depend on it");
        depended_on(message, &lines)
    }

    /// # Errors
    /// If a table's new schema lacks a column that a view or a foreign key uses.
    pub(super) fn refuse_lost_columns(&self, from: &TableSchema, to: &TableSchema) -> Result<()> {
        let is_lost = |column: &&Column| to.position(column.id).is_none();
        for lost in from.columns.iter().filter(is_lost) {
            match to.column_named(&lost.name) {
                Some(_) => self.refuse_other_type(from, lost)?,
                None => self.refuse_dependents(&[Referenced::Column(from.id, lost.id)])?,
            }
        }
        Ok(())
    }

    /// # Errors
    /// If a view uses the column, whose type cannot change then.
    pub fn refuse_other_type(&self, table: &TableSchema, column: &Column) -> Result<()> {
        let views = self.views_over(&Referenced::Column(table.id, column.id));
        let Some(view) = views.first() else { return Ok(()) };
        let message = "cannot alter type of a column used by a view or rule";
        let view = self.describe_referenced(view);
        let detail = format!("rule _RETURN on {view} depends on column \"{}\"", column.name);
        Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail))
    }

    /// # Errors
    /// If another transaction has dropped an object or column that a new view uses. The engine of
    /// temporary objects does not know the others, so it does not check these.
    pub(super) fn check_binding(&self, namespace: &str, view: &View) -> Result<()> {
        let is_elsewhere =
            |source: &BoundSource| is_temporary_namespace(namespace) && !source.is_temporary();
        let relations = view.binding.iter().flat_map(|binding| &binding.relations);
        for relation in relations.filter(|relation| !is_elsewhere(&relation.source)) {
            let exists = match &relation.source {
                BoundSource::Named { namespace, name } => self.object(namespace, name).is_some(),
                BoundSource::Sequence(id) => self.sequence(*id).is_some(),
                BoundSource::Table(id) => self.table(*id).is_some_and(|table| {
                    let has = |id: ColumnId| table.schema.position(id).is_some();
                    let used = relation.columns.iter().filter(|column| column.used);
                    used.filter_map(|column| column.id).all(has)
                }),
            };
            if !exists {
                return Err(table_is_gone());
            }
        }
        Ok(())
    }
}

/// # Errors
/// If something depends on the requested objects.
pub fn cannot_drop(
    catalog: &Catalog,
    requested: &[Referenced],
    dependencies: &[Dependency],
) -> Result<()> {
    if dependencies.is_empty() {
        return Ok(());
    }
    let line = |known: &Dependency| format!("{} depends on {}", known.dependent, known.on);
    let lines: Vec<String> = dependencies.iter().map(line).collect();
    let subject = match requested {
        [one] => catalog.describe_referenced(one),
        _ => "desired object(s)".to_owned(),
    };
    let message = format!(
        "cannot drop {subject} because other objects depend on {}",
        match requested {
            [_] => "it",
            _ => "them",
        }
    );
    Err(depended_on(message, &lines))
}

fn depended_on(message: String, dependents: &[String]) -> Error {
    Error::new(SqlState::DEPENDENT_OBJECTS, message)
        .with_detail(dependents.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too.")
}

fn number(view: &View) -> u64 {
    view.binding.as_ref().map_or(0, |binding| binding.number)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thalweg_types::{DataType, Lsn};

    use super::super::{BoundColumn, BoundRelation, CatalogChange, DEFAULT_NAMESPACE, ViewBinding};
    use super::*;

    fn table(id: u32, name: &str, columns: &[(u32, &str)]) -> TableSchema {
        let column = |(id, name): &(u32, &str)| Column {
            id: ColumnId(*id),
            name: (*name).to_owned(),
            data_type: DataType::Int4,
            nullable: true,
            default: None,
            identity: None,
            second_digits: None,
        };
        TableSchema {
            id: TableId(id),
            namespace: DEFAULT_NAMESPACE.to_owned(),
            name: name.to_owned(),
            columns: columns.iter().map(column).collect(),
            primary_key: None,
            unique: Vec::new(),
            checks: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            shard_key: None,
            next_column_id: 9,
        }
    }

    fn table_source() -> BoundSource {
        BoundSource::Table(TableId(1))
    }

    fn view_source(name: &str) -> BoundSource {
        BoundSource::Named { namespace: DEFAULT_NAMESPACE.to_owned(), name: name.to_owned() }
    }

    /// Defines a view that uses column `a`, with id 0, of each source.
    fn view(name: &str, number: u64, sources: Vec<BoundSource>) -> CatalogChange {
        let relation = |source: BoundSource| {
            let id = matches!(source, BoundSource::Table(_)).then_some(ColumnId(0));
            let columns = vec![BoundColumn { name: "a".to_owned(), id, used: true }];
            let (namespace, name) = (DEFAULT_NAMESPACE.to_owned(), format!("{source:?}"));
            BoundRelation { namespace, name, source, columns }
        };
        let relations = sources.into_iter().map(relation).collect();
        let binding = Some(Arc::new(ViewBinding { number, relations }));
        let query = "SELECT a FROM t".to_owned();
        let object = Object::View(View { query, columns: vec!["a".to_owned()], binding });
        let (namespace, name) = (DEFAULT_NAMESPACE.to_owned(), name.to_owned());
        CatalogChange::Define { namespace, name, object, replace: true }
    }

    fn catalog(changes: &[CatalogChange]) -> Catalog {
        let table = CatalogChange::CreateTable { schema: table(1, "t", &[(0, "a"), (1, "b")]) };
        let apply = |catalog: Catalog, change| catalog.after(change, Lsn(1)).unwrap();
        [&[table][..], changes].concat().iter().fold(Catalog::default(), apply)
    }

    fn alter(schema: TableSchema) -> CatalogChange {
        CatalogChange::AlterTable { schema, added: None, expected: None }
    }

    #[test]
    fn dependents_are_reported_and_dropped_as_in_postgresql() {
        let catalog = catalog(&[
            view("v2", 1, vec![table_source()]),
            view("v1", 2, vec![table_source()]),
            view("w", 3, vec![view_source("v1"), view_source("v2")]),
        ]);
        let error = catalog.after(&CatalogChange::DropTable { id: TableId(1) }, Lsn(2));
        let error = error.unwrap_err();
        assert_eq!(error.state(), SqlState::DEPENDENT_OBJECTS);
        assert_eq!(error.message(), "cannot drop table t because other objects depend on it");
        let lines =
            "view v2 depends on table t\nview v1 depends on table t\nview w depends on view v1";
        assert_eq!(error.detail(), Some(lines));
        let steps = catalog.with_dependents(&[Referenced::Table(TableId(1))]);
        let order: Vec<String> =
            steps.iter().map(|step| catalog.describe_referenced(&step.object)).collect();
        assert_eq!(order, ["view w", "view v1", "view v2", "table t"]);
    }

    #[test]
    fn only_used_columns_are_protected() {
        let catalog = catalog(&[view("v", 1, vec![table_source()])]);
        let dropped = |columns: &[(u32, &str)]| {
            catalog.after(&alter(table(1, "t", columns)), Lsn(2)).map(drop)
        };
        assert!(dropped(&[(0, "a")]).is_ok());
        assert!(dropped(&[(0, "renamed"), (1, "b")]).is_ok());
        let error = dropped(&[(1, "b")]).unwrap_err();
        let message = "cannot drop column a of table t because other objects depend on it";
        assert_eq!(error.message(), message);
        assert_eq!(error.detail(), Some("view v depends on column a of table t"));
        // A column of another type has another id.
        let error = dropped(&[(2, "a"), (1, "b")]).unwrap_err();
        assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(error.detail(), Some("rule _RETURN on view v depends on column \"a\""));
        assert!(dropped(&[(0, "a"), (2, "b")]).is_ok());
    }

    #[test]
    fn a_view_over_what_was_dropped_meanwhile_is_refused() {
        let create = view("v", 1, vec![table_source()]);
        let gone = catalog(&[CatalogChange::DropTable { id: TableId(1) }]);
        let error = gone.after(&create, Lsn(2)).unwrap_err();
        assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
        let altered = catalog(&[alter(table(1, "t", &[(1, "b")]))]);
        let error = altered.after(&create, Lsn(2)).unwrap_err();
        assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    }

    #[test]
    fn a_namespace_that_is_not_empty_names_what_it_holds() {
        let catalog = catalog(&[view("v", 1, vec![table_source()])]);
        let drop = CatalogChange::DropNamespace { name: DEFAULT_NAMESPACE.to_owned() };
        let error = catalog.after(&drop, Lsn(2)).unwrap_err();
        let lines = "table t depends on schema public\nview v depends on schema public";
        assert_eq!(error.detail(), Some(lines));
    }

    #[test]
    fn views_that_read_each_other_end_the_search() {
        let catalog = catalog(&[
            view("v", 1, vec![table_source()]),
            view("w", 2, vec![view_source("v")]),
            view("v", 1, vec![table_source(), view_source("w")]),
        ]);
        assert_eq!(catalog.with_dependents(&[Referenced::Table(TableId(1))]).len(), 3);
        assert_eq!(catalog.with_dependents(&[Referenced::named("public", "w")]).len(), 2);
    }
}
