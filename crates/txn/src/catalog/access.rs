//! Owners of objects, and the privileges granted on them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use thalweg_types::{Error, Result, SqlState};

use super::DEFAULT_NAMESPACE;
use super::privilege::{Privilege, Privileges};
use super::roles::RoleId;
use super::temporary::is_temporary_namespace;

/// An object that privileges can be granted on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Securable {
    Database,
    Namespace(String),
    /// A table, a view, an external table or a sequence.
    Relation {
        namespace: String,
        name: String,
    },
}

impl Securable {
    /// A table, view or external table by its qualified name.
    #[must_use]
    pub fn relation(namespace: &str, name: &str) -> Securable {
        Securable::Relation { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The namespace that the object is or lies in.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Securable::Database => None,
            Securable::Namespace(namespace) | Securable::Relation { namespace, .. } => {
                Some(namespace)
            }
        }
    }

    /// True for a temporary object, and for the namespace of temporary objects.
    pub(super) fn is_temporary(&self) -> bool {
        self.namespace().is_some_and(is_temporary_namespace)
    }

    /// The privileges that `ALL PRIVILEGES` on it grants.
    #[must_use]
    pub fn all_privileges(&self) -> Privileges {
        match self {
            Securable::Database => Privileges::DATABASE,
            Securable::Namespace(_) => Privileges::NAMESPACE,
            Securable::Relation { .. } => Privileges::RELATION,
        }
    }
}

/// Privileges that one role granted to another, or to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// `None` for everybody (`PUBLIC`).
    pub grantee: Option<RoleId>,
    pub grantor: RoleId,
    pub privileges: Privileges,
    /// The privileges among them that were granted `WITH GRANT OPTION`.
    pub grantable: Privileges,
}

/// The owner of an object, who holds all privileges on it, and the grants to others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    pub owner: RoleId,
    grants: Vec<Grant>,
}

/// One step from one access list to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessChange {
    /// Gives the object to another owner.
    Own {
        object: Securable,
        owner: RoleId,
    },
    Grant {
        object: Securable,
        grant: Grant,
    },
    /// Revokes privileges that `grantor` granted. Grants that the grantee made with them are
    /// revoked too with `cascade`, and make the revocation fail without.
    Revoke {
        object: Securable,
        grantee: Option<RoleId>,
        grantor: RoleId,
        privileges: Privileges,
        cascade: bool,
    },
}

impl AccessChange {
    pub(super) fn object(&self) -> &Securable {
        match self {
            AccessChange::Own { object, .. }
            | AccessChange::Grant { object, .. }
            | AccessChange::Revoke { object, .. } => object,
        }
    }

    /// True for a change of a temporary object.
    pub(super) fn is_temporary(&self) -> bool {
        self.object().is_temporary()
    }

    /// The roles that must exist for the change to be valid.
    pub(super) fn roles(&self) -> impl Iterator<Item = RoleId> {
        let (first, second) = match self {
            AccessChange::Own { owner, .. } => (Some(*owner), None),
            AccessChange::Grant { grant, .. } => (grant.grantee, Some(grant.grantor)),
            AccessChange::Revoke { grantee, .. } => (*grantee, None),
        };
        first.into_iter().chain(second)
    }
}

impl Access {
    fn of(owner: RoleId, public: Privileges) -> Access {
        let grants = Grant {
            grantee: None,
            grantor: owner,
            privileges: public,
            grantable: Privileges::NONE,
        };
        let grants = if public.is_empty() { Vec::new() } else { vec![grants] };
        Access { owner, grants }
    }

