//! The comments on objects, by the numbers under which clients know the objects.

use thalweg_txn::{Catalog, CommentPart, CommentedObject, DEFAULT_NAMESPACE, Securable};

use super::objects::{DATABASE_OID, KEY_CONSTRAINTS, Objects};

/// The numbers of the catalog tables that objects are listed in.
pub(super) const PG_CLASS: i64 = 1_259;
pub(super) const PG_AUTHID: i64 = 1_260;
pub(super) const PG_DATABASE: i64 = 1_262;
pub(super) const PG_CONSTRAINT: i64 = 2_606;
pub(super) const PG_NAMESPACE: i64 = 2_615;

/// The comment that a new database has on its first schema, as in PostgreSQL.
const OF_DEFAULT_NAMESPACE: &str = "standard public schema";

pub(super) struct Comment {
    /// The catalog table that lists the object.
    pub(super) class: i64,
    pub(super) object: i64,
    /// The number of a column; 0 for the object itself.
    pub(super) column: i64,
    pub(super) text: String,
}

impl Comment {
    /// True for objects that all databases of a PostgreSQL cluster share.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self.class, PG_AUTHID | PG_DATABASE)
    }
}

/// True if an object has a comment without a statement that set one.
pub(crate) fn has_initial_comment(object: &CommentedObject) -> bool {
    matches!(object, CommentedObject::Object(Securable::Namespace(name))
        if name == DEFAULT_NAMESPACE)
}

/// All comments of a catalog, ascending by class, object and column.
pub(super) fn all(catalog: &Catalog, objects: &Objects) -> Vec<Comment> {
    let mut comments = Vec::new();
    let mut has_default = false;
    for (object, part, text) in catalog.comments() {
        has_default |= has_initial_comment(object);
        let Some((class, object, column)) = address(objects, object, part) else { continue };
        if !text.is_empty() {
            comments.push(Comment { class, object, column, text: text.to_owned() });
        }
    }
    let initial = objects.namespace(DEFAULT_NAMESPACE).filter(|_| !has_default);
    comments.extend(initial.map(|object| Comment {
        class: PG_NAMESPACE,
        object,
        column: 0,
        text: OF_DEFAULT_NAMESPACE.to_owned(),
    }));
    comments.sort_by_key(|comment| (comment.class, comment.object, comment.column));
    comments
}

/// Class, number and column of a commented part.
fn address(
    objects: &Objects,
    object: &CommentedObject,
    part: &CommentPart,
) -> Option<(i64, i64, i64)> {
    let (namespace, name) = match object {
        CommentedObject::Role(id) => return Some((PG_AUTHID, i64::from(id.0), 0)),
        CommentedObject::Object(Securable::Database) => {
            return Some((PG_DATABASE, DATABASE_OID, 0));
        }
        CommentedObject::Object(Securable::Namespace(name)) => {
            return Some((PG_NAMESPACE, objects.namespace(name)?, 0));
        }
        CommentedObject::Object(Securable::Relation { namespace, name }) => (namespace, name),
    };
    let relation = objects.relation_named(namespace, name)?;
    match part {
        CommentPart::Whole => Some((PG_CLASS, relation.oid, 0)),
        CommentPart::Column(number) => Some((PG_CLASS, relation.oid, i64::from(*number) + 1)),
        CommentPart::Index(index) => {
            Some((PG_CLASS, objects.relation_named(namespace, index)?.oid, 0))
        }
        CommentPart::Constraint(constraint) => {
            let table = relation.table()?;
            let check = objects
                .checks
                .iter()
                .find(|check| check.table.id == table.id && check.name == *constraint);
            let mut foreign_keys = objects.foreign_keys.iter();
            let foreign_key = foreign_keys
                .find(|known| known.table.id == table.id && known.key.name == *constraint);
            let oid = match (check, foreign_key) {
                (Some(check), _) => check.oid,
                (None, Some(foreign_key)) => foreign_key.oid,
                (None, None) => {
                    KEY_CONSTRAINTS + objects.relation_named(namespace, constraint)?.oid
                }
            };
            Some((PG_CONSTRAINT, oid, 0))
        }
    }
}
