//! Session settings from a client's startup message.

use std::collections::BTreeMap;

use thalweg_query::Session;
use thalweg_types::{Error, Result, SqlState};

/// The name of the only database, and the default name of PostgreSQL's tools.
const DATABASES: [&str; 2] = ["thalweg", "postgres"];

/// Applies the settings of a startup message to the session.
///
/// # Errors
/// If a setting is unknown or its value is invalid.
pub(super) fn apply(
    session: &mut Session,
    user: &str,
    settings: &BTreeMap<String, String>,
) -> Result<()> {
    for (name, value) in settings {
        match name.as_str() {
            "database" => check_database(value, user)?,
            "replication" => check_replication(value)?,
            "options" => {
                for (name, value) in assignments(value)? {
                    session.set_at_opening(&name, &value)?;
                }
            }
            name => session.set_at_opening(name, value)?,
        }
    }
    Ok(())
}

/// Checks the database's name. Drivers default to the user's name, so it is accepted as well.
fn check_database(name: &str, user: &str) -> Result<()> {
    if name.is_empty() || name == user || DATABASES.contains(&name) {
        return Ok(());
    }
    let message = format!("database \"{name}\" does not exist");
    Err(Error::new(SqlState::INVALID_CATALOG_NAME, message)
        .with_hint(format!("The only database is \"{}\".", DATABASES[0])))
}

fn check_replication(value: &str) -> Result<()> {
    match value.to_lowercase().as_str() {
        "false" | "off" | "no" | "0" => Ok(()),
        "true" | "on" | "yes" | "1" | "database" => Err(Error::unsupported("replication")),
        _ => {
            let message = format!("invalid value for parameter \"replication\": \"{value}\"");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// The settings in a client's `options`: `-c name=value` and `--name=value`.
pub(super) fn assignments(text: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut words = words(text).into_iter();
    while let Some(word) = words.next() {
        let (assignment, spelling) = if let Some(long) = word.strip_prefix("--") {
            (long.to_owned(), word.clone())
        } else if let Some(rest) = word.strip_prefix("-c") {
            let value = if rest.is_empty() { words.next() } else { Some(rest.to_owned()) };
            let value = value.ok_or_else(|| invalid_argument(&word))?;
            (value.clone(), format!("-c {value}"))
        } else {
            return Err(invalid_argument(&word));
        };
        let Some((name, value)) = assignment.split_once('=') else {
            let message = format!("{spelling} requires a value");
            return Err(Error::new(SqlState::SYNTAX_ERROR, message));
        };
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

/// Splits a text at spaces; a backslash escapes the next character.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            space if space.is_ascii_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

fn invalid_argument(word: &str) -> Error {
    let message = format!("invalid command-line argument for server process: {word}");
    Error::new(SqlState::SYNTAX_ERROR, message)
        .with_hint("Give settings as -c name=value or --name=value.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_apart_as_postgres_does() {
        let text = r"-c a=1 -cb=2 --c-d=3   -c e=f\ g\\h\  -c i=";
        let found = assignments(text).unwrap();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(found, [("a", "1"), ("b", "2"), ("c_d", "3"), ("e", r"f g\h "), ("i", "")]);
        assert!(assignments("").unwrap().is_empty());
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for (text, spelling) in [
            ("nonsense", "invalid command-line argument for server process: nonsense"),
            ("-c", "invalid command-line argument for server process: -c"),
            ("-Z", "invalid command-line argument for server process: -Z"),
            ("-c foo", "-c foo requires a value"),
            ("--foo", "--foo requires a value"),
        ] {
            let refused = assignments(text).err().unwrap();
            assert_eq!((refused.message(), refused.state()), (spelling, SqlState::SYNTAX_ERROR));
        }
    }
}
