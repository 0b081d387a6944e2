//! Identities of columns.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use super::Column;

/// The identity of a closed chunk's column. Two handles are equal if they are of the same column in
/// memory, which never changes. Chunks share columns that an `ALTER TABLE` left as they were.
///
/// A handle does not keep the column's values in memory. It keeps the address from being used
/// again, so that it never becomes equal to the handle of a later column.
#[derive(Clone, Debug)]
pub struct ColumnHandle(Weak<Column>);

impl ColumnHandle {
    pub(super) fn new(column: &Arc<Column>) -> ColumnHandle {
        ColumnHandle(Arc::downgrade(column))
    }
}

impl PartialEq for ColumnHandle {
    fn eq(&self, other: &ColumnHandle) -> bool {
        Weak::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ColumnHandle {}

impl Hash for ColumnHandle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}
