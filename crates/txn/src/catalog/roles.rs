//! Roles, their attributes and their memberships.
//!
//! A role is identified by its id; its name may change. Its rights follow from its own attributes,
//! and from the roles that it is a member of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thalweg_types::{Error, Result, SqlState};

/// Identifies a role, also after a change of its name. Roles that come with the database have
/// PostgreSQL's OIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleId(pub u32);

impl RoleId {
    /// The superuser of every new database, as which embedded sessions run.
    pub const BOOTSTRAP: RoleId = RoleId(10);
    /// May read every table, as if granted SELECT on it and USAGE on its schema.
    pub const READ_ALL_DATA: RoleId = RoleId(6181);
    /// May change every table.
    pub const WRITE_ALL_DATA: RoleId = RoleId(6182);
    /// May read files of the machine that the database runs on.
    pub const READ_SERVER_FILES: RoleId = RoleId(4569);
    /// May write files of the machine that the database runs on.
    pub const WRITE_SERVER_FILES: RoleId = RoleId(4570);
    /// May see the activity of other sessions.
    pub const MONITOR: RoleId = RoleId(3373);
    /// The first id of roles created by users, as in PostgreSQL.
    const FIRST: RoleId = RoleId(16_384);

    /// True if the role comes with the database and cannot be dropped.
    #[must_use]
    pub fn is_built_in(self) -> bool {
        self < RoleId::FIRST
    }
}

/// The name of [`RoleId::BOOTSTRAP`].
pub const BOOTSTRAP_ROLE: &str = "thalweg";

const PREDEFINED: [(RoleId, &str); 5] = [
    (RoleId::READ_ALL_DATA, "pg_read_all_data"),
    (RoleId::WRITE_ALL_DATA, "pg_write_all_data"),
    (RoleId::READ_SERVER_FILES, "pg_read_server_files"),
    (RoleId::WRITE_SERVER_FILES, "pg_write_server_files"),
    (RoleId::MONITOR, "pg_monitor"),
];

/// A password's SCRAM verifier in PostgreSQL's text form. Never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A user or group, with the attributes that `CREATE ROLE` sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    pub id: RoleId,
    pub name: String,
    pub superuser: bool,
    /// True if it has the privileges of its parent roles without `SET ROLE`.
    pub inherit: bool,
    pub create_role: bool,
    pub create_database: bool,
    pub login: bool,
    /// `None` for no limit.
    pub connection_limit: Option<u32>,
    pub password: Option<Secret>,
    /// Time from which the password is no longer valid, in microseconds since 1970.
    pub valid_until: Option<i64>,
    pub member_of: BTreeMap<RoleId, Membership>,
}

/// A grant of one role to another, kept in the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// True if the member may grant the role to others (`WITH ADMIN OPTION`).
    pub admin: bool,
    pub grantor: RoleId,
}

/// One attribute, as `CREATE ROLE` and `ALTER ROLE` set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoleOption {
    Name(String),
    Superuser(bool),
    Inherit(bool),
    CreateRole(bool),
    CreateDatabase(bool),
    Login(bool),
    ConnectionLimit(Option<u32>),
    Password(Option<Secret>),
    ValidUntil(Option<i64>),
}

/// One step from a set of roles to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoleChange {
    Create {
        id: RoleId,
        name: String,
        options: Vec<RoleOption>,
    },
    Alter {
        id: RoleId,
        options: Vec<RoleOption>,
    },
    Drop {
        id: RoleId,
    },
    /// `GRANT role TO member`. It extends an earlier grant.
    Join {
        role: RoleId,
        member: RoleId,
        membership: Membership,
    },
    Leave {
        role: RoleId,
        member: RoleId,
    },
}

impl Role {
    fn new(id: RoleId, name: &str) -> Role {
        Role {
            id,
            name: name.to_owned(),
            superuser: false,
            inherit: true,
            create_role: false,
            create_database: false,
            login: false,
            connection_limit: None,
            password: None,
            valid_until: None,
            member_of: BTreeMap::new(),
        }
    }

    fn set(&mut self, option: &RoleOption) {
        match option {
            RoleOption::Name(name) => name.clone_into(&mut self.name),
            RoleOption::Superuser(yes) => self.superuser = *yes,
            RoleOption::Inherit(yes) => self.inherit = *yes,
            RoleOption::CreateRole(yes) => self.create_role = *yes,
            RoleOption::CreateDatabase(yes) => self.create_database = *yes,
            RoleOption::Login(yes) => self.login = *yes,
            RoleOption::ConnectionLimit(limit) => self.connection_limit = *limit,
            RoleOption::Password(password) => self.password.clone_from(password),
            RoleOption::ValidUntil(micros) => self.valid_until = *micros,
        }
    }
}

/// All roles by id and by name, always including those that come with the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Role>", into = "Vec<Role>")]
pub struct Roles {
    by_id: BTreeMap<RoleId, Arc<Role>>,
    by_name: BTreeMap<String, RoleId>,
}

