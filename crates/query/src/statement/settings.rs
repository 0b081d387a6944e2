//! The settings of a session: `SET`, `SHOW`, and the values behind them.

mod checks;
mod definitions;
mod modes;
mod statements;
mod styles;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_formats::text::style::SessionStyle;
use thalweg_txn::RoleId;
use thalweg_types::{Error, Result, SqlState};

pub(super) use self::checks::may_change;
pub(crate) use self::definitions::Definition;
use self::modes::LEVELS;
pub(crate) use self::modes::Modes;
pub(super) use self::statements::{assigned, dotted, reset, reset_name, set, show, show_tables};
use self::values::{invalid, no_flag};
use crate::Durability;
use crate::privileges::Identity;
use crate::workers::Gathering;

const QUERY_MEMORY: &str = "query_memory_limit";

/// The settings of a session.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) identity: Identity,
    pub(crate) durability: Durability,
    /// The way in which rows are gathered from workers.
    pub(crate) gathering: Gathering,
    /// The initial settings of sessions of this database.
    defaults: Defaults,
    /// Times in milliseconds, 0 for none, in the order of [`TIMES`].
    times: [u64; TIMES.len()],
    /// Memory limit of a statement in bytes; 0 for none.
    query_memory: usize,
    /// The setting `search_path`; `None` for the initial one.
    search_path: Option<Arc<str>>,
    /// The style in which values are read from text and written as text; `None` for the default.
    style: Option<Arc<SessionStyle>>,
    /// The values of settings of a definition that were set, by their keys, as
    /// [`values::read`] returns them. Values with a field of their own are not among them.
    stored: Arc<BTreeMap<&'static str, String>>,
    /// The values from the beginning of the session, which `RESET` restores, by their keys. Custom
    /// settings are among them.
    opening: Arc<BTreeMap<String, OpeningValue>>,
    /// The role that `RESET ROLE` restores; `None` for the session's.
    opening_role: Option<RoleId>,
    /// The modes of new transactions.
    default_modes: Modes,
    /// The modes of the open transaction block.
    modes: Option<Modes>,
    /// The values that `SET LOCAL` hides until the transaction ends, by name.
    hidden: Vec<(String, String)>,
    /// The identity that `SET LOCAL` hides until the transaction ends.
    hidden_identity: Option<Identity>,
    /// Custom settings of users, which have a dot in their names.
    custom: Arc<BTreeMap<String, String>>,
}

/// The initial settings that depend on the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) durability: Durability,
    pub(crate) gathering: Gathering,
}

/// A value from the beginning of a session.
#[derive(Clone, Debug)]
struct OpeningValue {
    value: String,
    /// PostgreSQL's word for where it is from.
    source: &'static str,
}

/// The lifetime of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Session,
    Transaction,
}

/// The one who changes a setting. Some settings are for superusers, and some only for the beginning
/// of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setter {
    pub(crate) is_superuser: bool,
    /// While the session begins, PostgreSQL's word for where the value is from. Then the value is
    /// also the one that `RESET` restores.
    pub(crate) opening: Option<&'static str>,
}

impl Setter {
    /// A statement of a role.
    pub(crate) fn role(is_superuser: bool) -> Setter {
        Setter { is_superuser, opening: None }
    }

    /// A value that was checked before is set again.
    const UNCHECKED: Setter = Setter { is_superuser: true, opening: None };
}

/// Time limits, with PostgreSQL's names.
const TIMES: [&str; 4] = [
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
];

impl Settings {
    pub(crate) fn new(defaults: Defaults, identity: Identity) -> Settings {
        Settings {
            identity,
            durability: defaults.durability,
            gathering: defaults.gathering,
            defaults,
            times: [0; TIMES.len()],
            query_memory: 0,
            search_path: None,
            style: None,
            stored: Arc::default(),
            opening: Arc::default(),
            opening_role: None,
            default_modes: Modes::default(),
            modes: None,
            hidden: Vec::new(),
            hidden_identity: None,
            custom: Arc::default(),
        }
    }

