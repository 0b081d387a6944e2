//! Configuration: defaults < `thalweg.toml` < `THALWEG__SECTION__KEY` < flags.
//!
//! Every value knows where it came from. An unknown key is an error, so that a misspelt setting is
//! never silently ignored.

use std::path::{Path, PathBuf};

use figment::providers::{Env, Format as _, Toml};
use figment::value::{Dict, Map, Tag, Value};
use figment::{Figment, Metadata, Profile, Provider, Source};
use thalweg_server::Fault;
use thalweg_types::{Error, SqlState};

mod dump;
mod faults;
mod mistakes;
mod settings;
mod units;

pub use dump::dump;
pub use settings::{
    Border, ClusterSettings, Color, DatabaseSettings, Durability, Expansion, FanIn, Format,
    Settings, ShellSettings,
};
pub use units::{Size, Span};

use mistakes::Sorted;

const FILE_NAME: &str = "thalweg.toml";
const ENVIRONMENT_PREFIX: &str = "THALWEG__";
const DEFAULTS: &str = "default";

/// The settings in force, with the origin of each.
pub struct Config {
    pub settings: Settings,
    figment: Figment,
}

impl Config {
    /// True if a setting comes from a file, a variable or a flag, and not from the defaults.
    pub fn is_set(&self, key: &str) -> bool {
        self.figment.find_metadata(key).is_some_and(|metadata| metadata.name != DEFAULTS)
    }
}

/// Settings from flags: `section.key` and the value.
#[derive(Default)]
pub struct Flags(Vec<(&'static str, Value)>);

impl Flags {
    /// Sets `section.key` if the flag was given.
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

/// Reads all sources. Fails with all errors, not just the first.
pub fn load(file: Option<&Path>, flags: Flags) -> Result<Config, Vec<Error>> {
    load_with(file, environment(), flags, |settings| settings.database.faults())
}

/// Like [`load`], for a server: includes every check of the server's settings.
pub fn load_for_server(file: Option<&Path>, flags: Flags) -> Result<Config, Vec<Error>> {
    load_with(file, environment(), flags, |settings| {
        let mut faults = settings.database.faults();
        faults.extend(settings.server().faults());
        faults
    })
}

fn environment() -> Env {
    Env::prefixed(ENVIRONMENT_PREFIX).split("__")
}

fn load_with(
    file: Option<&Path>,
    environment: impl Provider,
    flags: Flags,
    faults: impl FnOnce(&Settings) -> Vec<Fault>,
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

    let data = figment.data().map_err(|error| vec![unreadable(file, &error)])?;
    let given = data.get(&Profile::Default).cloned().unwrap_or_default();
    let Sorted { right, mut errors, wrong } = mistakes::sort(&figment, &given, &defaults);
    let settings: Settings = Figment::from(Named { name: DEFAULTS, dict: defaults })
        .merge(Named { name: "given", dict: sections(right) })
        .extract()
        .expect("each setting was read by itself");
    // A setting with a wrong value has its default here, so a fault about it would be misleading.
    let is_wrong = |setting: &&str| wrong.iter().any(|wrong| wrong == setting);
    let faults = faults(&settings).into_iter();
    errors.extend(faults.filter(|f| !f.settings.iter().any(is_wrong)).map(|f| f.error));
    if errors.is_empty() { Ok(Config { settings, figment }) } else { Err(errors) }
}

/// A provider with a name, which messages about its values show.
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
    let mut found: Map<String, Dict> = Map::new();
    for (key, value) in flags.0 {
        let (section, key) = key.split_once('.').expect("flags name a section and a key");
        found.entry(section.to_owned()).or_default().insert(key.to_owned(), value);
    }
    sections(found)
}

fn sections(sections: Map<String, Dict>) -> Dict {
    sections.into_iter().map(|(name, dict)| (name, Value::Dict(Tag::Default, dict))).collect()
}

/// A table's values carry the tags of their sources; the table itself may not.
fn first_tag(value: &Value) -> Tag {
    match value {
        Value::Dict(tag, dict) => dict.values().next().map_or(*tag, first_tag),
        other => other.tag(),
    }
}

/// The origin of a value, worded as the user gave it.
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

/// A file that is missing, or is not TOML: nothing else fails to be read.
fn unreadable(file: Option<&Path>, error: &figment::Error) -> Error {
    let file = file.map(|file| format!(" {}", file.display())).unwrap_or_default();
    invalid(format!("configuration{file} cannot be read: {}", error.kind))
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests;
