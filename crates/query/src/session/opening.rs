//! The beginning of a session: its settings by the defaults for its role and the database, and by
//! the client.

use thalweg_txn::RoleId;
use thalweg_types::Result;

use super::Session;
use crate::database::Database;
use crate::outcome::Notice;
use crate::privileges::Identity;
use crate::statement;

impl Session {
    /// A session of a role that just begins, with the defaults of settings for the role and the
    /// database.
    pub(crate) fn opened(database: Database, role: RoleId) -> Session {
        let snapshot = database.shared.engine.snapshot();
        let mut session = Session::new(database, Identity::of(role));
        session.opening_notices =
            statement::set_defaults(&mut session.settings, snapshot.catalog());
        session
    }

    /// Sets a setting while the session begins: also for `RESET`, and including those that cannot
    /// be set later.
    ///
    /// # Errors
    /// If there is no such setting, or it cannot have the value.
    pub fn set_at_opening(&mut self, name: &str, value: &str) -> Result<()> {
        self.set_with(name, value, Some("client"))
    }

    /// Warnings about defaults of settings that could not be applied when the session began. The
    /// first statement reports those that were not taken before.
    pub fn take_opening_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.opening_notices)
    }
}