    /// All grants, without the owner's own privileges.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    fn grant(&mut self, grant: Grant) {
        // The owner holds all privileges anyway, and they cannot be revoked.
        if grant.grantee == Some(self.owner) {
            return;
        }
        let same =
            |held: &&mut Grant| (held.grantee, held.grantor) == (grant.grantee, grant.grantor);
        match self.grants.iter_mut().find(same) {
            Some(held) => {
                held.privileges = held.privileges.and(grant.privileges);
                held.grantable = held.grantable.and(grant.grantable);
            }
            None => self.grants.push(grant),
        }
    }

    fn revoke(
        &mut self,
        grantee: Option<RoleId>,
        grantor: RoleId,
        privileges: Privileges,
        cascade: bool,
    ) -> Result<()> {
        let mut lost = Privileges::NONE;
        for held in &mut self.grants {
            if (held.grantee, held.grantor) == (grantee, grantor) {
                lost = lost.and(held.grantable.common(privileges));
                held.privileges = held.privileges.without(privileges);
                held.grantable = held.grantable.without(privileges);
            }
        }
        self.grants.retain(|held| !held.privileges.is_empty());
        let Some(grantee) = grantee else { return Ok(()) };
        // Grants stay valid if another grantor gave the same grant option.
        let still = self.grantable_by(grantee);
        let dependent: Vec<(Option<RoleId>, Privileges)> = self
            .grants
            .iter()
            .filter(|held| held.grantor == grantee)
            .map(|held| (held.grantee, held.privileges.common(lost.without(still))))
            .filter(|(_, privileges)| !privileges.is_empty())
            .collect();
        if !dependent.is_empty() && !cascade {
            return Err(Error::new(SqlState::DEPENDENT_OBJECTS, "dependent privileges exist")
                .with_hint("Use CASCADE to revoke them too."));
        }
        for (next, privileges) in dependent {
            self.revoke(next, grantee, privileges, cascade)?;
        }
        Ok(())
    }

    /// Privileges that a role may grant to others because of grants to itself.
    #[must_use]
    pub fn grantable_by(&self, role: RoleId) -> Privileges {
        let own = self.grants.iter().filter(|held| held.grantee == Some(role));
        own.fold(Privileges::NONE, |all, held| all.and(held.grantable))
    }

    fn give_to(&mut self, owner: RoleId) {
        let before = std::mem::replace(&mut self.owner, owner);
        for mut grant in std::mem::take(&mut self.grants) {
            if grant.grantor == before {
                grant.grantor = owner;
            }
            self.grant(grant);
        }
    }

    fn change(&mut self, change: &AccessChange) -> Result<()> {
        match change {
            AccessChange::Own { owner, .. } => self.give_to(*owner),
            AccessChange::Grant { grant, .. } => self.grant(*grant),
            AccessChange::Revoke { grantee, grantor, privileges, cascade, .. } => {
                self.revoke(*grantee, *grantor, *privileges, *cascade)?;
            }
        }
        Ok(())
    }
}

/// Default access of objects without an access list, as in PostgreSQL 15: everybody may connect,
/// and use the schema `public`.
static OF_DATABASE: LazyLock<Access> = LazyLock::new(|| {
    let public = [Privilege::Connect, Privilege::Temporary].into_iter().collect();
    Access::of(RoleId::BOOTSTRAP, public)
});
static OF_DEFAULT_NAMESPACE: LazyLock<Access> =
    LazyLock::new(|| Access::of(RoleId::BOOTSTRAP, Privilege::Usage.into()));
static OF_OTHERS: LazyLock<Access> =
    LazyLock::new(|| Access::of(RoleId::BOOTSTRAP, Privileges::NONE));

fn untouched(object: &Securable) -> &'static Access {
    match object {
        Securable::Database => &OF_DATABASE,
        Securable::Namespace(name) if name == DEFAULT_NAMESPACE => &OF_DEFAULT_NAMESPACE,
        Securable::Namespace(_) | Securable::Relation { .. } => &OF_OTHERS,
    }
}

/// The access lists of all objects that have one of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<(Securable, Access)>", into = "Vec<(Securable, Access)>")]
pub(super) struct AccessLists(BTreeMap<Securable, Access>);

impl From<Vec<(Securable, Access)>> for AccessLists {
    fn from(stored: Vec<(Securable, Access)>) -> AccessLists {
        AccessLists(stored.into_iter().collect())
    }
}

impl From<AccessLists> for Vec<(Securable, Access)> {
    fn from(lists: AccessLists) -> Vec<(Securable, Access)> {
        lists.0.into_iter().collect()
    }
}

impl AccessLists {
    pub(super) fn of(&self, object: &Securable) -> &Access {
        self.0.get(object).unwrap_or_else(|| untouched(object))
    }

    pub(super) fn has(&self, object: &Securable) -> bool {
        self.0.contains_key(object)
    }

    pub(super) fn change(&mut self, change: &AccessChange) -> Result<()> {
        let object = change.object();
        let access = self.0.entry(object.clone()).or_insert_with(|| untouched(object).clone());
        access.change(change)
    }

    /// The lists of a namespace and of the objects in it.
    pub(super) fn within(&self, namespace: &str) -> impl Iterator<Item = (&Securable, &Access)> {
        self.0.iter().filter(move |(object, _)| object.namespace() == Some(namespace))
    }

