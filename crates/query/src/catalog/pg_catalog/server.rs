//! State of the running server: settings, sessions and locks.

use thalweg_txn::RoleId;

use super::rows::{Rows, Value};
use crate::catalog::objects::DATABASE_OID;
use crate::catalog::{CatalogLookup, DATABASE};
use crate::server_context::Activity;
use crate::statement::Definition;

/// Shown in place of a statement that the reader may not see.
const UNSEEN: &str = "<insufficient privilege>";

pub(super) fn settings(lookup: &CatalogLookup, rows: &mut Rows) {
    let settings = lookup.settings();
    let unless_empty = |text: &'static str| (!text.is_empty()).then_some(text);
    for definition in Definition::listed() {
        let reset = settings.reset_value(definition);
        let initial = match definition.initial {
            "" => reset.clone().unwrap_or_default(),
            initial => initial.to_owned(),
        };
        let values = (!definition.values.is_empty()).then(|| definition.values.clone());
        rows.push([
            ("name", definition.name.into()),
            ("setting", settings.stored_value(definition).into()),
            ("unit", unless_empty(definition.unit).into()),
            ("category", definition.category.into()),
            ("short_desc", definition.description.into()),
            ("context", definition.context.into()),
            ("vartype", definition.kind.into()),
            ("source", settings.source(definition).into()),
            ("min_val", unless_empty(definition.least).into()),
            ("max_val", unless_empty(definition.greatest).into()),
            ("enumvals", values.into()),
            ("boot_val", initial.into()),
            ("reset_val", reset.into()),
            ("pending_restart", false.into()),
        ]);
    }
}

/// The channels of the session's own `LISTEN`.
pub(super) fn listening_channels(lookup: &CatalogLookup, rows: &mut Rows) {
    for channel in lookup.listening() {
        rows.push([("pg_listening_channels", channel.into())]);
    }
}

/// Everybody sees who is connected. The statements and addresses of other roles need a privilege.
pub(super) fn activity(lookup: &CatalogLookup, rows: &mut Rows) {
    let roles = lookup.catalog.roles();
    let current = lookup.identity().current;
    let sees_all = roles.has_privileges_of(current, RoleId::MONITOR);
    for activity in lookup.activity() {
        let role = roles.named(&activity.user).map(|role| role.id);
        let is_seen = sees_all || role.is_some_and(|id| roles.has_privileges_of(current, id));
        let doing = if is_seen { doing(&activity) } else { vec![("query", UNSEEN.into())] };
        let known = [
            ("datid", DATABASE_OID.into()),
            ("datname", DATABASE.into()),
            ("pid", activity.process_id.into()),
            ("usesysid", role.map(|id| i64::from(id.0)).into()),
            ("usename", activity.user.into()),
            ("application_name", activity.application_name.into()),
        ];
        rows.push(known.into_iter().chain(doing));
    }
}

fn doing(activity: &Activity) -> Vec<(&'static str, Value)> {
    let client = activity.client;
    let instant = |micros: Option<i64>| micros.map_or(Value::Null, Value::Instant);
    vec![
        ("client_addr", client.map(|client| client.ip().to_string()).into()),
        ("client_port", client.map(|client| i64::from(client.port())).into()),
        ("backend_start", Value::Instant(activity.connected_micros)),
        ("xact_start", instant(activity.transaction_started_micros)),
        ("query_start", instant(activity.statement_started_micros)),
        ("state_change", instant(activity.state_changed_micros)),
        ("state", activity.state.name().into()),
        ("query", (&activity.statement).into()),
        ("backend_type", "client backend".into()),
    ]
}

/// Lists advisory locks, the only kind that the table can show.
pub(super) fn locks(lookup: &CatalogLookup, rows: &mut Rows) {
    for lock in lookup.locks() {
        let (class, object, kind) = lock.key.parts();
        rows.push([
            ("locktype", "advisory".into()),
            ("database", DATABASE_OID.into()),
            ("classid", class.into()),
            ("objid", object.into()),
            ("objsubid", kind.into()),
            ("pid", lock.process_id.into()),
            ("mode", lock.mode.name().into()),
            ("granted", lock.is_held.into()),
            ("fastpath", false.into()),
        ]);
    }
}

pub(super) fn database_usage(rows: &mut Rows) {
    rows.push([("datid", DATABASE_OID.into()), ("datname", DATABASE.into())]);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;
    use futures::StreamExt;

    use super::*;
    use crate::server_context::{ActivityState, End, ServerContext};
    use crate::{Database, Session};

    /// One session of each user.
    struct Three;

    impl ServerContext for Three {
        fn activity(&self) -> Vec<Activity> {
            let session = |(user, process_id): (&str, i32)| Activity {
                process_id,
                user: user.to_owned(),
                application_name: "app".to_owned(),
                client: Some(([127, 0, 0, 1], 5000).into()),
                connected_micros: 1,
                transaction_started_micros: Some(1),
                statement_started_micros: Some(1),
                state_changed_micros: Some(1),
                state: ActivityState::Active,
                statement: format!("secret of {user}"),
            };
            [("ann", 1), ("bob", 2), ("thalweg", 3)].map(session).into()
        }

        fn end(&self, _: i32, _: End) -> bool {
            false
        }
    }

    /// The process ids of the sessions that satisfy a condition.
    async fn sessions_where(session: &mut Session, condition: &str) -> Vec<i32> {
        let sql = format!("SELECT pid FROM pg_stat_activity WHERE {condition} ORDER BY pid");
        let mut rows = session.execute(&sql).await.unwrap().rows.unwrap();
        let mut numbers = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch.unwrap();
            let column = batch.column(0).as_any().downcast_ref::<Int32Array>().unwrap();
            numbers.extend(column.values());
        }
        numbers
    }

    #[tokio::test]
    async fn what_a_session_does_is_shown_to_whom_it_belongs() {
        let database = Database::in_memory().unwrap();
        database.surround(Arc::new(Three));
        let mut admin = database.session();
        for statement in [
            "CREATE ROLE ann LOGIN",
            "CREATE ROLE bob LOGIN",
            "CREATE ROLE lead LOGIN IN ROLE ann",
            "CREATE ROLE watch LOGIN IN ROLE pg_monitor",
            "CREATE ROLE other LOGIN",
        ] {
            admin.execute(statement).await.unwrap();
        }
        for (user, seen) in [
            ("thalweg", vec![1, 2, 3]),
            ("watch", vec![1, 2, 3]),
            ("ann", vec![1]),
            ("lead", vec![1]),
            ("other", vec![]),
        ] {
            let mut session = database.session_as(user).unwrap();
            let unseen: Vec<i32> = (1..=3).filter(|pid| !seen.contains(pid)).collect();
            assert_eq!(sessions_where(&mut session, "query = 'secret of ' || usename").await, seen);
            assert_eq!(sessions_where(&mut session, "state = 'active'").await, seen, "{user}");
            let hidden = "query = '<insufficient privilege>' AND state IS NULL \
                          AND client_addr IS NULL AND query_start IS NULL \
                          AND backend_start IS NULL";
            assert_eq!(sessions_where(&mut session, hidden).await, unseen, "{user}");
            let known = "usename IS NOT NULL AND application_name = 'app' AND datname = 'thalweg'";
            assert_eq!(sessions_where(&mut session, known).await, [1, 2, 3], "{user}");
        }
    }
}
