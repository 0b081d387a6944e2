//! The settings in force as TOML, each with its origin.

use std::fmt::Write as _;

use figment::Profile;
use figment::Provider as _;
use figment::value::{Dict, Num, Value};

use crate::config::{Config, origin};

/// A `thalweg.toml` with the same settings. Settings without a value appear as comments.
pub fn dump(config: &Config) -> String {
    let data = config.figment.data().expect("it was read before");
    let sections = data.get(&Profile::Default).expect("defaults are always there");
    let mut out = String::new();
    for (name, section) in sections {
        let Value::Dict(_, section) = section else { unreachable!("{name} is a table") };
        if !out.is_empty() {
            out.push('\n');
        }
        writeln!(out, "[{name}]").expect("strings take any text");
        push_section(&mut out, config, name, section);
    }
    out
}

fn push_section(out: &mut String, config: &Config, name: &str, section: &Dict) {
    let lines: Vec<(String, String)> = section
        .iter()
        .map(|(key, value)| {
            let path = [name.to_owned(), key.clone()];
            let origin = origin(config.figment.get_metadata(value.tag()), &path);
            match literal(value) {
                Some(literal) => (format!("{key} = {literal}"), origin),
                None => (format!("# {key} ="), "not set".to_owned()),
            }
        })
        .collect();
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
    for (line, origin) in lines {
        writeln!(out, "{line:width$}  # {origin}").expect("strings take any text");
    }
}

/// The value in TOML's spelling; `None` for one that is not set.
fn literal(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(_, text) => quoted(text),
        Value::Char(_, c) => quoted(&c.to_string()),
        Value::Bool(_, yes) => yes.to_string(),
        Value::Num(_, number) => plain_number(*number)?,
        Value::Empty(..) => return None,
        Value::Dict(..) | Value::Array(..) => unreachable!("settings are plain values"),
    })
}

/// Converts each of figment's kinds of number.
fn plain_number(number: Num) -> Option<String> {
    let whole = number.to_u128().map(|n| n.to_string());
    let whole = whole.or_else(|| number.to_i128().map(|n| n.to_string()));
    whole.or_else(|| number.to_f64().map(|n| n.to_string()))
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                write!(out, "\\u{:04X}", c as u32).expect("strings take any text");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
