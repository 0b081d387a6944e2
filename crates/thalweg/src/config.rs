//! Configuration: defaults < `thalweg.toml` < `THALWEG__SECTION__KEY` < flags.
//!
//! Every value knows where it came from, and a key that means nothing is an error: a setting that
//! is misspelt must not be one that is silently ignored.

use std::path::{Path, PathBuf};

use figment::error::Kind;
use figment::providers::{Env, Format as _, Toml};
use figment::value::{Dict, Map, Tag, Value};
use figment::{Figment, Metadata, Profile, Provider, Source};
use thalweg_types::{Error, SqlState};

mod dump;
mod settings;
mod units;

pub use dump::dump;
pub use settings::{
    Border, Color, DatabaseSettings, Durability, Expansion, Format, Settings, ShellSettings,
};
pub use units::{Size, Span};

const FILE_NAME: &str = "thalweg.toml";
const ENVIRONMENT_PREFIX: &str = "THALWEG__";
const DEFAULTS: &str = "default";

/// The settings in force, and where each came from.
pub struct Config {
    pub settings: Settings,
    figment: Figment,
}

/// Settings that were given as flags: `section.key` and the value.
#[derive(Default)]
pub struct Flags(Vec<(&'static str, Value)>);

impl Flags {
    pub fn set(&mut self, key: &'static str, value: Option<impl serde::Serialize>) {
        if let Some(value) = value {
            let value = Value::serialize(value).expect("flags are plain values");
            self.0.push((key, value));
        }
    }
}

/// The configuration file: the one that was named, or else the data directory's if it has one.
pub fn file_for(named: Option<&Path>, data: Option<&Path>) -> Option<PathBuf> {
    match named {
        Some(file) => Some(file.to_owned()),
        None => data.map(|directory| directory.join(FILE_NAME)).filter(|file| file.exists()),
    }
}

/// Reads all sources. Fails with everything that is wrong, not just the first.
pub fn load(file: Option<&Path>, flags: Flags) -> Result<Config, Vec<Error>> {
    load_with(file, Env::prefixed(ENVIRONMENT_PREFIX).split("__"), flags)
}

fn load_with(
    file: Option<&Path>,
    environment: impl Provider,
    flags: Flags,
) -> Result<Config, Vec<Error>> {
    let defaults = match Value::serialize(Settings::default()) {
        Ok(Value::Dict(_, dict)) => dict,
        other => unreachable!("settings are a table: {other:?}"),
    };
    let mut figment = Figment::from(Named { name: DEFAULTS, dict: defaults.clone() });
    if let Some(file) = file {
        figment = figment.merge(Toml::file_exact(file));
    }
    figment = figment.merge(environment).merge(Named { name: "flag", dict: nested(flags) });

    let data = figment.data().map_err(|error| vec![unreadable(&error)])?;
    let given = data.get(&Profile::Default).cloned().unwrap_or_default();
    let mut errors = Vec::new();
    find_unknown(&figment, &given, &defaults, &mut Vec::new(), &mut errors);
    if errors.is_empty() {
        match figment.extract() {
            Ok(settings) => return Ok(Config { settings, figment }),
            Err(error) => errors.extend(error.into_iter().map(|error| wrong_value(&error))),
        }
    }
    Err(errors)
}

/// A provider whose values are named in messages as they should be.
struct Named {
    name: &'static str,
    dict: Dict,
}

impl Provider for Named {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name)
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Ok(Profile::Default.collect(self.dict.clone()))
    }
}

fn nested(flags: Flags) -> Dict {
    let mut sections: Map<String, Dict> = Map::new();
    for (key, value) in flags.0 {
        let (section, key) = key.split_once('.').expect("flags name a section and a key");
        sections.entry(section.to_owned()).or_default().insert(key.to_owned(), value);
    }
    sections.into_iter().map(|(name, dict)| (name, Value::Dict(Tag::Default, dict))).collect()
}

/// Collects an error for every key that the defaults don't have.
fn find_unknown(
    figment: &Figment,
    given: &Dict,
    known: &Dict,
    path: &mut Vec<String>,
    errors: &mut Vec<Error>,
) {
    for (key, value) in given {
        path.push(key.clone());
        match (known.get(key), value) {
            (Some(Value::Dict(_, known)), Value::Dict(_, given)) => {
                find_unknown(figment, given, known, path, errors);
            }
            (Some(_), _) => {}
            (None, _) => {
                let origin = origin(figment.get_metadata(first_tag(value)), path);
                let message = format!("unknown setting \"{}\" ({origin})", path.join("."));
                let candidates: Vec<&str> = known.keys().map(String::as_str).collect();
                errors.push(invalid(message).with_hint(near(key, &candidates)));
            }
        }
        path.pop();
    }
}

/// A table's values carry the tags of their sources; the table itself may not.
fn first_tag(value: &Value) -> Tag {
    match value {
        Value::Dict(tag, dict) => dict.values().next().map_or(*tag, first_tag),
        other => other.tag(),
    }
}

/// The names that were perhaps meant, or all there are.
fn near(name: &str, candidates: &[&str]) -> String {
    let nearest = candidates
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match nearest {
        Some((_, candidate)) => format!("Did you mean \"{candidate}\"?"),
        None => format!("There are: {}.", candidates.join(", ")),
    }
}

/// Where a value came from, in the words in which the user gave it.
fn origin(metadata: Option<&Metadata>, path: &[String]) -> String {
    let Some(metadata) = metadata else { return DEFAULTS.to_owned() };
    if let Some(Source::File(file)) = &metadata.source {
        return file.display().to_string();
    }
    if metadata.name.contains(ENVIRONMENT_PREFIX) {
        return format!("{ENVIRONMENT_PREFIX}{}", path.join("__").to_uppercase());
    }
    match path.last() {
        Some(key) if metadata.name == "flag" => format!("--{}", key.replace('_', "-")),
        _ => metadata.name.to_string(),
    }
}

fn wrong_value(error: &figment::Error) -> Error {
    let what = match &error.kind {
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            format!("found {found}, expected {expected}")
        }
        Kind::UnknownVariant(found, expected) => {
            format!("\"{found}\" is none of {}", expected.join(", "))
        }
        other => other.to_string(),
    };
    let origin = origin(error.metadata.as_ref(), &error.path);
    invalid(format!("setting \"{}\" ({origin}): {what}", error.path.join(".")))
}

/// A file that is missing, or is not TOML.
fn unreadable(error: &figment::Error) -> Error {
    let file = match error.metadata.as_ref().and_then(|metadata| metadata.source.as_ref()) {
        Some(Source::File(file)) => format!("{}: ", file.display()),
        _ => String::new(),
    };
    invalid(format!("configuration cannot be read: {file}{}", error.kind))
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests;
