//! Mistakes in the given settings: unknown names and invalid values. Each setting is checked by
//! itself, so that no mistake hides another one.

use figment::Figment;
use figment::error::Kind;
use figment::value::{Dict, Map, Value};
use thalweg_types::Error;

use super::{Named, Settings, first_tag, invalid, origin};

/// The given settings, sorted into right and wrong ones.
#[derive(Default)]
pub(super) struct Sorted {
    /// The valid settings, by section.
    pub(super) right: Map<String, Dict>,
    pub(super) errors: Vec<Error>,
    /// The settings with invalid values, as `section.key`.
    pub(super) wrong: Vec<String>,
}

/// Sorts settings into right and wrong ones.
pub(super) fn sort(figment: &Figment, given: &Dict, defaults: &Dict) -> Sorted {
    let mut sorter = Sorter { figment, defaults, sorted: Sorted::default() };
    for (name, value) in given {
        match (defaults.get(name), value) {
            (Some(Value::Dict(_, known)), Value::Dict(_, section)) => {
                sorter.section(name, section, known);
            }
            (Some(_), _) => {
                let found = value.to_actual();
                sorter.wrong(
                    std::slice::from_ref(name),
                    value,
                    &format!("found {found}, expected a section"),
                );
            }
            (None, _) => sorter.unknown(std::slice::from_ref(name), value, defaults),
        }
    }
    sorter.sorted
}

struct Sorter<'a> {
    figment: &'a Figment,
    defaults: &'a Dict,
    sorted: Sorted,
}

impl Sorter<'_> {
    fn section(&mut self, name: &str, section: &Dict, known: &Dict) {
        for (key, value) in section {
            let path = [name.to_owned(), key.clone()];
            match known.get(key) {
                None => self.unknown(&path, value, known),
                Some(default) if default == value => {}
                Some(_) => self.value(&path, value),
            }
        }
    }

    /// A value is valid if the defaults still parse as settings with it.
    fn value(&mut self, path: &[String; 2], value: &Value) {
        let [section, key] = path;
        let alone = Dict::from([(key.clone(), value.clone())]);
        let dict = Dict::from([(section.clone(), Value::from(alone.clone()))]);
        let defaults = Named { name: super::DEFAULTS, dict: self.defaults.clone() };
        let settings = Figment::from(defaults).merge(Named { name: "given", dict });
        match settings.extract::<Settings>() {
            Ok(_) => self.sorted.right.entry(section.clone()).or_default().extend(alone),
            Err(error) => self.wrong(path, value, &what(&error.kind)),
        }
    }

    fn wrong(&mut self, path: &[String], value: &Value, what: &str) {
        let (name, origin) = (path.join("."), self.origin(path, value));
        self.sorted.errors.push(invalid(format!("setting \"{name}\" ({origin}): {what}")));
        self.sorted.wrong.push(name);
    }

    fn unknown(&mut self, path: &[String], value: &Value, known: &Dict) {
        let (name, origin) = (path.join("."), self.origin(path, value));
        let candidates: Vec<&str> = known.keys().map(String::as_str).collect();
        let hint = near(path.last().map_or("", String::as_str), &candidates);
        let message = format!("unknown setting \"{name}\" ({origin})");
        self.sorted.errors.push(invalid(message).with_hint(hint));
    }

    fn origin(&self, path: &[String], value: &Value) -> String {
        origin(self.figment.get_metadata(first_tag(value)), path)
    }
}

fn what(kind: &Kind) -> String {
    match kind {
        Kind::InvalidType(found, expected) | Kind::InvalidValue(found, expected) => {
            format!("found {found}, expected {}", in_words(expected))
        }
        Kind::UnknownVariant(found, expected) => {
            format!("\"{found}\" is none of {}", expected.join(", "))
        }
        other => other.to_string(),
    }
}

/// Readable names of the program's types.
fn in_words(expected: &str) -> &str {
    match expected {
        "u16" => "a whole number from 0 to 65535",
        "u64" | "usize" => "a whole number from 0 on",
        "a nonzero usize" => "a whole number from 1 on",
        other => other,
    }
}

/// The names that are close to the given one, or all names.
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