    /// Adds lists of objects that have none yet.
    pub(super) fn extend<'a>(&mut self, lists: impl Iterator<Item = (&'a Securable, &'a Access)>) {
        self.0.extend(lists.map(|(object, access)| (object.clone(), access.clone())));
    }

    pub(super) fn rename(&mut self, from: &Securable, to: Securable) {
        if let Some(access) = self.0.remove(from) {
            self.0.insert(to, access);
        }
    }

    pub(super) fn forget(&mut self, object: &Securable) {
        self.0.remove(object);
    }

    /// The objects that a role owns or holds grants on; the flag is true if it owns the object.
    pub(super) fn involving(&self, role: RoleId) -> impl Iterator<Item = (&Securable, bool)> {
        self.0.iter().filter_map(move |(object, access)| {
            let owns = access.owner == role;
            let holds = access.grants.iter().any(|grant| grant.grantee == Some(role));
            (owns || holds).then_some((object, owns))
        })
    }
}

/// One entry of an access list in PostgreSQL's notation: `grantee=arwd/grantor`, with a `*` after
/// each privilege with grant option. `name` returns a role's name.
#[must_use]
pub fn access_item<'a>(grant: &Grant, name: impl Fn(RoleId) -> Cow<'a, str>) -> String {
    let mut text = grant.grantee.map(&name).unwrap_or_default().into_owned();
    text.push('=');
    for privilege in grant.privileges.iter() {
        text.push_str(&Privileges::from(privilege).to_string());
        if grant.grantable.contains(privilege.into()) {
            text.push('*');
        }
    }
    text + "/" + &name(grant.grantor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: RoleId = RoleId(20_001);
    const BOB: RoleId = RoleId(20_002);

    fn table() -> Securable {
        Securable::relation("public", "t")
    }

    fn grant(grantor: RoleId, grantee: RoleId, grantable: bool) -> AccessChange {
        let privileges = Privilege::Select.into();
        let grantable = if grantable { privileges } else { Privileges::NONE };
        let grant = Grant { grantee: Some(grantee), grantor, privileges, grantable };
        AccessChange::Grant { object: table(), grant }
    }

    fn handed_on() -> AccessLists {
        let mut lists = AccessLists::default();
        lists.change(&grant(RoleId::BOOTSTRAP, ANN, true)).unwrap();
        lists.change(&grant(ANN, BOB, false)).unwrap();
        lists
    }

    fn revoke(cascade: bool) -> AccessChange {
        AccessChange::Revoke {
            object: table(),
            grantee: Some(ANN),
            grantor: RoleId::BOOTSTRAP,
            privileges: Privileges::RELATION,
            cascade,
        }
    }

    #[test]
    fn what_was_handed_on_goes_only_with_cascade() {
        let mut lists = handed_on();
        let error = lists.clone().change(&revoke(false)).unwrap_err();
        assert_eq!(error.state(), SqlState::DEPENDENT_OBJECTS);
        lists.change(&revoke(true)).unwrap();
        assert!(lists.of(&table()).grants().is_empty());
    }

    #[test]
    fn what_another_let_hand_on_too_stays() {
        let mut lists = handed_on();
        lists.change(&grant(BOB, ANN, true)).unwrap();
        lists.change(&revoke(false)).unwrap();
        assert!(lists.of(&table()).grants().iter().any(|held| held.grantee == Some(BOB)));
    }

    #[test]
    fn a_new_owner_takes_over_what_the_old_one_granted() {
        let mut lists = handed_on();
        lists.change(&AccessChange::Own { object: table(), owner: ANN }).unwrap();
        let access = lists.of(&table());
        assert_eq!(access.owner, ANN);
        let [held] = access.grants() else { panic!("the owner's own grant is gone") };
        assert_eq!((held.grantee, held.grantor), (Some(BOB), ANN));
    }

    #[test]
    fn items_are_written_as_postgresql_writes_them() {
        let AccessChange::Grant { grant, .. } = grant(ANN, BOB, true) else { unreachable!() };
        let name = |role| Cow::from(if role == ANN { "ann" } else { "bob" });
        assert_eq!(access_item(&grant, name), "bob=r*/ann");
        assert_eq!(access_item(&Grant { grantee: None, ..grant }, name), "=r*/ann");
    }
}
