//! The comments of `COMMENT ON`.
//!
//! A comment belongs to an object and lives as long as the object. Changes of a table move the
//! comments on its columns, constraints and indexes along.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_types::{ColumnId, ForeignKey, Key, TableSchema};

use super::access::Securable;
use super::roles::RoleId;

/// An object that may have comments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CommentedObject {
    Object(Securable),
    Role(RoleId),
}

/// The part of an object that a comment describes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CommentPart {
    /// The object itself.
    Whole,
    /// A column: the id of a table's column, or the place of a view's column.
    Column(u32),
    /// A constraint of a table, by name.
    Constraint(String),
    /// An index of a table, by name.
    Index(String),
}

/// Sets a comment; without a text, removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentChange {
    pub object: CommentedObject,
    pub part: CommentPart,
    pub text: Option<String>,
}

/// An object and the comments on its parts.
type CommentOfObject<'a> = (&'a CommentedObject, &'a BTreeMap<CommentPart, String>);

type Stored = Vec<(CommentedObject, CommentPart, String)>;

/// All comments of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub(super) struct Comments(BTreeMap<CommentedObject, BTreeMap<CommentPart, String>>);

impl From<Stored> for Comments {
    fn from(stored: Stored) -> Comments {
        let mut comments = Comments::default();
        for (object, part, text) in stored {
            comments.0.entry(object).or_default().insert(part, text);
        }
        comments
    }
}

impl From<Comments> for Stored {
    fn from(comments: Comments) -> Stored {
        let objects = comments.0.into_iter();
        let flat = objects.flat_map(|(object, parts)| {
            parts.into_iter().map(move |(part, text)| (object.clone(), part, text))
        });
        flat.collect()
    }
}

impl Comments {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&CommentedObject, &CommentPart, &str)> {
        self.0.iter().flat_map(|(object, parts)| {
            parts.iter().map(move |(part, text)| (object, part, text.as_str()))
        })
    }

    /// The comments on objects of a namespace.
    pub(super) fn within(&self, namespace: &str) -> impl Iterator<Item = CommentOfObject<'_>> {
        self.0.iter().filter(move |(object, _)| match object {
            CommentedObject::Object(object) => object.namespace() == Some(namespace),
            CommentedObject::Role(_) => false,
        })
    }

    /// Adds the comments on objects that have none yet.
    pub(super) fn extend<'a>(&mut self, comments: impl Iterator<Item = CommentOfObject<'a>>) {
        self.0.extend(comments.map(|(object, parts)| (object.clone(), parts.clone())));
    }

    pub(super) fn has(&self, object: &CommentedObject) -> bool {
        self.0.contains_key(object)
    }

    pub(super) fn change(&mut self, change: &CommentChange) {
        match &change.text {
            Some(text) => {
                let parts = self.0.entry(change.object.clone()).or_default();
                parts.insert(change.part.clone(), text.clone());
            }
            None => {
                if let Some(parts) = self.0.get_mut(&change.object) {
                    parts.remove(&change.part);
                    if parts.is_empty() {
                        self.0.remove(&change.object);
                    }
                }
            }
        }
    }

    pub(super) fn forget(&mut self, object: &CommentedObject) {
        self.0.remove(object);
    }

    pub(super) fn rename(&mut self, from: &CommentedObject, to: CommentedObject) {
        if let Some(parts) = self.0.remove(from) {
            self.0.insert(to, parts);
        }
    }

    /// Moves the comments on parts of a table to the new form of the parts, and removes those on
    /// parts that the new form lacks.
    pub(super) fn follow(
        &mut self,
        table: &CommentedObject,
        before: &TableSchema,
        after: &TableSchema,
    ) {
        let Some(parts) = self.0.remove(table) else { return };
        let parts: BTreeMap<CommentPart, String> = parts
            .into_iter()
            .filter_map(|(part, text)| Some((part_after(part, before, after)?, text)))
            .collect();
        if !parts.is_empty() {
            self.0.insert(table.clone(), parts);
        }
    }
}

