//! Settings reported to clients: all of them at startup, and changed ones after a statement.

use thalweg_query::Session;

use super::reply::Replies;
use crate::admission::Asker;
use crate::metrics::StatementKind;

/// Settings that sessions cannot change.
const FIXED: [&str; 6] = [
    "in_hot_standby",
    "server_version",
    "server_encoding",
    "client_encoding",
    "integer_datetimes",
    "standard_conforming_strings",
];

/// Settings that sessions can change.
const CHANGEABLE: [&str; 7] = [
    "application_name",
    "is_superuser",
    "session_authorization",
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "default_transaction_read_only",
];
const APPLICATION_NAME: usize = 0;
const IS_SUPERUSER: usize = 1;

/// The last reported values of the changeable settings.
pub(super) struct ReportedSettings {
    values: [String; CHANGEABLE.len()],
    /// True if a statement since then may have changed a value.
    may_differ: bool,
}

impl ReportedSettings {
    /// Reports all settings to a new client.
    pub(super) fn everything(session: &Session, replies: &mut Replies) -> ReportedSettings {
        for name in FIXED {
            replies.parameter_status(name, &session.setting(name).unwrap_or_default());
        }
        let mut reported =
            ReportedSettings { values: CHANGEABLE.map(|_| String::new()), may_differ: false };
        for (name, value) in CHANGEABLE.iter().zip(&mut reported.values) {
            *value = session.setting(name).unwrap_or_default();
            replies.parameter_status(name, value);
        }
        reported
    }

    /// Notes which statement runs next. Statements that read or write rows are too frequent to
    /// compare all settings after each, and change none unless they call `set_config`.
    pub(super) fn expect(&mut self, kind: StatementKind, sql: &str) {
        use StatementKind::{Copy, Delete, Insert, Select, Update};
        let is_about_rows = matches!(kind, Select | Insert | Update | Delete | Copy);
        self.may_differ |= !is_about_rows || calls_set_config(sql);
    }

    /// Reports changed settings; true if there were any.
    pub(super) fn changes(&mut self, session: &Session, replies: &mut Replies) -> bool {
        if !std::mem::take(&mut self.may_differ) {
            return false;
        }
        let mut has_changed = false;
        for (name, reported) in CHANGEABLE.iter().zip(&mut self.values) {
            let value = session.setting(name).unwrap_or_default();
            if value != *reported {
                replies.parameter_status(name, &value);
                *reported = value;
                has_changed = true;
            }
        }
        has_changed
    }

    pub(super) fn application_name(&self) -> &str {
        &self.values[APPLICATION_NAME]
    }

    pub(super) fn is_superuser(&self) -> bool {
        self.values[IS_SUPERUSER] == "on"
    }

    /// The kind of user as which the client asks for permits.
    pub(super) fn asker(&self) -> Asker {
        if self.is_superuser() { Asker::Superuser } else { Asker::Anybody }
    }
}

fn calls_set_config(sql: &str) -> bool {
    const NAME: &[u8] = b"set_config";
    let mut windows = sql.as_bytes().windows(NAME.len());
    // Comparing the first letter alone excludes nearly all positions.
    windows.any(|text| text[0] | 0x20 == b's' && text.eq_ignore_ascii_case(NAME))
}