impl Default for Roles {
    fn default() -> Roles {
        let mut roles = Roles { by_id: BTreeMap::new(), by_name: BTreeMap::new() };
        let mut bootstrap = Role::new(RoleId::BOOTSTRAP, BOOTSTRAP_ROLE);
        for option in [
            RoleOption::Superuser(true),
            RoleOption::CreateRole(true),
            RoleOption::CreateDatabase(true),
            RoleOption::Login(true),
        ] {
            bootstrap.set(&option);
        }
        roles.put(bootstrap);
        for (id, name) in PREDEFINED {
            roles.put(Role::new(id, name));
        }
        roles
    }
}

impl From<Vec<Role>> for Roles {
    fn from(stored: Vec<Role>) -> Roles {
        let mut roles = Roles::default();
        stored.into_iter().for_each(|role| roles.put(role));
        roles
    }
}

impl From<Roles> for Vec<Role> {
    fn from(roles: Roles) -> Vec<Role> {
        roles.by_id.into_values().map(Arc::unwrap_or_clone).collect()
    }
}

impl Roles {
    /// All roles, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = &Role> {
        self.by_id.values().map(AsRef::as_ref)
    }

    /// The role with this id; `None` if it was dropped.
    #[must_use]
    pub fn get(&self, id: RoleId) -> Option<&Role> {
        self.by_id.get(&id).map(AsRef::as_ref)
    }

    /// The role of this name, which is compared exactly.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Role> {
        self.get(*self.by_name.get(name)?)
    }

    /// An id above those of all present roles.
    pub(crate) fn next_id(&self) -> RoleId {
        let last = self.by_id.keys().next_back().map_or(0, |id| id.0);
        RoleId::FIRST.max(RoleId(last + 1))
    }

    /// False also for a role that does not exist.
    #[must_use]
    pub fn is_superuser(&self, id: RoleId) -> bool {
        self.get(id).is_some_and(|role| role.superuser)
    }

    /// True if a role has the privileges of another without `SET ROLE`.
    #[must_use]
    pub fn has_privileges_of(&self, role: RoleId, other: RoleId) -> bool {
        self.is_superuser(role) || self.reaches(role, other, |member| member.inherit)
    }

    /// True if a role may become another by `SET ROLE`.
    #[must_use]
    pub fn is_member_of(&self, role: RoleId, other: RoleId) -> bool {
        self.is_superuser(role) || self.reaches(role, other, |_| true)
    }

    /// True if a role may grant another role.
    #[must_use]
    pub fn is_admin_of(&self, role: RoleId, other: RoleId) -> bool {
        self.is_superuser(role)
            || self.iter().any(|member| {
                member.member_of.get(&other).is_some_and(|membership| membership.admin)
                    && self.reaches(role, member.id, |_| true)
            })
    }

    fn reaches(&self, from: RoleId, to: RoleId, through: impl Fn(&Role) -> bool) -> bool {
        let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(id) = open.pop() {
            if id == to {
                return self.by_id.contains_key(&id);
            }
            let Some(role) = self.get(id).filter(|role| through(role)) else { continue };
            open.extend(role.member_of.keys().copied().filter(|next| seen.insert(*next)));
        }
        false
    }

    pub(super) fn change(&mut self, change: &RoleChange) -> Result<()> {
        match change {
            RoleChange::Create { id, name, options } => self.create(*id, name, options),
            RoleChange::Alter { id, options } => self.alter(*id, options),
            RoleChange::Drop { id } => self.drop(*id),
            RoleChange::Join { role, member, membership } => self.join(*role, *member, *membership),
            RoleChange::Leave { role, member } => self.leave(*role, *member),
        }
    }

    fn create(&mut self, id: RoleId, name: &str, options: &[RoleOption]) -> Result<()> {
        self.is_free(name)?;
        let mut role = Role::new(id, name);
        options.iter().for_each(|option| role.set(option));
        self.put(role);
        Ok(())
    }

    fn alter(&mut self, id: RoleId, options: &[RoleOption]) -> Result<()> {
        let mut role = self.get(id).ok_or_else(|| no_role_with(id))?.clone();
        for option in options {
            match option {
                RoleOption::Name(name) if *name != role.name => self.is_free(name)?,
                _ => {}
            }
            role.set(option);
        }
        self.take(id);
        self.put(role);
        Ok(())
    }

    fn drop(&mut self, id: RoleId) -> Result<()> {
        self.take(id).ok_or_else(|| no_role_with(id))?;
        for role in self.by_id.values_mut() {
            if role.member_of.contains_key(&id) {
                Arc::make_mut(role).member_of.remove(&id);
            }
        }
        Ok(())
    }

    fn join(&mut self, role: RoleId, member: RoleId, membership: Membership) -> Result<()> {
        let name = |id| self.get(id).map(|role| role.name.clone()).ok_or_else(|| no_role_with(id));
        let (role_name, member_name) = (name(role)?, name(member)?);
        if self.reaches(role, member, |_| true) {
            let message = format!("role \"{role_name}\" is a member of role \"{member_name}\"");
            return Err(Error::new(SqlState::INVALID_GRANT_OPERATION, message));
        }
        let member = self.by_id.get_mut(&member).expect("it was looked up just now");
        let held = Arc::make_mut(member).member_of.entry(role).or_insert(membership);
        held.admin |= membership.admin;
        Ok(())
    }

    fn leave(&mut self, role: RoleId, member: RoleId) -> Result<()> {
        let member = self.by_id.get_mut(&member).ok_or_else(|| no_role_with(member))?;
        Arc::make_mut(member).member_of.remove(&role);
        Ok(())
    }

    fn is_free(&self, name: &str) -> Result<()> {
        if !self.by_name.contains_key(name) {
            return Ok(());
        }
        Err(Error::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")))
    }

    fn put(&mut self, role: Role) {
        self.by_name.insert(role.name.clone(), role.id);
        self.by_id.insert(role.id, Arc::new(role));
    }

    fn take(&mut self, id: RoleId) -> Option<Arc<Role>> {
        let role = self.by_id.remove(&id)?;
        self.by_name.remove(&role.name);
        Some(role)
    }
}