fn part_after(part: CommentPart, before: &TableSchema, after: &TableSchema) -> Option<CommentPart> {
    match part {
        CommentPart::Whole => Some(CommentPart::Whole),
        CommentPart::Column(id) => {
            let id = ColumnId(id);
            if after.position(id).is_some() {
                return Some(CommentPart::Column(id.0));
            }
            // A column whose type changes gets a new id.
            let name = &before.columns[before.position(id)?].name;
            after.column_named(name).map(|(_, column)| CommentPart::Column(column.id.0))
        }
        CommentPart::Constraint(name) => {
            let key = key_after(&name, before.keys(), after.keys());
            let check = || {
                let expression = before.checks.iter().find(|check| check.name == name);
                let expression = &expression?.expression;
                let is_old = |name: &str| before.checks.iter().any(|check| check.name == name);
                let found = after.checks.iter().find(|check| check.name == name).or_else(|| {
                    let renamed = |check: &&thalweg_types::Check| {
                        check.expression == *expression && !is_old(&check.name)
                    };
                    after.checks.iter().find(renamed)
                });
                found.map(|check| check.name.clone())
            };
            let foreign_key = || foreign_key_after(&name, before, after);
            key.or_else(check).or_else(foreign_key).map(CommentPart::Constraint)
        }
        CommentPart::Index(name) => {
            let all = |table: &'_ TableSchema| -> Vec<Key> {
                let indexes = table.indexes.iter().map(|index| index.key.clone());
                table.keys().cloned().chain(indexes).collect()
            };
            let (before, after) = (all(before), all(after));
            key_after(&name, before.iter(), after.iter()).map(CommentPart::Index)
        }
    }
}

/// The new name of a key: its name if there still is one of that name, and else that of a new key
/// of the same columns.
fn key_after<'a>(
    name: &str,
    before: impl Iterator<Item = &'a Key>,
    after: impl Iterator<Item = &'a Key>,
) -> Option<String> {
    let (before, after): (Vec<&Key>, Vec<&Key>) = (before.collect(), after.collect());
    let old = before.iter().find(|key| key.name == name)?;
    let is_old = |name: &str| before.iter().any(|key| key.name == name);
    let found = after
        .iter()
        .find(|key| key.name == name)
        .or_else(|| after.iter().find(|key| key.columns == old.columns && !is_old(&key.name)));
    found.map(|key| key.name.clone())
}

/// Like [`key_after`], for a foreign key.
fn foreign_key_after(name: &str, before: &TableSchema, after: &TableSchema) -> Option<String> {
    let old = before.foreign_keys.iter().find(|key| key.name == name)?;
    let is_old = |name: &str| before.foreign_keys.iter().any(|key| key.name == name);
    let same_name = after.foreign_keys.iter().find(|key| key.name == name);
    let renamed = |key: &&ForeignKey| {
        !is_old(&key.name) && ForeignKey { name: old.name.clone(), ..(*key).clone() } == *old
    };
    let found = same_name.or_else(|| after.foreign_keys.iter().find(renamed));
    found.map(|key| key.name.clone())
}

#[cfg(test)]
mod tests {
    use thalweg_types::{Lsn, TableId};

    use super::super::{Catalog, CatalogChange};
    use super::*;

    fn table(name: &str, key: &str) -> TableSchema {
        let key = Key { name: key.to_owned(), columns: Vec::new() };
        TableSchema {
            id: TableId(1),
            namespace: "public".to_owned(),
            name: name.to_owned(),
            columns: Vec::new(),
            primary_key: Some(key),
            unique: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            indexes: Vec::new(),
            shard_key: None,
            next_column_id: 0,
        }
    }

    fn comment(part: CommentPart, text: Option<&str>) -> CatalogChange {
        let object = CommentedObject::Object(Securable::relation("public", "a"));
        CatalogChange::Comment(CommentChange { object, part, text: text.map(str::to_owned) })
    }

    fn commented() -> Catalog {
        let create = CatalogChange::CreateTable { schema: table("a", "a_key") };
        let key = CommentPart::Constraint("a_key".to_owned());
        let changes =
            [create, comment(CommentPart::Whole, Some("whole")), comment(key, Some("key"))];
        changes.iter().fold(Catalog::default(), |catalog, change| {
            catalog.after(change, Lsn(1)).expect("the change fits")
        })
    }

    #[test]
    fn comments_follow_a_renamed_table_and_its_renamed_key() {
        let schema = table("b", "b_key");
        let rename = CatalogChange::AlterTable { schema, added: None, expected: None };
        let renamed = commented().after(&rename, Lsn(2)).unwrap();
        let object = CommentedObject::Object(Securable::relation("public", "b"));
        let found: Vec<_> = renamed.comments().collect();
        let key = CommentPart::Constraint("b_key".to_owned());
        assert_eq!(found, [(&object, &CommentPart::Whole, "whole"), (&object, &key, "key")]);
    }

    #[test]
    fn comments_go_away_with_their_table() {
        let drop = CatalogChange::DropTable { id: TableId(1) };
        let dropped = commented().after(&drop, Lsn(2)).unwrap();
        assert_eq!(dropped.comments().count(), 0);
    }

    #[test]
    fn a_catalog_is_stored_with_its_comments_and_as_before_without() {
        let catalog = commented();
        let json = serde_json::to_value(&catalog).unwrap();
        assert_eq!(serde_json::from_value::<Catalog>(json).unwrap(), catalog);
        let plain = serde_json::to_value(Catalog::default()).unwrap();
        assert!(plain.get("comments").is_none());
    }
}
