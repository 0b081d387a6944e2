//! What the running program says of itself: settings, and who is connected.

use super::rows::{Rows, Value};
use crate::catalog::objects::DATABASE_OID;
use crate::catalog::{DATABASE, Lookup};
use crate::surroundings::Activity;

pub(super) fn settings(lookup: &Lookup, rows: &mut Rows) {
    for (name, setting) in lookup.settings() {
        rows.push([
            ("name", name.into()),
            ("setting", (&setting).into()),
            ("category", "Thalweg".into()),
            ("short_desc", "".into()),
            ("context", "user".into()),
            ("vartype", "string".into()),
            ("source", "default".into()),
            ("boot_val", (&setting).into()),
            ("reset_val", setting.into()),
            ("pending_restart", false.into()),
        ]);
    }
}

pub(super) fn activity(lookup: &Lookup, rows: &mut Rows) {
    for activity in lookup.activity() {
        let Activity { client, .. } = activity;
        let instant = |micros: Option<i64>| micros.map_or(Value::Null, Value::Instant);
        rows.push([
            ("datid", DATABASE_OID.into()),
            ("datname", DATABASE.into()),
            ("pid", activity.process_id.into()),
            ("usesysid", user_of(lookup, &activity.user)),
            ("usename", activity.user.into()),
            ("application_name", activity.application_name.into()),
            ("client_addr", client.map(|client| client.ip().to_string()).into()),
            ("client_port", client.map(|client| i64::from(client.port())).into()),
            ("backend_start", Value::Instant(activity.connected_micros)),
            ("xact_start", instant(activity.transaction_started_micros)),
            ("query_start", instant(activity.statement_started_micros)),
            ("state_change", instant(activity.state_changed_micros)),
            ("state", activity.state.name().into()),
            ("query", activity.statement.into()),
            ("backend_type", "client backend".into()),
        ]);
    }
}

/// The number of a role by its name.
fn user_of(lookup: &Lookup, name: &str) -> Value {
    lookup.catalog.roles().named(name).map(|role| i64::from(role.id.0)).into()
}

pub(super) fn database_usage(rows: &mut Rows) {
    rows.push([("datid", DATABASE_OID.into()), ("datname", DATABASE.into())]);
}
