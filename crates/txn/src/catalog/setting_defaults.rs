//! Defaults of settings for roles and for the database: `ALTER ROLE … SET` and
//! `ALTER DATABASE … SET`.
//!
//! The catalog holds names and values as text. Sessions read them when they begin.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::roles::RoleId;

/// The sessions that a default applies to: those of one role or of all, in every database or in
/// this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SettingTarget {
    /// `None` for all roles.
    pub role: Option<RoleId>,
    /// True if the default was set for the database by its name.
    pub in_database: bool,
}

/// Sets the default of a setting; without a value, removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingDefaultChange {
    pub target: SettingTarget,
    pub name: String,
    pub value: Option<String>,
}

/// Names and values, in the order in which the names were first set.
type Values = Vec<(String, String)>;

type Stored = Vec<(SettingTarget, Values)>;

/// All defaults of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub(super) struct SettingDefaults(BTreeMap<SettingTarget, Values>);

impl From<Stored> for SettingDefaults {
    fn from(stored: Stored) -> SettingDefaults {
        SettingDefaults(stored.into_iter().collect())
    }
}

impl From<SettingDefaults> for Stored {
    fn from(defaults: SettingDefaults) -> Stored {
        defaults.0.into_iter().collect()
    }
}

impl SettingDefaults {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All targets that have defaults.
    pub(super) fn all(&self) -> impl Iterator<Item = (SettingTarget, &[(String, String)])> {
        self.0.iter().map(|(target, values)| (*target, values.as_slice()))
    }

    pub(super) fn of(&self, target: SettingTarget) -> &[(String, String)] {
        self.0.get(&target).map_or(&[], Vec::as_slice)
    }

    pub(super) fn change(&mut self, change: &SettingDefaultChange) {
        let values = self.0.entry(change.target).or_default();
        let place = values.iter().position(|(name, _)| *name == change.name);
        match (place, &change.value) {
            (Some(place), Some(value)) => values[place].1.clone_from(value),
            (Some(place), None) => drop(values.remove(place)),
            (None, Some(value)) => values.push((change.name.clone(), value.clone())),
            (None, None) => {}
        }
        if values.is_empty() {
            self.0.remove(&change.target);
        }
    }

    /// True if a role has defaults of its own.
    pub(super) fn has(&self, role: RoleId) -> bool {
        self.0.keys().any(|target| target.role == Some(role))
    }

    /// Removes the defaults of a role.
    pub(super) fn forget(&mut self, role: RoleId) {
        self.0.retain(|target, _| target.role != Some(role));
    }
}

#[cfg(test)]
mod tests {
    use thalweg_types::Lsn;

    use super::super::{Catalog, CatalogChange, RoleChange};
    use super::*;

    const ANN: RoleId = RoleId(20_001);
    const OF_ANN: SettingTarget = SettingTarget { role: Some(ANN), in_database: false };
    const OF_ALL: SettingTarget = SettingTarget { role: None, in_database: true };

    fn set(target: SettingTarget, name: &str, value: Option<&str>) -> CatalogChange {
        CatalogChange::SettingDefault(SettingDefaultChange {
            target,
            name: name.to_owned(),
            value: value.map(str::to_owned),
        })
    }

    fn with_defaults() -> Catalog {
        let name = "ann".to_owned();
        let create = RoleChange::Create { id: ANN, name, options: Vec::new() };
        let changes = [
            CatalogChange::Role(create),
            set(OF_ANN, "work_mem", Some("1MB")),
            set(OF_ANN, "search_path", Some("a, b")),
            set(OF_ALL, "work_mem", Some("2MB")),
            set(OF_ANN, "work_mem", Some("3MB")),
        ];
        changes.iter().fold(Catalog::default(), |catalog, change| {
            catalog.after(change, Lsn(1)).expect("the change fits")
        })
    }

    fn values(catalog: &Catalog, target: SettingTarget) -> Vec<String> {
        let pairs = catalog.setting_defaults_of(target).iter();
        pairs.map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn a_name_keeps_its_place_until_it_is_removed() {
        let catalog = with_defaults();
        assert_eq!(values(&catalog, OF_ANN), ["work_mem=3MB", "search_path=a, b"]);
        let removed = catalog.after(&set(OF_ANN, "work_mem", None), Lsn(2)).unwrap();
        assert_eq!(values(&removed, OF_ANN), ["search_path=a, b"]);
        assert_eq!(values(&removed, OF_ALL), ["work_mem=2MB"]);
        let unknown = removed.after(&set(OF_ANN, "work_mem", None), Lsn(3)).unwrap();
        assert_eq!(values(&unknown, OF_ANN), ["search_path=a, b"]);
    }

    #[test]
    fn defaults_go_away_with_their_role_and_need_one() {
        let drop = CatalogChange::Role(RoleChange::Drop { id: ANN });
        let dropped = with_defaults().after(&drop, Lsn(2)).unwrap();
        let left: Vec<_> = dropped.setting_defaults().map(|(target, _)| target).collect();
        assert_eq!(left, [OF_ALL]);
        assert!(dropped.after(&set(OF_ANN, "work_mem", Some("1MB")), Lsn(3)).is_err());
    }

    #[test]
    fn a_catalog_is_stored_with_its_defaults_and_as_before_without() {
        let catalog = with_defaults();
        let json = serde_json::to_value(&catalog).unwrap();
        assert_eq!(serde_json::from_value::<Catalog>(json).unwrap(), catalog);
        let plain = serde_json::to_value(Catalog::default()).unwrap();
        assert!(plain.get("setting_defaults").is_none());
    }
}
