//! Sequences of rows that no session writes: those of the record API and of appenders.

use std::sync::{Arc, Weak};

use datafusion::execution::session_state::SessionState;
use thalweg_txn::RoleId;

use super::{SequenceAccess, SessionSequences};
use crate::catalog::SearchPath;
use crate::database::{Database, DatabaseShared};

/// The role that numbers rows outside of sessions. Planners that shape such rows have it as an
/// extension of their configuration.
pub(crate) struct OutsideSessions {
    /// Weak, since shapers of rows hold it, and the database holds some of them.
    database: Weak<DatabaseShared>,
    role: RoleId,
}

impl OutsideSessions {
    /// Lets the state number rows for the role.
    pub(crate) fn attach(state: &mut SessionState, database: &Database, role: RoleId) {
        let outside = OutsideSessions { database: Arc::downgrade(&database.shared), role };
        state.config_mut().set_extension(Arc::new(outside));
    }

    pub(super) fn access(&self) -> SequenceAccess {
        SequenceAccess {
            database: Weak::clone(&self.database),
            session: Arc::new(SessionSequences::default()),
            temporary: Arc::default(),
            role: self.role,
            is_read_only: false,
            search_path: SearchPath::current(),
            own_catalog: None,
        }
    }
}
