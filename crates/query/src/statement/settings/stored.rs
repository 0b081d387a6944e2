//! Settings that are checked as in PostgreSQL and stored as texts. Except for [`QUERY_MEMORY`] they
//! have no effect.

use thalweg_types::{Error, Result};

use super::{invalid, no_flag};

pub(super) struct StoredSettings {
    pub(super) name: &'static str,
    /// The initial value.
    pub(super) first: &'static str,
    kind: Kind,
}

enum Kind {
    Text,
    Flag,
    OneOf(&'static [&'static str]),
    /// An amount of memory, in kB if it has no unit.
    Size,
}

use Kind::{Flag, OneOf, Size, Text};

const fn setting(name: &'static str, first: &'static str, kind: Kind) -> StoredSettings {
    StoredSettings { name, first, kind }
}

pub(super) const QUERY_MEMORY: &str = "query_memory_limit";

pub(super) const REMEMBERED: [StoredSettings; 22] = [
    setting("application_name", "", Text),
    setting("check_function_bodies", "on", Flag),
    setting("client_min_messages", "notice", Text),
    setting("escape_string_warning", "on", Flag),
    setting("extra_float_digits", "1", Text),
    setting("geqo", "on", Flag),
    setting("jit", "off", Flag),
    setting("lc_messages", "C", Text),
    setting("lc_monetary", "C", Text),
    setting("lc_numeric", "C", Text),
    setting("lc_time", "C", Text),
    setting("maintenance_work_mem", "64MB", Size),
    setting("plan_cache_mode", "auto", OneOf(&["auto", "force_generic_plan", "force_custom_plan"])),
    // Memory limit of one statement; 0 means no limit of its own.
    setting(QUERY_MEMORY, "0", Size),
    setting("row_security", "on", Flag),
    // There are no triggers and foreign keys that it could disable.
    setting("session_replication_role", "origin", OneOf(&["origin", "replica", "local"])),
    setting("synchronize_seqscans", "on", Flag),
    // The wait of a commit depends on `durability` instead.
    setting(
        "synchronous_commit",
        "on",
        OneOf(&["local", "remote_write", "remote_apply", "on", "off"]),
    ),
    setting("temp_buffers", "8MB", Size),
    setting("temp_tablespaces", "", Text),
    // Statements share `database.memory_limit`.
    setting("work_mem", "4MB", Size),
    setting("xmloption", "content", OneOf(&["content", "document"])),
];

impl StoredSettings {
    /// The value as `SHOW` returns it.
    ///
    /// # Errors
    /// If the setting cannot have this value.
    pub(super) fn read(&self, value: &str) -> Result<String> {
        let read = match self.kind {
            Text => return Ok(value.to_owned()),
            Flag => return flag(value).map(str::to_owned).ok_or_else(|| no_flag(self.name)),
            OneOf(words) => {
                let word = value.to_lowercase();
                let known = |word: &str| words.iter().find(|known| **known == word);
                known(&word).or_else(|| known(flag(value)?)).map(|word| (*word).to_owned())
            }
            Size => size(value),
        };
        read.ok_or_else(|| self.refused(value))
    }

    fn refused(&self, value: &str) -> Error {
        let allowed = match self.kind {
            OneOf(words) => words.join(", "),
            _ => "a number of kB, or an amount of memory such as 64MB and 1GB".to_owned(),
        };
        invalid(self.name, value, &allowed)
    }
}

/// PostgreSQL accepts prefixes of these words.
pub(super) fn flag(value: &str) -> Option<&'static str> {
    let value = value.to_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        Some("on")
    } else if value == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some("off")
    } else {
        None
    }
}

/// Units of memory with their lengths in kB, longest first.
const UNITS: [(&str, u64); 4] = [("TB", 1 << 30), ("GB", 1 << 20), ("MB", 1 << 10), ("kB", 1)];

/// An amount of memory in the longest unit that expresses it exactly.
fn size(value: &str) -> Option<String> {
    let kilobytes = kilobytes(value)?;
    let (name, factor) = UNITS.iter().find(|(_, factor)| kilobytes.is_multiple_of(*factor))?;
    Some(if kilobytes == 0 { "0".to_owned() } else { format!("{}{name}", kilobytes / factor) })
}

pub(super) fn kilobytes(value: &str) -> Option<u64> {
    let value = value.trim();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let factor = match unit.trim() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    // PostgreSQL's limit for memory settings.
    let kilobytes = number.parse::<u64>().ok()?.checked_mul(factor)?;
    i32::try_from(kilobytes).is_ok().then_some(kilobytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Option<String> {
        let setting = REMEMBERED.iter().find(|setting| setting.name == name).unwrap();
        setting.read(value).ok()
    }

    /// The values that PostgreSQL 15 shows.
    #[test]
    fn values_are_shown_as_postgres_shows_them() {
        for (name, value, shown) in [
            ("work_mem", "64MB", Some("64MB")),
            ("work_mem", "1000", Some("1000kB")),
            ("work_mem", "1024 kB", Some("1MB")),
            ("work_mem", "nonsense", None),
            ("work_mem", "64mb", None),
            ("work_mem", "3TB", None),
            ("jit", "1", Some("on")),
            ("jit", "F", Some("off")),
            ("jit", "o", None),
            ("jit", "maybe", None),
            ("synchronous_commit", "LOCAL", Some("local")),
            ("synchronous_commit", "false", Some("off")),
            ("synchronous_commit", "nope", None),
            ("session_replication_role", "on", None),
            ("application_name", "any", Some("any")),
        ] {
            assert_eq!(read(name, value).as_deref(), shown, "{name} = {value}");
        }
    }

    #[test]
    fn settings_take_what_they_are_at_first() {
        for setting in &REMEMBERED {
            assert_eq!(setting.read(setting.first).unwrap(), setting.first, "{}", setting.name);
        }
    }
}