/// `role "…" does not exist`
#[must_use]
pub fn no_role(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// The error of a change that refers to a role that was dropped meanwhile.
pub(super) fn no_role_with(id: RoleId) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("role with OID {} does not exist", id.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEAM: RoleId = RoleId(20_000);
    const ANN: RoleId = RoleId(20_001);
    const BOB: RoleId = RoleId(20_002);

    fn join(role: RoleId, member: RoleId, admin: bool) -> RoleChange {
        let membership = Membership { admin, grantor: RoleId::BOOTSTRAP };
        RoleChange::Join { role, member, membership }
    }

    /// Bob is a member of ann, and ann of the team.
    fn roles() -> Roles {
        let mut roles = Roles::default();
        for (id, name) in [(TEAM, "team"), (ANN, "ann"), (BOB, "bob")] {
            let options = vec![RoleOption::Login(id != TEAM)];
            roles.change(&RoleChange::Create { id, name: name.to_owned(), options }).unwrap();
        }
        roles.change(&join(TEAM, ANN, true)).unwrap();
        roles.change(&join(ANN, BOB, false)).unwrap();
        roles
    }

    #[test]
    fn membership_is_passed_on_and_never_round() {
        let mut roles = roles();
        assert!(roles.is_member_of(BOB, TEAM) && roles.has_privileges_of(BOB, TEAM));
        assert!(roles.is_admin_of(BOB, TEAM) && !roles.is_admin_of(BOB, ANN));
        assert!(!roles.is_member_of(TEAM, BOB));
        let error = roles.change(&join(BOB, TEAM, false)).unwrap_err();
        assert_eq!(error.state(), SqlState::INVALID_GRANT_OPERATION);
        assert_eq!(error.message(), "role \"bob\" is a member of role \"team\"");
    }

    #[test]
    fn who_does_not_inherit_must_become_the_role() {
        let mut roles = roles();
        let options = vec![RoleOption::Inherit(false)];
        roles.change(&RoleChange::Alter { id: ANN, options }).unwrap();
        assert!(roles.has_privileges_of(BOB, ANN) && !roles.has_privileges_of(BOB, TEAM));
        assert!(roles.is_member_of(BOB, TEAM));
    }

    #[test]
    fn a_dropped_role_has_no_members_and_nothing_is_reached_through_it() {
        let mut roles = roles();
        roles.change(&RoleChange::Drop { id: ANN }).unwrap();
        assert!(roles.get(BOB).unwrap().member_of.is_empty());
        assert!(!roles.is_member_of(BOB, TEAM) && !roles.is_member_of(ANN, ANN));
        assert!(roles.named("ann").is_none());
    }

    #[test]
    fn a_new_name_frees_the_old_one() {
        let mut roles = roles();
        let rename = |name: &str| RoleChange::Alter {
            id: ANN,
            options: vec![RoleOption::Name(name.into())],
        };
        assert!(roles.change(&rename("bob")).is_err());
        roles.change(&rename("anna")).unwrap();
        assert!(roles.named("ann").is_none());
        assert_eq!(roles.named("anna").unwrap().id, ANN);
    }

    #[test]
    fn built_in_roles_come_back_where_they_were_not_kept() {
        let mut kept = Vec::from(roles());
        kept.retain(|role| role.id != RoleId::MONITOR);
        assert_eq!(Roles::from(kept), roles());
    }

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", Secret("SCRAM".to_owned())), "Secret");
    }
}
