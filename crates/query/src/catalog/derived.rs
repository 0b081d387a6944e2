//! The columns of views and external tables. They are not stored; planning derives them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use thalweg_txn::Catalog;

use super::objects::Relation;
use super::{SessionCatalog, view};

/// The columns of one view or external table.
#[derive(Clone)]
pub(super) struct Derived {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) schema: SchemaRef,
}

impl Derived {
    pub(super) fn is(&self, relation: &Relation) -> bool {
        self.name == relation.name && self.namespace == relation.namespace
    }
}

/// Derived columns of one catalog, cached until the session sees another catalog.
pub(super) struct Found {
    catalog: Arc<Catalog>,
    derived: Arc<Vec<Derived>>,
}

tokio::task_local! {
    /// Set while views are planned: a view may itself ask for the columns of views.
    static PLANNING: ();
}

/// The columns of every view and external table that can be planned.
pub(super) async fn columns(session: &SessionCatalog) -> Arc<Vec<Derived>> {
    let catalog = session.catalog();
    if let Some(found) = &*session.found.lock()
        && Arc::ptr_eq(&found.catalog, &catalog)
    {
        return Arc::clone(&found.derived);
    }
    let Ok(state) = session.session_state() else { return Arc::default() };
    if PLANNING.try_with(|()| ()).is_ok() {
        return Arc::default();
    }
    let derived = PLANNING.scope((), view::columns_of_views(&state, &catalog)).await;
    let derived = Arc::new(derived);
    *session.found.lock() = Some(Found { catalog, derived: Arc::clone(&derived) });
    derived
}
