//! `pg_description` and `pg_shdescription`: comments.

use super::rows::Rows;
use crate::catalog::objects::Objects;

pub(super) fn of_objects(objects: &Objects, rows: &mut Rows) {
    for comment in objects.comments.iter().filter(|comment| !comment.is_shared()) {
        rows.push([
            ("objoid", comment.object.into()),
            ("classoid", comment.class.into()),
            ("objsubid", comment.column.into()),
            ("description", (&comment.text).into()),
        ]);
    }
}

/// Comments on the objects that all databases share.
pub(super) fn of_shared(objects: &Objects, rows: &mut Rows) {
    for comment in objects.comments.iter().filter(|comment| comment.is_shared()) {
        rows.push([
            ("objoid", comment.object.into()),
            ("classoid", comment.class.into()),
            ("description", (&comment.text).into()),
        ]);
    }
}
