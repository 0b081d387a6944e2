//! Privileges, and sets of them, written as PostgreSQL writes access lists: `arwdDxt`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One privilege on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    Insert,
    Select,
    Update,
    Delete,
    Truncate,
    References,
    Trigger,
    Usage,
    Create,
    Temporary,
    Connect,
}

/// Every privilege with its letter and its name in SQL, in the order of PostgreSQL's access lists.
const PRIVILEGES: [(Privilege, char, &str); 11] = [
    (Privilege::Insert, 'a', "INSERT"),
    (Privilege::Select, 'r', "SELECT"),
    (Privilege::Update, 'w', "UPDATE"),
    (Privilege::Delete, 'd', "DELETE"),
    (Privilege::Truncate, 'D', "TRUNCATE"),
    (Privilege::References, 'x', "REFERENCES"),
    (Privilege::Trigger, 't', "TRIGGER"),
    (Privilege::Usage, 'U', "USAGE"),
    (Privilege::Create, 'C', "CREATE"),
    (Privilege::Temporary, 'T', "TEMPORARY"),
    (Privilege::Connect, 'c', "CONNECT"),
];

impl Privilege {
    /// `SELECT`, `INSERT`, …
    #[must_use]
    pub fn name(self) -> &'static str {
        let (_, _, name) = PRIVILEGES[self as usize];
        name
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl From<Privilege> for Privileges {
    fn from(privilege: Privilege) -> Privileges {
        Privileges(privilege.bit())
    }
}

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Privileges(u16);

impl Privileges {
    /// The empty set.
    pub const NONE: Privileges = Privileges(0);
    /// The privileges that `ALL PRIVILEGES` on a table or view grants.
    pub const RELATION: Privileges = Privileges(
        Privilege::Insert.bit()
            | Privilege::Select.bit()
            | Privilege::Update.bit()
            | Privilege::Delete.bit()
            | Privilege::Truncate.bit()
            | Privilege::References.bit()
            | Privilege::Trigger.bit(),
    );
    /// The privileges that `ALL PRIVILEGES` on a sequence grants.
    pub const SEQUENCE: Privileges =
        Privileges(Privilege::Select.bit() | Privilege::Update.bit() | Privilege::Usage.bit());
    /// The privileges that `ALL PRIVILEGES` on a schema grants.
    pub const NAMESPACE: Privileges = Privileges(Privilege::Usage.bit() | Privilege::Create.bit());
    /// The privileges that `ALL PRIVILEGES` on the database grants.
    pub const DATABASE: Privileges =
        Privileges(Privilege::Create.bit() | Privilege::Temporary.bit() | Privilege::Connect.bit());

    /// True if the set holds no privilege.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if the set holds all of the privileges `all`.
    #[must_use]
    pub const fn contains(self, all: Privileges) -> bool {
        self.0 & all.0 == all.0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// The intersection of both sets.
    #[must_use]
    pub const fn common(self, other: Privileges) -> Privileges {
        Privileges(self.0 & other.0)
    }

    /// The privileges of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Privileges) -> Privileges {
        Privileges(self.0 & !other.0)
    }

    /// The privileges in the order of PostgreSQL's access lists.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        let all = PRIVILEGES.into_iter().map(|(privilege, _, _)| privilege);
        all.filter(move |privilege| self.contains((*privilege).into()))
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<I: IntoIterator<Item = Privilege>>(privileges: I) -> Privileges {
        privileges.into_iter().fold(Privileges::NONE, |set, one| set.and(one.into()))
    }
}

/// Writes the letters of an access list.
impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (privilege, letter, _) in PRIVILEGES {
            if self.contains(privilege.into()) {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

impl From<Privileges> for String {
    fn from(privileges: Privileges) -> String {
        privileges.to_string()
    }
}

impl TryFrom<String> for Privileges {
    type Error = String;

    fn try_from(letters: String) -> Result<Privileges, String> {
        let of = |letter| PRIVILEGES.into_iter().find(|(_, known, _)| *known == letter);
        letters
            .chars()
            .map(|letter| match of(letter) {
                Some((privilege, _, _)) => Ok(privilege),
                None => Err(format!("there is no privilege {letter}")),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_postgresql_writes_them() {
        assert_eq!(Privileges::RELATION.to_string(), "arwdDxt");
        assert_eq!(Privileges::SEQUENCE.to_string(), "rwU");
        assert_eq!(Privileges::NAMESPACE.to_string(), "UC");
        assert_eq!(Privileges::DATABASE.to_string(), "CTc");
        for (privilege, letter, name) in PRIVILEGES {
            assert_eq!(privilege.name(), name);
            assert_eq!(Privileges::try_from(letter.to_string()), Ok(privilege.into()));
        }
        assert!(Privileges::try_from("q".to_owned()).is_err());
    }
}
