//! Checks of new values beyond their types, and of those who set them.

use thalweg_types::{Error, Result, SqlState};

use super::definitions::Definition;
use super::values::{self, invalid, invalid_value};
use super::{Setter, styles};
use crate::catalog::split_search_path;

const CANT_CHANGE: SqlState = SqlState("55P02");
const INVALID_NAME: SqlState = SqlState("42602");

/// Settings that have only their initial value here, because another one would change answers.
const FIXED: [&str; 8] = [
    "array_nulls",
    "backslash_quote",
    "default_with_oids",
    "password_encryption",
    "quote_all_identifiers",
    "standard_conforming_strings",
    "timezone_abbreviations",
    "transform_null_equals",
];

/// True for the name of a custom setting, which users may invent. DataFusion's own settings have
/// dots as well, and cannot be set.
///
/// # Errors
/// 42602 if the name has a dot and a part of it is no identifier.
pub(super) fn is_custom(name: &str) -> Result<bool> {
    if !name.contains('.') || name.starts_with("datafusion.") {
        return Ok(false);
    }
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
    let is_identifier = |part: &str| {
        part.starts_with(is_letter)
            && part.chars().all(|c| is_letter(c) || c.is_ascii_digit() || c == '$')
    };
    if name.split('.').all(is_identifier) {
        return Ok(true);
    }
    let message = format!("invalid configuration parameter name \"{name}\"");
    Err(Error::new(INVALID_NAME, message).with_detail(
        "Custom parameter names must be two or more simple identifiers separated by dots.",
    ))
}

/// Checks that a setting may be changed now.
///
/// # Errors
/// 55P02 if it cannot be changed; 42501 if only superusers may change it.
pub(in crate::statement) fn may_change(definition: &Definition, setter: Setter) -> Result<()> {
    let name = definition.name;
    let when = match definition.context {
        "internal" => "cannot be changed",
        "postmaster" => "cannot be changed without restarting the server",
        "sighup" => "cannot be changed now",
        "backend" | "superuser-backend" if setter.opening.is_none() => {
            "cannot be set after connection start"
        }
        "superuser" | "superuser-backend" if !setter.is_superuser => {
            let message = format!("permission denied to set parameter \"{name}\"");
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        _ => return Ok(()),
    };
    Err(Error::new(CANT_CHANGE, format!("parameter \"{name}\" {when}")))
}

/// Reads a value, and checks that the setting can have it here.
///
/// # Errors
/// 22023 if it cannot, 0A000 if only PostgreSQL implements the value.
pub(super) fn read(definition: &Definition, value: &str) -> Result<String> {
    let (name, key) = (definition.name, definition.key.as_str());
    let stored = values::read(definition, value)?;
    if FIXED.contains(&key) {
        if stored.eq_ignore_ascii_case(definition.initial) {
            return Ok(definition.initial.to_owned());
        }
        if key == "default_with_oids" {
            return Err(Error::unsupported("tables declared WITH OIDS"));
        }
        return Err(invalid(name, value, definition.initial));
    }
    match key {
        "client_encoding" => encoding(name, value),
        "default_table_access_method" if value != "heap" => {
            let detail = format!("Table access method \"{value}\" does not exist.");
            Err(invalid_value(name, value).with_detail(detail))
        }
        "default_tablespace" if !matches!(value, "" | "pg_default") => {
            let detail = format!("Tablespace \"{value}\" does not exist.");
            Err(invalid_value(name, value).with_detail(detail))
        }
        "default_text_search_config" => match value.trim_start_matches("pg_catalog.") {
            "simple" | "english" => Ok(stored),
            _ => Err(invalid_value(name, value)),
        },
        "timezone" => styles::time_zone(name, value),
        "seed" => Err(Error::unsupported("a seed of random numbers")),
        "search_path" if split_search_path(value).is_none() => {
            Err(invalid_value(name, value).with_detail("List syntax is invalid."))
        }
        "role" | "session_authorization" => Err(Error::unsupported(format!("{key} here"))),
        super::QUERY_MEMORY => memory(name, value),
        _ => Ok(stored),
    }
}

/// PostgreSQL reads only letters and digits of an encoding's name: asyncpg sends `'utf-8'`, quotes
/// included.
fn encoding(name: &str, value: &str) -> Result<String> {
    let letters = value.chars().filter(char::is_ascii_alphanumeric);
    match letters.collect::<String>().to_lowercase().as_str() {
        "utf8" | "unicode" => Ok("UTF8".to_owned()),
        _ => Err(invalid(name, value, "UTF8")),
    }
}

/// A name as an element of a list: quoted where PostgreSQL quotes an identifier.
pub(super) fn quoted_name(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// An amount of memory in kB if it has no unit, as `SHOW` returns it.
fn memory(name: &str, value: &str) -> Result<String> {
    let work_mem = Definition::named("maintenance_work_mem").expect("PostgreSQL has this setting");
    let is_none = value.trim().starts_with('0') && value.trim().bytes().all(|b| b == b'0');
    if is_none {
        return Ok("0".to_owned());
    }
    let sized = Definition {
        name: super::QUERY_MEMORY,
        key: String::new(),
        least: "0",
        values: Vec::new(),
        ..*work_mem
    };
    let stored = values::read(&sized, value).map_err(|_| {
        invalid(name, value, "a number of kB, or an amount of memory such as 64MB and 1GB")
    })?;
    Ok(values::show(&sized, &stored))
}

/// The bytes of an amount of memory that was read.
pub(super) fn memory_bytes(value: &str) -> Option<usize> {
    let digits = value.find(|c: char| !c.is_ascii_digit())?;
    let factor = match &value[digits..] {
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1_usize << 40,
        _ => return None,
    };
    value[..digits].parse::<usize>().ok()?.checked_mul(factor)
}