    /// Time limit of a statement.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.time("statement_timeout")
    }

    /// Memory limit of a statement for sorting, joining and grouping, in bytes.
    pub(crate) fn query_memory(&self) -> Option<usize> {
        (self.query_memory > 0).then_some(self.query_memory)
    }

    /// The setting `search_path`; `None` for the initial one.
    pub(crate) fn search_path(&self) -> Option<&Arc<str>> {
        self.search_path.as_ref()
    }

    /// The style in which values are read from text and written as text; `None` for the default.
    pub(crate) fn style(&self) -> Option<&Arc<SessionStyle>> {
        self.style.as_ref()
    }

    pub(crate) fn time(&self, name: &str) -> Option<Duration> {
        let at = TIMES.iter().position(|known| *known == name)?;
        (self.times[at] > 0).then(|| Duration::from_millis(self.times[at]))
    }

    /// The modes of the open transaction, or of the next one.
    pub(crate) fn modes(&self) -> Modes {
        self.modes.unwrap_or(self.default_modes)
    }

    /// Sets the modes of the transaction that begins or is open.
    pub(crate) fn set_modes(&mut self, modes: Modes) {
        self.modes = Some(modes);
    }

    /// Reverts the settings that were set for this transaction only.
    pub(crate) fn end_transaction(&mut self) {
        self.modes = None;
        if let Some(identity) = self.hidden_identity.take() {
            self.identity = identity;
        }
        for (name, value) in std::mem::take(&mut self.hidden) {
            let restored = self.set(&name, Some(&value), Setter::UNCHECKED);
            debug_assert!(matches!(restored, Ok(true)), "a setting takes the value that it had");
        }
    }

    /// The settings before a transaction, or a part of it, that is rolled back. Custom settings
    /// that it introduced remain known, with empty values, as in PostgreSQL.
    pub(crate) fn rolled_back_to(&self, mut before: Settings) -> Settings {
        let is_new = |name: &&String| !before.custom.contains_key(*name);
        let introduced: Vec<String> = self.custom.keys().filter(is_new).cloned().collect();
        if !introduced.is_empty() {
            let custom = Arc::make_mut(&mut before.custom);
            custom.extend(introduced.into_iter().map(|name| (name, String::new())));
        }
        before
    }

    /// Restores the values from the beginning of the session.
    pub(crate) fn reset_all(&mut self) {
        let mut fresh = Settings::new(self.defaults, self.identity);
        fresh.modes = self.modes;
        fresh.hidden_identity = self.hidden_identity;
        fresh.opening = Arc::clone(&self.opening);
        fresh.opening_role = self.opening_role;
        fresh.custom = Arc::clone(&self.custom);
        Arc::make_mut(&mut fresh.custom).values_mut().for_each(String::clear);
        for (name, opening) in &*self.opening {
            let restored = fresh.set(name, Some(&opening.value), Setter::UNCHECKED);
            debug_assert!(matches!(restored, Ok(true)), "a setting takes the value that it had");
        }
        *self = fresh;
    }

    /// Changes the roles of the session, for the open transaction only, or permanently.
    pub(crate) fn set_identity(&mut self, scope: Scope, identity: Identity) {
        self.hidden_identity = match scope {
            Scope::Session => None,
            Scope::Transaction => Some(self.hidden_identity.unwrap_or(self.identity)),
        };
        self.identity = identity;
    }

    /// Like [`set`](Settings::set), for the open transaction only, or permanently.
    pub(crate) fn set_for(
        &mut self,
        scope: Scope,
        name: &str,
        value: Option<&str>,
        setter: Setter,
    ) -> Result<bool> {
        let name = name.to_lowercase();
        let hidden = self.hidden.iter().position(|(known, _)| *known == name);
        let before = self.get(&name);
        if !self.set(&name, value, setter)? {
            return Ok(false);
        }
        match (scope, hidden) {
            (Scope::Session, Some(at)) => drop(self.hidden.remove(at)),
            // A custom setting that was unknown is empty afterwards.
            (Scope::Transaction, None) => self.hidden.push((name, before.unwrap_or_default())),
            _ => {}
        }
        Ok(true)
    }

    /// The value that `SHOW` returns. `None` if there is no such setting, or it depends on roles.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let Some(definition) = Definition::named(name) else {
            return self.custom.get(&name.to_lowercase()).cloned();
        };
        self.stored_value(definition).map(|value| values::show(definition, &value))
    }

    /// The value that `pg_settings` shows: a number has no unit.
    pub(crate) fn stored_value(&self, definition: &Definition) -> Option<String> {
        let key = definition.key.as_str();
        if let Some(mode) = key.strip_prefix("default_transaction_") {
            return self.default_modes.get(mode);
        }
        if let Some(mode) = key.strip_prefix("transaction_") {
            return self.modes().get(mode);
        }
        Some(match key {
            "durability" => match self.durability {
                Durability::Fsync => "fsync".to_owned(),
                Durability::Write => "write".to_owned(),
                Durability::None => "none".to_owned(),
            },
            "fan_in" => self.gathering.fan_in.to_string(),
            "relay" => on_or_off(self.gathering.relays),
            "together" => on_or_off(self.gathering.together),
            "stages" => self.gathering.stages.to_string(),
            "seed" => "unavailable".to_owned(),
            "is_superuser" | "role" | "session_authorization" => return None,
            key => match self.stored.get(key) {
                Some(value) => value.clone(),
                None => definition.initial.to_owned(),
            },
        })
    }

    /// The value that `RESET` restores, in the form of `pg_settings`.
    pub(crate) fn reset_value(&self, definition: &Definition) -> Option<String> {
        match self.opening.get(definition.key.as_str()) {
            Some(opening) => Some(opening.value.clone()),
            None => Settings::new(self.defaults, self.identity).stored_value(definition),
        }
    }

    /// PostgreSQL's word for where a setting's value is from.
    pub(crate) fn source(&self, definition: &Definition) -> &'static str {
        let value = self.stored_value(definition);
        if value != self.reset_value(definition) {
            "session"
        } else {
            self.opening.get(definition.key.as_str()).map_or("default", |opening| opening.source)
        }
    }

    /// Changes a setting; without a value, to the one from the beginning of the session. Returns
    /// false if there is no such setting.
    ///
    /// # Errors
    /// 22023 if it cannot have the value, 55P02 if it cannot be changed now, 42501 if only
    /// superusers may change it.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, setter: Setter) -> Result<bool> {
        let Some(definition) = Definition::named(name) else {
            let name = name.to_lowercase();
            if !checks::is_custom(&name)? {
                return Ok(false);
            }
            let opening = || self.opening.get(&name).map(|opening| opening.value.clone());
            let value = value.map(str::to_owned).or_else(opening).unwrap_or_default();
            self.note_opening(&name, &value, setter);
            Arc::make_mut(&mut self.custom).insert(name, value);
            return Ok(true);
        };
        checks::may_change(definition, setter)?;
        let stored = match value {
            Some(value) if definition.key == "datestyle" => {
                let current = self.stored_value(definition).unwrap_or_default();
                let reset = self.reset_value(definition).unwrap_or_default();
                styles::date_style(definition.name, value, &current, &reset)?
            }
            Some(value) => checks::read(definition, value)?,
            None => self.reset_value(definition).unwrap_or_default(),
        };
        self.note_opening(&definition.key, &stored, setter);
        self.store(definition, stored)?;
        Ok(true)
    }

    /// Keeps a value for `RESET` if it is from the beginning of the session.
    fn note_opening(&mut self, key: &str, value: &str, setter: Setter) {
        if let Some(source) = setter.opening {
            let opening = OpeningValue { value: value.to_owned(), source };
            Arc::make_mut(&mut self.opening).insert(key.to_owned(), opening);
        }
    }

    /// An identity in the role that `RESET ROLE` restores.
    pub(crate) fn in_opening_role(&self, identity: Identity) -> Identity {
        Identity { current: self.opening_role.unwrap_or(identity.session), ..identity }
    }

    /// Begins the session in a role, which `RESET ROLE` then restores.
    pub(crate) fn open_in_role(&mut self, identity: Identity) {
        self.identity = identity;
        self.opening_role = Some(identity.current);
    }

    /// Takes a value that was read.
    fn store(&mut self, definition: &'static Definition, value: String) -> Result<()> {
        let key = definition.key.as_str();
        if let Some(at) = TIMES.iter().position(|known| *known == key) {
            self.times[at] = value.parse().unwrap_or_default();
        }
        if key.starts_with("default_transaction_") || key.starts_with("transaction_") {
            return self.set_mode(definition, &value);
        }
        let refused = || invalid(definition.name, &value, &definition.values.join(", "));
        match key {
            "durability" => {
                self.durability = match value.as_str() {
                    "fsync" => Durability::Fsync,
                    "write" => Durability::Write,
                    _ => Durability::None,
                };
            }
            "fan_in" => self.gathering.fan_in = value.parse().map_err(|()| refused())?,
            "stages" => self.gathering.stages = value.parse().map_err(|()| refused())?,
            "relay" => self.gathering.relays = value == "on",
            "together" => self.gathering.together = value == "on",
            key => {
                if key == QUERY_MEMORY {
                    self.query_memory = checks::memory_bytes(&value).unwrap_or_default();
                }
                if key == "search_path" {
                    let is_initial = value == definition.initial;
                    self.search_path = (!is_initial).then(|| value.as_str().into());
                }
                Arc::make_mut(&mut self.stored).insert(key, value);
                if styles::is_style_setting(key) {
                    self.style = styles::of(self);
                }
            }
        }
        Ok(())
    }

    fn set_mode(&mut self, definition: &Definition, value: &str) -> Result<()> {
        let (name, key) = (definition.name, definition.key.as_str());
        let (mode, modes) = match key.strip_prefix("default_transaction_") {
            Some(mode) => (mode, &mut self.default_modes),
            // Outside of a block, the setting belongs to a transaction that ends at once.
            None => match &mut self.modes {
                Some(modes) => (key.trim_start_matches("transaction_"), modes),
                None => return Ok(()),
            },
        };
        if modes.set(mode, value) {
            return Ok(());
        }
        Err(match mode {
            "isolation" => invalid(name, value, &LEVELS.join(", ")),
            _ => no_flag(name),
        })
    }
}

fn on_or_off(flag: bool) -> String {
    if flag { "on" } else { "off" }.to_owned()
}

pub(crate) fn unrecognized(name: &str) -> Error {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    Error::new(SqlState::UNDEFINED_OBJECT, message)
}
