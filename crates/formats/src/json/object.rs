//! Splits a line's object into the raw texts of its values.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use thalweg_types::{Error, Result, SqlState};

/// The keys and values of an object in their original order.
pub(super) struct Object<'a>(pub Vec<(Cow<'a, str>, &'a RawValue)>);

/// A key, borrowed unless it contains escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &RawValue>()? {
                    entries.push((key, value));
                }
                Ok(Object(entries))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}

pub(super) fn parse(line: &str) -> Result<Object<'_>> {
    serde_json::from_str(line).map_err(|error| {
        let message = "invalid input syntax for type json";
        let error = Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            .with_detail(format!("{error}"));
        match line.trim_start().starts_with('[') {
            true => error.with_hint("A JSON file holds one object a line, not an array of them."),
            false => error,
        }
    })
}

/// The text that a JSON string represents.
pub(super) fn string(raw: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Key>(raw).ok().map(|Key(text)| text)
}

pub(super) fn items(raw: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw).ok()
}
