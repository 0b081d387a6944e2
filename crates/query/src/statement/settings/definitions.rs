//! The definitions of settings: PostgreSQL 15's, with the initial values that they have here, and
//! Thalweg's own.
//!
//! The table is `definitions.tsv`, one line for each setting, sorted by name. It was generated from
//! the view `pg_settings` of PostgreSQL 15.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The category of Thalweg's own settings.
pub(crate) const OWN: &str = "Thalweg";
/// The category of settings that no list shows.
const UNLISTED: &str = "-";

/// The definition of one setting.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    /// The name in lower case, by which settings are found.
    pub(crate) key: String,
    /// PostgreSQL's word for the type.
    pub(crate) kind: &'static str,
    /// PostgreSQL's word for the time at which the setting may change.
    pub(crate) context: &'static str,
    /// The unit of a number without one; empty if the setting has no unit.
    pub(crate) unit: &'static str,
    /// The bounds of a number; empty for other types.
    pub(crate) least: &'static str,
    pub(crate) greatest: &'static str,
    /// The values of an enumeration.
    pub(crate) values: Vec<&'static str>,
    /// The initial value, in the unit.
    pub(crate) initial: &'static str,
    pub(crate) category: &'static str,
    pub(crate) description: &'static str,
}

static ALL: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let lines = include_str!("definitions.tsv").lines().skip(1);
    lines.map(|line| Definition::read(line).expect("each line has all columns")).collect()
});

static BY_KEY: LazyLock<HashMap<&'static str, &'static Definition>> =
    LazyLock::new(|| ALL.iter().map(|definition| (definition.key.as_str(), definition)).collect());

impl Definition {
    fn read(line: &'static str) -> Option<Definition> {
        let mut columns = line.split('\t');
        let mut next = || columns.next();
        let name = next()?;
        Some(Definition {
            name,
            key: name.to_lowercase(),
            kind: next()?,
            context: next()?,
            unit: next()?,
            least: next()?,
            greatest: next()?,
            values: next()?.split(',').filter(|value| !value.is_empty()).collect(),
            initial: next()?,
            category: next()?,
            description: next()?,
        })
    }

    /// The definition of a setting, whatever the case of its name.
    pub(crate) fn named(name: &str) -> Option<&'static Definition> {
        match BY_KEY.get(name) {
            Some(definition) => Some(definition),
            None => BY_KEY.get(name.to_lowercase().as_str()).copied(),
        }
    }

    /// The settings that lists show, by name.
    pub(crate) fn listed() -> impl Iterator<Item = &'static Definition> {
        ALL.iter().filter(|definition| definition.category != UNLISTED)
    }

    /// True if the value is a list of names, each of which may be quoted.
    pub(super) fn is_list_of_names(&self) -> bool {
        matches!(
            self.key.as_str(),
            "local_preload_libraries"
                | "search_path"
                | "session_preload_libraries"
                | "shared_preload_libraries"
                | "temp_tablespaces"
                | "unix_socket_directories"
        )
    }

    /// True if `SET` takes several values.
    pub(super) fn is_list(&self) -> bool {
        self.is_list_of_names()
            || matches!(
                self.key.as_str(),
                "datestyle"
                    | "debug_io_direct"
                    | "listen_addresses"
                    | "log_destination"
                    | "synchronous_standby_names"
                    | "wal_consistency_checking"
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_complete_and_sorted() {
        assert!(ALL.is_sorted_by(|a, b| a.key < b.key), "names are sorted and differ");
        for definition in ALL.iter() {
            let kinds = ["bool", "enum", "integer", "real", "string"];
            assert!(kinds.contains(&definition.kind), "{}", definition.name);
            assert_eq!(definition.values.is_empty(), definition.kind != "enum");
            assert!(!definition.description.is_empty(), "{}", definition.name);
        }
    }

    #[test]
    fn names_have_any_case() {
        for name in ["TimeZone", "timezone", "TIMEZONE"] {
            assert_eq!(Definition::named(name).map(|found| found.name), Some("TimeZone"));
        }
        assert!(Definition::named("time_zone").is_none());
    }
}
