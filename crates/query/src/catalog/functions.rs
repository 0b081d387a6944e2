//! SQL functions that read the catalog or the session: `format_type`, `pg_get_indexdef`,
//! `current_setting` and the like. Each family has a file.
//!
//! They read the catalog of the session's latest statement. They are computed row by row, since
//! their inputs are small.

mod define;
mod definitions;
mod names;
mod privileges;
mod session;
mod sizes;
mod visibility;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

pub(super) use names::{SHOWN, base_type_name, shown_default};

use super::SessionCatalog;

/// All functions for one session.
pub(super) fn all(session: &Arc<SessionCatalog>) -> Vec<Arc<ScalarUDF>> {
    [
        definitions::functions(),
        names::functions(),
        privileges::functions(),
        session::functions(),
        sizes::functions(),
        visibility::functions(),
    ]
    .into_iter()
    .flatten()
    .map(|definition| definition.into_udf(Arc::clone(session)))
    .collect()
}

/// The function that writes the name of a numbered object.
pub(super) fn registered_name(session: &Arc<SessionCatalog>) -> Arc<ScalarUDF> {
    names::registered_name().into_udf(Arc::clone(session))
}
