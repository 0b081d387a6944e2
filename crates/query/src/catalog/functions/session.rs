//! Functions about the session and its server.

use thalweg_types::{Error, Result, SqlState};
use thalweg_values::system_types::SystemType;

use super::define::{Answer, Call, Definition, Returns};
use crate::catalog::pg_catalog::rows::Value;
use crate::catalog::setting_order::SETTING_NOW;
use crate::server_context::End;
use crate::statement::{Scope, unrecognized};

/// Encodings of texts by PostgreSQL's numbers: there is one.
const UTF8: (i64, &str) = (6, "UTF8");

pub(super) fn functions() -> Vec<Definition> {
    let define = |name, arguments, returns, answer: Answer| {
        Definition::new(name, arguments, returns, answer)
    };
    let name = Returns::System(SystemType::Name);
    let inet = Returns::System(SystemType::Inet);
    let oid = Returns::System(SystemType::Oid);
    vec![
        define("current_schemas", 1..=1, Returns::ListOf(SystemType::Name), |call| {
            let path = call.lookup.search_path();
            Ok(match call.flag(0) {
                Some(true) => path.all().map(str::to_owned).collect::<Vec<String>>().into(),
                _ => path.named().to_vec().into(),
            })
        }),
        // This replaces a constant of the same name.
        define("current_schema", 0..=0, Returns::Text, |call| {
            Ok(call.lookup.search_path().target().map(str::to_owned).into())
        }),
        define("current_setting", 1..=2, Returns::Text, current_setting),
        define(SETTING_NOW, 1..=2, Returns::Text, current_setting).has_effect(),
        define("set_config", 3..=3, Returns::Text, set_config).takes_null().has_effect(),
        define("pg_backend_pid", 0..=0, Returns::Integer, |call| {
            Ok(call.lookup.facts().process_id.into())
        }),
        define("pg_cancel_backend", 1..=1, Returns::Flag, |call| end(call, End::Statement))
            .has_effect(),
        define("pg_terminate_backend", 1..=2, Returns::Flag, |call| end(call, End::Session))
            .has_effect(),
        define("pg_postmaster_start_time", 0..=0, Returns::Instant, |call| {
            Ok(Value::Instant(call.lookup.started_micros()))
        })
        .alias("pg_conf_load_time"),
        define("pg_is_in_recovery", 0..=0, Returns::Flag, |_| Ok(false.into())),
        define("pg_my_temp_schema", 0..=0, oid, |call| {
            let own = call.lookup.catalog.temporary();
            let own = own.and_then(|own| call.lookup.objects.namespace(own));
            Ok(own.unwrap_or_default().into())
        }),
        define("pg_is_other_temp_schema", 1..=1, Returns::Flag, |_| Ok(false.into())),
        define("pg_encoding_to_char", 1..=1, name, |call| {
            Ok((if call.number(0) == Some(UTF8.0) { UTF8.1 } else { "" }).into())
        }),
        define("pg_char_to_encoding", 1..=1, Returns::Integer, |call| {
            let known = call.text(0).is_some_and(|name| {
                matches!(name.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode")
            });
            Ok((if known { UTF8.0 } else { -1 }).into())
        }),
        define("getdatabaseencoding", 0..=0, name, |_| Ok(UTF8.1.into()))
            .alias("pg_client_encoding"),
        define("inet_client_addr", 0..=0, inet, |call| {
            Ok(call.lookup.facts().client.map(|address| address.ip().to_string()).into())
        }),
        define("inet_client_port", 0..=0, Returns::Integer, |call| {
            Ok(call.lookup.facts().client.map(|address| i64::from(address.port())).into())
        }),
        define("inet_server_addr", 0..=0, inet, |call| {
            Ok(call.lookup.facts().server.map(|address| address.ip().to_string()).into())
        }),
        define("inet_server_port", 0..=0, Returns::Integer, |call| {
            Ok(call.lookup.facts().server.map(|address| i64::from(address.port())).into())
        }),
        define("pg_notify", 2..=2, Returns::Text, notify).takes_null().has_effect(),
        define("txid_current", 0..=0, Returns::Integer, |call| Ok(call.lookup.position().into()))
            .alias("pg_current_xact_id"),
    ]
}

fn end(call: &Call<'_>, what: End) -> Result<Value> {
    let process_id = call.number(0).and_then(|number| i32::try_from(number).ok());
    let ended = process_id.map_or(Ok(false), |id| call.lookup.end(id, what))?;
    Ok(ended.into())
}

fn current_setting(call: &Call<'_>) -> Result<Value> {
    let Some(name) = call.text(0) else { return Ok(Value::Null) };
    match call.lookup.setting(&name.to_lowercase()) {
        Some(value) => Ok(value.into()),
        None if call.flag(1) == Some(true) => Ok(Value::Null),
        None => Err(unrecognized(name)),
    }
}

fn set_config(call: &Call<'_>) -> Result<Value> {
    let Some(name) = call.text(0) else {
        let message = "SET requires parameter name";
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    };
    let value = call.text(1);
    let scope = if call.flag(2) == Some(true) { Scope::Transaction } else { Scope::Session };
    Ok(call.lookup.set(&name.to_lowercase(), value, scope)?.into())
}

/// PostgreSQL's function gives `void`, which clients see as an empty text.
fn notify(call: &Call<'_>) -> Result<Value> {
    call.lookup.notify(call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default())?;
    Ok("".into())
}
