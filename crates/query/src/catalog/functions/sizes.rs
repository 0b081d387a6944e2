//! Memory of tables, and sizes formatted for people.

use thalweg_types::{Error, Result, SqlState};
use thalweg_values::system_types::Registered;

use super::define::{Answer, Call, Definition, Returns};
use crate::catalog::pg_catalog::rows::Value;

pub(super) fn functions() -> Vec<Definition> {
    let size = |name, arguments, answer: Answer| {
        Definition::new(name, arguments, Returns::Integer, answer)
    };
    vec![
        size("pg_relation_size", 1..=2, relation_size),
        size("pg_table_size", 1..=1, relation_size),
        size("pg_total_relation_size", 1..=1, relation_size),
        // A table's keys are counted with its rows.
        size("pg_indexes_size", 1..=1, |_| Ok(Value::Number(0))),
        size("pg_database_size", 1..=1, database_size),
        size("pg_tablespace_size", 1..=1, database_size),
        Definition::new("pg_size_pretty", 1..=1, Returns::Text, |call| {
            Ok(call.number(0).map(pretty).into())
        }),
    ]
}

fn relation_size(call: &Call<'_>) -> Result<Value> {
    let oid = call.object(0, Registered::Class)?;
    let relation = oid.and_then(|oid| call.lookup.objects.relation(oid));
    Ok(match relation {
        None => Value::Null,
        Some(relation) => {
            let bytes = relation.table().and_then(|table| call.lookup.bytes_of(table.id));
            Value::Number(bytes.unwrap_or(0))
        }
    })
}

fn database_size(call: &Call<'_>) -> Result<Value> {
    let known = match call.text(0) {
        Some(name) if !name.starts_with(|c: char| c.is_ascii_digit()) => {
            call.lookup.is_database(name) || name == "pg_default"
        }
        _ => true,
    };
    if !known {
        let message = format!("database \"{}\" does not exist", call.text(0).unwrap_or_default());
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
    }
    Ok(call.lookup.bytes_of_all().into())
}

/// `16 kB`: in the greatest unit whose number is at least ten.
fn pretty(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    const LIMIT: u64 = 10 * 1024;
    let sign = if bytes < 0 { "-" } else { "" };
    let bytes = bytes.unsigned_abs();
    if bytes < LIMIT {
        return format!("{sign}{bytes} bytes");
    }
    // One bit more than is shown, for rounding.
    let mut doubled = bytes >> 9;
    let mut unit = 0;
    while doubled >= LIMIT * 2 - 1 && unit + 1 < UNITS.len() {
        doubled >>= 10;
        unit += 1;
    }
    format!("{sign}{} {}", doubled.div_ceil(2), UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn sizes_read_as_in_postgres() {
        for (bytes, expected) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (10_752, "11 kB"),
            (10_485_247, "10239 kB"),
            (10_485_248, "10 MB"),
            (1_000_000_000, "954 MB"),
            (-20_000, "-20 kB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(pretty(bytes), expected, "{bytes}");
        }
    }
}
